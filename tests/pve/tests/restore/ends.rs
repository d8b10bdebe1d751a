//! What ends an operation early: a task that failed, a VM that is for a person, a snapshot that is not there, time.

use std::time::Duration;

use motorpool_backend_proxmox::restore::{DriveError, Failure, Goal, Memory, Outcome, Waiting};
use motorpool_backend_proxmox::{Limits, Lock, Problem};
use motorpool_pve_tests::Fault;

use crate::stage::{Stage, operation, pace, vm};

fn fails(kind: &'static str) -> Fault {
    Fault::TaskFails { kind, exit_status: "storage 'local-lvm' is not online".to_owned() }
}

async fn failure(stage: &Stage, goal: Goal) -> Failure {
    match stage.run(goal).await {
        Ok(Outcome::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn inv_27_a_rollback_that_fails_on_its_way_is_for_a_person() {
    let stage = Stage::used().await;
    stage.cluster().state().order(fails("qmrollback"));
    let failed = failure(&stage, Goal::Rollback).await;
    assert_eq!(failed, Failure::LeftLocked { vm: vm() });
    assert!(failed.to_string().contains("`qm unlock 101` on pve1"), "{failed}");
    assert!(!stage.cluster().state().vm(101).running, "it is not started on half a disk");
    // However often it is ordered, nothing is asked of it.
    let tasks = stage.cluster().state().tasks().len();
    for goal in [Goal::Rollback, Goal::Delete, Goal::Snapshot { memory: false }] {
        assert_eq!(failure(&stage, goal).await, Failure::LeftLocked { vm: vm() });
    }
    assert_eq!(stage.cluster().state().tasks().len(), tasks);
    // The person has come: another operation begins anew.
    stage.cluster().state().vm_mut(101).lock = None;
    assert!(matches!(stage.run(Goal::Rollback).await, Ok(Outcome::Done(_))));
    assert_eq!(stage.cluster().state().vm(101).rollbacks, 1);
}

#[tokio::test]
async fn inv_27_nothing_is_done_behind_a_task_that_failed() {
    for (kind, begun) in [("qmstop", 1), ("qmstart", 3)] {
        let stage = Stage::used().await;
        let before = stage.cluster().state().tasks().len();
        stage.cluster().state().order(fails(kind));
        let failed = failure(&stage, Goal::Rollback).await;
        assert!(matches!(&failed, Failure::Task { problem: Problem::Failed, .. }), "{failed}");
        assert!(failed.to_string().contains("storage 'local-lvm' is not online"), "{failed}");
        assert_eq!(stage.cluster().state().tasks().len(), before + begun, "{kind}");
        // Whoever goes on with the same operation is told the same.
        let noted = stage.disk.last().unwrap();
        let again = stage.go_on(noted, pace().may_arrive_for).await;
        assert!(matches!(again, Ok(Outcome::Failed(same)) if same == failed));
    }
}

#[tokio::test]
async fn what_is_missing_is_missed_before_anything_is_stopped() {
    let stage = Stage::new().await;
    assert_eq!(failure(&stage, Goal::Rollback).await, Failure::SnapshotMissing);
    assert!(stage.cluster().state().vm(101).running);
    let Ok(Outcome::Done(done)) = stage.run(Goal::Delete).await else { panic!() };
    assert_eq!(done.by, None, "what is not there need not be deleted");
    stage.cluster().state().remove_vm(101);
    assert_eq!(failure(&stage, Goal::Rollback).await, Failure::VmMissing { vm: vm() });
}

#[tokio::test]
async fn on_zfs_a_newer_snapshot_stands_in_the_way() {
    let stage = Stage::new().await;
    stage.cluster().state().vm_mut(101).storage = "tank".to_owned();
    assert!(matches!(stage.run(Goal::Snapshot { memory: false }).await, Ok(Outcome::Done(_))));
    let by_hand = "by-hand".parse().unwrap();
    let taken = stage.proxmox.snapshot(&vm(), &by_hand, false).await.unwrap();
    stage.proxmox.ended(&taken, Duration::from_secs(60), &pace()).await.unwrap();
    let failed = failure(&stage, Goal::Rollback).await;
    assert!(matches!(&failed, Failure::Task { problem: Problem::NotNewest, .. }), "{failed}");
}

#[tokio::test]
async fn a_snapshot_that_can_not_be_made_says_why() {
    let stage = Stage::new().await;
    stage.cluster().state().vm_mut(101).storage = "plain".to_owned();
    let failed = failure(&stage, Goal::Snapshot { memory: false }).await;
    assert!(matches!(&failed, Failure::Task { problem: Problem::NoSnapshots, .. }), "{failed}");
}

#[tokio::test]
async fn inv_27_somebody_elses_backup_is_waited_for() {
    let stage = Stage::used().await;
    stage.cluster().state().vm_mut(101).lock = Some("backup".to_owned());
    let upto = stage.cluster().state().lines().len() + 12;
    let over = async {
        while stage.cluster().state().lines().len() < upto {
            tokio::task::yield_now().await;
        }
        assert_eq!(stage.cluster().state().count("qmstop"), 0);
        stage.cluster().state().vm_mut(101).lock = None;
    };
    let (outcome, ()) = tokio::join!(stage.run(Goal::Rollback), over);
    assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
    stage.assert_clean(1);
}

#[tokio::test]
async fn what_is_not_over_in_time_says_what_it_waits_for_and_can_be_gone_on_with() {
    let mut stage = Stage::used().await;
    stage.limits = Limits { rollback: Duration::ZERO, delete_snapshot: Duration::ZERO, ..Limits::default() };
    stage.cluster().state().vm_mut(101).lock = Some("backup".to_owned());
    let error = stage.run(Goal::Rollback).await.unwrap_err();
    let waits = DriveError::NotInTime { within: Duration::ZERO, waiting: Waiting::ForLock(Lock::Backup) };
    assert_eq!(error.to_string(), waits.to_string());
    stage.cluster().state().vm_mut(101).lock = None;
    stage.limits = Limits::default();
    let outcome = stage.go_on(Memory::of(operation(Goal::Rollback)), pace().may_arrive_for).await;
    assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
    stage.assert_clean(1);
}

#[tokio::test]
async fn a_refusal_ends_it_at_once() {
    let stage = Stage::used().await;
    stage.cluster().state().take_away("motorpool@pve!site", "VM.PowerMgmt");
    let error = stage.run(Goal::Rollback).await.unwrap_err();
    assert!(error.to_string().contains("the token lacks VM.PowerMgmt on /vms/101"), "{error}");
}
