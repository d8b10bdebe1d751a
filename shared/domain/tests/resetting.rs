//! A machine that is being cleaned while the CI system still knows it: it is deregistered first, and that is tried again like the rest.

mod samples;

use motorpool_domain::pool::{Clean, Rules};
use motorpool_domain::runner::{
    Decision, Desired, Observed, Runner, RunnerState, StateName, Task, TaskOutcome, TaskResult, decide,
    desired, observe,
};
use motorpool_domain::{TaskId, Timestamp};
use samples::{NOW, claim_id, in_state, rules};
use std::time::Duration;

/// An agent that does each task once, as the real one does: what it is told again, it has done.
struct Agent {
    rules: Rules,
    seen: Observed,
    done: Vec<TaskId>,
}

impl Agent {
    fn registered() -> Self {
        let registered = Some(claim_id("a").label());
        Self { seen: Observed { registered, ..Observed::default() }, ..Self::of(Clean::Cleanup) }
    }

    fn of(clean: Clean) -> Self {
        Self { rules: rules(clean), seen: Observed::default(), done: Vec::new() }
    }

    /// Does what it is told at `now`; `fails`: all of it fails.
    fn sync(&mut self, runner: Runner, now: Timestamp, fails: bool) -> Runner {
        if let Desired::Do(task) = desired(&runner, &self.seen, &self.rules, now)
            && !self.done.contains(task.id())
        {
            self.done.push(task.id().clone());
            let outcome = match fails {
                true => TaskOutcome::Failed { why: "no answer".to_owned() },
                false => TaskOutcome::Done,
            };
            if let (Task::Deregister { .. }, TaskOutcome::Done) = (&task, &outcome) {
                self.seen.registered = None;
            }
            self.seen.results.push(TaskResult { task: task.id().clone(), outcome, took_ms: None });
        }
        let Some(event) = observe(&runner, &self.seen, &self.rules) else { return runner };
        match decide(&runner, &event, &self.rules, now) {
            Decision::Change(change) => change.after,
            Decision::Stay | Decision::Refuse(_) => runner,
        }
    }
}

fn next_attempt_at(runner: &Runner) -> Option<Timestamp> {
    let RunnerState::Resetting { not_before, .. } = &runner.state else { return None };
    Some(*not_before)
}

#[test]
fn a_failed_deregistration_is_tried_again_and_then_it_is_cleaned() {
    let mut agent = Agent::registered();
    let mut runner = agent.sync(in_state(StateName::Resetting, true), NOW, true);
    let again = next_attempt_at(&runner).unwrap();
    assert!(again > NOW, "it backs off: {runner:?}");
    runner = agent.sync(runner, NOW, false);
    assert_eq!(agent.done.len(), 1, "nothing is tried before its time");
    runner = agent.sync(runner, again, false);
    assert_eq!(agent.seen.registered, None, "it was not tried again");
    runner = agent.sync(runner, again, false);
    assert_eq!(runner.state, RunnerState::Idle);
    assert!(runner.proof.is_some());
}

#[test]
fn after_the_last_attempt_a_person_must_look_and_is_told_why() {
    let mut agent = Agent::registered();
    let mut runner = in_state(StateName::Resetting, true);
    let mut now = NOW;
    for attempt in 1..=3 {
        runner = agent.sync(runner, now, true);
        assert_eq!(agent.done.len(), attempt, "attempt {attempt} was not made: {runner:?}");
        if attempt < 3 {
            now = next_attempt_at(&runner).unwrap();
        }
    }
    let RunnerState::Quarantined { why } = &runner.state else { panic!("it is {}", runner.state.name()) };
    assert!(why.contains("it could not deregister: no answer"), "{why}");
}

/// Its agent may ask before it knows of the new epoch, when nothing that it reports counts yet.
#[test]
fn what_is_to_be_kept_is_never_cleaned() {
    let keep = Agent::of(Clean::Keep);
    let runner = in_state(StateName::Resetting, true);
    assert_eq!(desired(&runner, &keep.seen, &keep.rules, NOW), Desired::Rest);
    let registered = Agent::registered().seen;
    let told = desired(&runner, &registered, &keep.rules, NOW);
    assert!(matches!(told, Desired::Do(Task::Deregister { .. })), "{told:?}");
}

#[test]
fn inv_18_another_attempt_under_a_shorter_limit_moves_no_deadline_back() {
    let mut agent = Agent::of(Clean::Cleanup);
    let before = in_state(StateName::Resetting, true);
    agent.rules.limits.resetting = Duration::ZERO;
    let after = agent.sync(before.clone(), NOW, true);
    assert!(next_attempt_at(&after) > next_attempt_at(&before), "{after:?}");
    assert_eq!(after.threshold, before.threshold);
}
