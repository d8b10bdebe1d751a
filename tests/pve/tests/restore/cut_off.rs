//! The driver is killed before and after each of its calls, and each answer is lost.

use motorpool_backend_proxmox::restore::{Goal, Memory, Outcome};
use motorpool_pve_tests::Fault;

use crate::stage::{Stage, operation, pace};

#[tokio::test]
async fn inv_27_a_reset_without_trouble() {
    let stage = Stage::used().await;
    let before = stage.cluster().state().lines().len();
    let outcome = stage.run(Goal::Rollback).await.unwrap();
    stage.assert_clean(1);
    let state = stage.cluster().state();
    let Outcome::Done(done) = outcome else { panic!("{outcome:?}") };
    let rollback = state.tasks().iter().find(|task| task.kind == "qmrollback").unwrap();
    assert_eq!(done.by.unwrap().as_str(), rollback.upid, "the proof is the rollback's own task");
    // One look before each of the four calls and one at the end, of three calls each; the rest asks for tasks that run.
    let lines = &state.lines()[before..];
    let looks = |line: &str| lines.iter().filter(|it| *it == line).count();
    for line in ["tasks", "qemu/101/status/current", "qemu/101/snapshot"] {
        assert_eq!(looks(&format!("GET nodes/pve1/{line}")), 5, "{lines:#?}");
    }
    println!("{} calls to Proxmox VE for a reset", lines.len());
}

#[tokio::test]
async fn fault_15_each_answer_is_lost_in_turn() {
    for line in [
        "POST nodes/pve1/qemu/101/status/stop",
        "/rollback",
        "POST nodes/pve1/qemu/101/status/start",
        "DELETE",
    ] {
        let stage = Stage::used().await;
        let name = operation(Goal::Rollback).snapshot;
        let line_ends = match line {
            "DELETE" => format!("DELETE nodes/pve1/qemu/101/snapshot/{name}"),
            other => other.to_owned(),
        };
        stage.cluster().state().order(Fault::LoseTheAnswer { line_ends });
        assert!(matches!(stage.run(Goal::Rollback).await, Ok(Outcome::Done(_))), "{line}");
        stage.assert_clean(1);
    }
}

#[tokio::test]
async fn fault_15_a_snapshot_whose_answer_was_lost_is_taken_once() {
    let stage = Stage::new().await;
    stage
        .cluster()
        .state()
        .order(Fault::LoseTheAnswer { line_ends: "POST nodes/pve1/qemu/101/snapshot".to_owned() });
    assert!(matches!(stage.run(Goal::Snapshot { memory: false }).await, Ok(Outcome::Done(_))));
    assert_eq!(stage.cluster().state().count("qmsnapshot"), 1);
    // Ordered again, it is there already.
    let Ok(Outcome::Done(done)) = stage.run(Goal::Snapshot { memory: false }).await else { panic!() };
    assert_eq!(done.by, None);
    assert_eq!(stage.cluster().state().count("qmsnapshot"), 1);
}

/// The n-th call is the last that this driver makes: it is made, and its answer is never read. Another one goes on with what was noted.
#[tokio::test]
async fn fault_27_the_driver_is_killed_after_each_of_its_calls() {
    let calls = {
        let stage = Stage::used().await;
        let before = stage.cluster().state().lines().len();
        stage.run(Goal::Rollback).await.unwrap();
        stage.cluster().state().lines().len() - before
    };
    for last in 1..=calls {
        let stage = Stage::used().await;
        let upto = stage.cluster().state().lines().len() + last;
        let made_that_call = async {
            while stage.cluster().state().lines().len() < upto {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = made_that_call => {}
            _ = stage.run(Goal::Rollback) => {}
        }
        // What its snapshot had noted is of another operation.
        let fresh = Memory::of(operation(Goal::Rollback));
        let noted =
            stage.disk.last().filter(|memory| memory.operation.goal == Goal::Rollback).unwrap_or(fresh);
        let outcome = stage.go_on(noted, pace().may_arrive_for).await;
        assert!(matches!(outcome, Ok(Outcome::Done(_))), "killed after call {last}: {outcome:?}");
        stage.assert_clean(1);
    }
}

#[tokio::test]
async fn a_node_that_is_out_of_reach_for_a_while_holds_it_up_and_no_more() {
    let stage = Stage::used().await;
    stage.cluster().state().set_reachable("pve1", false);
    let upto = stage.cluster().state().lines().len() + 5;
    let back = async {
        while stage.cluster().state().lines().len() < upto {
            tokio::task::yield_now().await;
        }
        stage.cluster().state().set_reachable("pve1", true);
    };
    let (outcome, ()) = tokio::join!(stage.run(Goal::Rollback), back);
    assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
    stage.assert_clean(1);
}
