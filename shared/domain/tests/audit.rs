//! How a runner's entries in the audit log tell what came of cleaning it.

mod samples;

use motorpool_domain::pool::Clean;
use motorpool_domain::runner::{Decision, ProofKind, Runner, RunnerEvent, RunnerState, StateName, decide};
use motorpool_domain::{Actor, AuditEntry, AuditResult, Timestamp};
use samples::{NOW, hook_rules, in_state};
use std::time::Duration;

const TOOK: Duration = Duration::from_millis(3_200);

fn told(before: &Runner, event: &RunnerEvent, at: Timestamp) -> (Option<AuditResult>, Option<u64>) {
    let Decision::Change(change) = decide(before, event, &hook_rules(Clean::Reset), at) else {
        return (None, None);
    };
    let entry = AuditEntry::of_runner(at, Actor::Control, before, &change.after, &change.why);
    (entry.result, entry.duration_ms)
}

fn on_attempt(attempt: u32) -> Runner {
    let why = "its job ended".to_owned();
    let state = RunnerState::Resetting { attempt, not_before: NOW, why, step: None };
    Runner { state, ..in_state(StateName::Resetting, true) }
}

#[test]
fn an_attempt_to_clean_came_out_well_or_not_and_took_its_time() {
    let proven = RunnerEvent::CleanProven { how: ProofKind::Reset, task: None };
    let failed = RunnerEvent::CleanFailed { why: "exit code 1".to_owned() };
    let at = NOW.after(TOOK);
    assert_eq!(told(&on_attempt(1), &proven, at), (Some(AuditResult::Ok), Some(3_200)));
    assert_eq!(told(&on_attempt(1), &failed, at), (Some(AuditResult::Error), Some(3_200)), "tried again");
    assert_eq!(told(&on_attempt(3), &failed, at), (Some(AuditResult::Error), Some(3_200)), "given up");
}

#[test]
fn while_the_ci_system_had_not_paused_it_nobody_cleaned_it() {
    let proven = RunnerEvent::CleanProven { how: ProofKind::Reset, task: None };
    let paused = NOW.after(Duration::from_secs(30));
    let runner = Runner { paused_at: Some(paused), ..on_attempt(1) };
    assert_eq!(told(&runner, &proven, paused.after(TOOK)), (Some(AuditResult::Ok), Some(3_200)));
}

#[test]
fn a_transition_that_ends_no_attempt_has_no_result() {
    for (state, event) in [
        (StateName::Releasing, RunnerEvent::Deregistered),
        (StateName::Running, RunnerEvent::Release { why: "its job ended".to_owned() }),
        (StateName::Resetting, RunnerEvent::ProviderGone),
        (StateName::Resetting, RunnerEvent::Paused),
    ] {
        assert_eq!(told(&in_state(state, true), &event, NOW), (None, None), "{event:?}");
    }
}
