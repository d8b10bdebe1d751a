//! How long each step of cleaning a machine took, by its agent's word.

use super::{Runner, RunnerState, TaskOutcome, TaskResult};
use crate::audit::AuditResult;
use crate::ids::TaskId;
use crate::pool::LONGEST_LIMIT;
use std::time::Duration;

/// What a machine goes through between two jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleaningStep {
    Reset,
    /// After a job that went well.
    Cleanup,
    Readiness,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepTaken {
    pub step: CleaningStep,
    pub result: AuditResult,
    pub took: Duration,
}

/// The steps of an attempt that has ended between `before` and `after`, as its agent tells of them. An agent of the version before does not say how
/// long a task took.
pub fn steps_taken(before: &Runner, after: &Runner, results: &[TaskResult]) -> Vec<StepTaken> {
    let attempt_of = |runner: &Runner| match runner.state {
        RunnerState::Resetting { attempt, .. } => Some((runner.epoch, attempt)),
        RunnerState::Created { .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Releasing { .. }
        | RunnerState::Quarantined { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => None,
    };
    let Some((epoch, attempt)) = attempt_of(before).filter(|attempt| attempt_of(after) != Some(*attempt))
    else {
        return Vec::new();
    };
    let steps = [
        (CleaningStep::Reset, "reset"),
        (CleaningStep::Cleanup, "cleanup"),
        (CleaningStep::Readiness, "readiness"),
    ];
    let taken = |(step, kind): (CleaningStep, &str)| {
        let task = TaskId::of(epoch, kind, attempt);
        let TaskResult { task: _, outcome, took_ms } = results.iter().find(|result| result.task == task)?;
        let result = match outcome {
            TaskOutcome::Done => AuditResult::Ok,
            TaskOutcome::Failed { .. } => AuditResult::Error,
        };
        // An agent's word: it must not spoil the sum of all others' by a number that nothing can have taken.
        Some(StepTaken { step, result, took: Duration::from_millis((*took_ms)?).min(LONGEST_LIMIT) })
    };
    steps.into_iter().filter_map(taken).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use crate::time::Timestamp;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn on_attempt(attempt: u32) -> Runner {
        let state = RunnerState::Resetting { attempt, not_before: NOW, why: String::new(), step: None };
        Runner { state, ..Runner::intent(samples::new_runner("mac-01", NOW), NOW) }
    }

    fn told(task: &str, outcome: TaskOutcome, took_ms: Option<u64>) -> TaskResult {
        TaskResult { task: task.parse().unwrap(), outcome, took_ms }
    }

    fn idle() -> Runner {
        Runner { state: RunnerState::Idle, ..on_attempt(1) }
    }

    #[test]
    fn the_steps_of_an_attempt_are_those_of_its_own_tasks() {
        let failed = || TaskOutcome::Failed { why: "exit code 1".to_owned() };
        let results = [
            told("1-deregister-1", TaskOutcome::Done, Some(10)),
            told("1-reset-1", failed(), Some(20)),
            told("1-reset-2", TaskOutcome::Done, Some(30)),
            told("1-readiness-2", failed(), Some(40)),
            told("0-cleanup-2", TaskOutcome::Done, Some(50)),
        ];
        let step = |step, result, took| StepTaken { step, result, took: Duration::from_millis(took) };
        let first = [step(CleaningStep::Reset, AuditResult::Error, 20)];
        assert_eq!(steps_taken(&on_attempt(1), &on_attempt(2), &results), first);
        let second = [
            step(CleaningStep::Reset, AuditResult::Ok, 30),
            step(CleaningStep::Readiness, AuditResult::Error, 40),
        ];
        assert_eq!(steps_taken(&on_attempt(2), &on_attempt(3), &results), second);
        assert_eq!(steps_taken(&on_attempt(2), &idle(), &results), second);
        assert_eq!(steps_taken(&on_attempt(3), &idle(), &results), []);
    }

    #[test]
    fn what_no_task_can_have_taken_counts_as_the_longest_that_one_may() {
        let lies = [told("1-reset-1", TaskOutcome::Done, Some(u64::MAX))];
        let taken = steps_taken(&on_attempt(1), &idle(), &lies);
        assert_eq!(taken.iter().map(|step| step.took).collect::<Vec<_>>(), [LONGEST_LIMIT]);
    }

    #[test]
    fn nothing_is_told_twice_and_what_an_older_agent_does_not_say_is_not_invented() {
        let unsaid = [told("1-reset-1", TaskOutcome::Done, None)];
        assert_eq!(steps_taken(&on_attempt(1), &idle(), &unsaid), []);
        let said = [told("1-reset-1", TaskOutcome::Done, Some(1))];
        assert_eq!(steps_taken(&on_attempt(1), &on_attempt(1), &said), []);
        assert_eq!(steps_taken(&idle(), &idle(), &said), []);
    }
}
