//! Single looks at a VM, and what is next: those that the random walks do not come to.

use motorpool_backend_proxmox::restore::{
    Ask, Baseline, Done, Failure, Goal, Memory, Next, Outcome, Seen, Waiting,
};
use motorpool_backend_proxmox::{Lock, Power, Problem, Snapshot, Task, TaskEnd, TaskState, Upid, VmStatus};

use crate::model::{name, operation, vm};

const OURS: &str = "motorpool@pve!site";
const ANOTHERS: &str = "root@pam";

fn upid(second: u32, kind: &str, user: &str) -> Upid {
    format!("UPID:pve1:00001000:00001000:{second:08X}:{kind}:101:{user}:").parse().unwrap()
}

fn ended(upid: Upid, exit_status: &str) -> Task {
    Task { upid, state: TaskState::Ended(TaskEnd::parse(exit_status)) }
}

fn snapshot(unfinished: bool) -> Snapshot {
    Snapshot { name: name(), parent: None, taken_at: Some(1), has_memory: false, unfinished }
}

/// A running VM with its snapshot, and nobody at it.
fn at_rest() -> Seen {
    Seen {
        tasks: Vec::new(),
        vm: Some(VmStatus { power: Power::Running, qmpstatus: None, lock: None }),
        snapshots: vec![snapshot(false)],
        call_may_arrive: false,
        token: OURS.to_owned(),
    }
}

fn stopped() -> Option<VmStatus> {
    Some(VmStatus { power: Power::Stopped, qmpstatus: None, lock: None })
}

fn begun(goal: Goal) -> Memory {
    Memory { baseline: Some(Baseline { newest: None }), ..Memory::of(operation(goal)) }
}

fn failed(failure: Failure) -> Next {
    Next::End(Outcome::Failed(failure))
}

#[test]
fn an_operation_begins_with_what_was_there_before() {
    let old = ended(upid(9, "qmrollback", OURS), "OK");
    let seen = Seen { tasks: vec![old.clone()], ..at_rest() };
    let Next::Remember(memory) = Memory::of(operation(Goal::Rollback)).step(&seen) else { panic!() };
    assert_eq!(memory.baseline, Some(Baseline { newest: Some(old.upid) }));
    assert_eq!(memory.step(&seen), Next::Ask(Ask::Stop), "the old rollback is not this operation's");
}

#[test]
fn a_rollback_that_another_has_made_meanwhile_is_not_ours() {
    let theirs = ended(upid(9, "qmrollback", ANOTHERS), "OK");
    let seen = Seen { tasks: vec![theirs], ..at_rest() };
    assert_eq!(begun(Goal::Rollback).step(&seen), Next::Ask(Ask::Stop));
}

#[test]
fn inv_27_whoever_is_at_the_vm_is_waited_for() {
    let running = Task { upid: upid(9, "vzdump", ANOTHERS), state: TaskState::Running };
    let seen = Seen { tasks: vec![running.clone()], ..at_rest() };
    assert_eq!(begun(Goal::Rollback).step(&seen), Next::Await(running.upid));
    // Somebody who looks at its screen is not.
    let looks = Task { upid: upid(9, "vncproxy", ANOTHERS), state: TaskState::Running };
    let seen = Seen { tasks: vec![looks], ..at_rest() };
    assert_eq!(begun(Goal::Rollback).step(&seen), Next::Ask(Ask::Stop));
    // Nor can a task be waited for that we may not see, but its lock.
    let locked = VmStatus { power: Power::Running, qmpstatus: None, lock: Some(Lock::Backup) };
    let seen = Seen { vm: Some(locked), ..at_rest() };
    assert_eq!(begun(Goal::Rollback).step(&seen), Next::LookAgain(Waiting::ForLock(Lock::Backup)));
}

#[test]
fn a_vm_that_was_left_in_a_rollback_is_for_a_person() {
    let locked = VmStatus { power: Power::Stopped, qmpstatus: None, lock: Some(Lock::Rollback) };
    let rollback = upid(9, "qmrollback", OURS);
    let left = failed(Failure::LeftLocked { vm: vm() });
    for goal in [Goal::Rollback, Goal::Snapshot { memory: false }, Goal::Delete] {
        let seen = Seen { vm: Some(locked.clone()), ..at_rest() };
        assert_eq!(begun(goal).step(&seen), left);
        assert_eq!(Memory::of(operation(goal)).step(&seen), left);
    }
    let seen = Seen {
        vm: Some(locked.clone()),
        tasks: vec![ended(rollback.clone(), "unexpected status")],
        ..at_rest()
    };
    assert_eq!(begun(Goal::Rollback).noting(&rollback).step(&seen), left);
    let Next::End(Outcome::Failed(failure)) = left else { panic!() };
    assert!(failure.to_string().contains("`qm unlock 101` on pve1"), "{failure}");

    // While the task runs, or its call may be on its way, the lock is as it should be.
    let running = Task { upid: rollback.clone(), state: TaskState::Running };
    let seen = Seen { vm: Some(locked.clone()), tasks: vec![running], ..at_rest() };
    assert_eq!(begun(Goal::Rollback).noting(&rollback).step(&seen), Next::Await(rollback));
    let seen = Seen { vm: Some(locked), call_may_arrive: true, ..at_rest() };
    assert_eq!(begun(Goal::Rollback).step(&seen), Next::LookAgain(Waiting::ForACall));
}

#[test]
fn what_can_not_be_rolled_back_to_does_not_stop_the_vm() {
    let seen = Seen { snapshots: Vec::new(), ..at_rest() };
    assert_eq!(begun(Goal::Rollback).step(&seen), failed(Failure::SnapshotMissing));
    let seen = Seen { snapshots: vec![snapshot(true)], ..at_rest() };
    assert_eq!(begun(Goal::Rollback).step(&seen), failed(Failure::SnapshotUnfinished));
    let seen = Seen { vm: None, ..at_rest() };
    assert_eq!(begun(Goal::Rollback).step(&seen), failed(Failure::VmMissing { vm: vm() }));
}

#[test]
fn inv_27_a_stop_that_has_not_stopped_it_is_not_enough() {
    let stop = upid(9, "hastop", OURS);
    let seen = Seen { tasks: vec![ended(stop.clone(), "OK")], ..at_rest() };
    assert_eq!(begun(Goal::Rollback).noting(&stop).step(&seen), Next::LookAgain(Waiting::ForTheStop));
    let seen = Seen { vm: stopped(), ..seen };
    assert_eq!(begun(Goal::Rollback).noting(&stop).step(&seen), Next::Ask(Ask::Rollback));
}

#[test]
fn the_proof_is_the_rollback_and_an_old_snapshot_that_is_gone_is_fine() {
    let (rollback, start) = (upid(9, "qmrollback", OURS), upid(10, "qmstart", OURS));
    let tasks = vec![ended(start.clone(), "OK"), ended(rollback.clone(), "WARNINGS: 2")];
    let seen = Seen { tasks, ..at_rest() };
    assert_eq!(begun(Goal::Rollback).noting(&start).step(&seen), Next::Ask(Ask::DeleteSnapshot));
    let seen = Seen { snapshots: Vec::new(), ..seen };
    let done = Done { by: Some(rollback), warnings: 2 };
    assert_eq!(begun(Goal::Rollback).noting(&start).step(&seen), Next::End(Outcome::Done(done)));
}

#[test]
fn inv_27_a_failed_task_is_final_and_says_why() {
    let rollback = upid(9, "qmrollback", OURS);
    let exit_status = "can't rollback, 'mp-1' is not most recent snapshot on 'tank:vm-101-disk-0'";
    let seen = Seen { tasks: vec![ended(rollback.clone(), exit_status)], vm: stopped(), ..at_rest() };
    let task = Failure::Task {
        upid: rollback.clone(),
        problem: Problem::NotNewest,
        exit_status: exit_status.to_owned(),
    };
    assert_eq!(begun(Goal::Rollback).noting(&rollback).step(&seen), failed(task));
}

#[test]
fn fault_15_a_snapshot_that_is_there_was_taken_whatever_a_second_call_came_to() {
    let second = upid(9, "qmsnapshot", OURS);
    let seen = Seen { tasks: vec![ended(second.clone(), "snapshot name 'mp-1' already used")], ..at_rest() };
    let done = Done { by: None, warnings: 0 };
    let next = begun(Goal::Snapshot { memory: false }).noting(&second).step(&seen);
    assert_eq!(next, Next::End(Outcome::Done(done)));
}

#[test]
fn fault_27_a_task_that_nobody_noted_is_adopted_and_ends_the_doubt() {
    let (stop, rollback) = (upid(9, "qmstop", OURS), upid(10, "qmrollback", OURS));
    let running = Task { upid: rollback.clone(), state: TaskState::Running };
    let tasks = vec![running, ended(stop.clone(), "OK")];
    let seen = Seen { tasks, call_may_arrive: true, vm: stopped(), ..at_rest() };
    let memory = begun(Goal::Rollback).noting(&stop);
    assert_eq!(memory.step(&seen), Next::Adopt(rollback.clone()));
    let seen = Seen { call_may_arrive: false, ..seen };
    assert_eq!(memory.noting(&rollback).step(&seen), Next::Await(rollback));
}

#[test]
fn what_is_noted_is_read_again() {
    let memory = begun(Goal::Snapshot { memory: true }).noting(&upid(9, "qmsnapshot", OURS));
    let text = serde_json::to_string(&memory).unwrap();
    assert_eq!(serde_json::from_str::<Memory>(&text).unwrap(), memory);
}
