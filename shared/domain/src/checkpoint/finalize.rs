//! What a word about the end of a job makes of its checkpoint. Several may come, in any order: the first decides, but a failure overrides a success
//! until the machine's cleaning has begun.

use super::{Checkpoint, CheckpointState, FinalizeSource, Finalized, JobOutcome};
use crate::pool::{CheckpointRules, Dispatch, Rules};
use crate::runner::{Runner, RunnerState};
use crate::time::{Threshold, Timestamp};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finalizing {
    /// The first word of it: the checkpoint's own runner is to be released with it.
    Queued(Box<Checkpoint>),
    /// The job did not go as well as was said before.
    Worse(Box<Checkpoint>),
    /// Nothing changes.
    Already,
}

/// Whoever attends to its machine looks at it as well. Refresh does so after this, should nobody come.
const LOOKED_AFTER: Duration = Duration::from_secs(15);

/// `runner`: the checkpoint's, as it is now, if it is there.
pub fn finalizing(
    checkpoint: &Checkpoint,
    runner: Option<&Runner>,
    status: JobOutcome,
    source: FinalizeSource,
    now: Timestamp,
) -> Finalizing {
    let finalized = Finalized { status, source, at: now };
    let with = |finalized| Checkpoint {
        finalized: Some(finalized),
        look_at: now.after(LOOKED_AFTER),
        ..checkpoint.becoming(CheckpointState::FinalizeQueued)
    };
    match (&checkpoint.state, &checkpoint.finalized) {
        (CheckpointState::Created, None) => Finalizing::Queued(Box::new(with(finalized))),
        (CheckpointState::FinalizeQueued, Some(before))
            if before.status == JobOutcome::Success
                && status != JobOutcome::Success
                && runner.is_some_and(|runner| is_not_cleaned_yet(checkpoint, runner)) =>
        {
            // When it ended was said before; that it failed is news.
            Finalizing::Worse(Box::new(with(Finalized { at: before.at, ..finalized })))
        }
        (
            CheckpointState::Created
            | CheckpointState::FinalizeQueued
            | CheckpointState::Reset { .. }
            | CheckpointState::Deleted { .. }
            | CheckpointState::GcReset { .. },
            _,
        ) => Finalizing::Already,
    }
}

/// When nobody waits for its job any longer: while it runs, that is for its runner's threshold to say.
pub(super) fn over_at(
    checkpoint: &Checkpoint,
    runner: Option<&Runner>,
    rules: &CheckpointRules,
) -> Timestamp {
    let runs = runner.filter(|runner| matches!(runner.state, RunnerState::Running { .. }));
    match runs.and_then(|runner| runner.threshold) {
        Some(Threshold(at)) => at,
        None => checkpoint.created_at.after(rules.lasts),
    }
}

/// Nobody waits for its job any longer.
pub fn is_time_over(
    checkpoint: &Checkpoint,
    runner: Option<&Runner>,
    rules: &CheckpointRules,
    now: Timestamp,
) -> bool {
    over_at(checkpoint, runner, rules) <= now
}

/// What becomes of a checkpoint whose time is over: its runner's threshold passed with it. It stays as it is until its runner is clean, but nobody can
/// finalize it any more. Where somebody else holds the runner, his time is the checkpoint's, and nobody had to say anything before.
pub fn forgotten(
    checkpoint: &Checkpoint,
    runner: &Runner,
    rules: &Rules,
    now: Timestamp,
) -> Option<Checkpoint> {
    let is_over =
        rules.dispatch == Dispatch::Hook && is_time_over(checkpoint, Some(runner), &rules.checkpoints, now);
    match (&checkpoint.state, &checkpoint.finalized) {
        (CheckpointState::Created, None) if is_over => {
            let finalized = Finalized { status: JobOutcome::Canceled, source: FinalizeSource::Gc, at: now };
            Some(Checkpoint {
                finalized: Some(finalized),
                look_at: now,
                ..checkpoint.becoming(CheckpointState::Created)
            })
        }
        (
            CheckpointState::Created
            | CheckpointState::FinalizeQueued
            | CheckpointState::Reset { .. }
            | CheckpointState::Deleted { .. }
            | CheckpointState::GcReset { .. },
            _,
        ) => None,
    }
}

/// Its runner was taken from it, or its holder gave the runner back, and nobody said how the job ended: it was not to its end.
pub fn abandoned(checkpoint: &Checkpoint, runner: &Runner) -> bool {
    let is_its = runner.checkpoint.as_ref() == Some(&checkpoint.name);
    let is_left = match &runner.state {
        RunnerState::Releasing { .. } | RunnerState::Resetting { .. } | RunnerState::Quarantined { .. } => {
            true
        }
        RunnerState::Created { .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => false,
    };
    is_its && is_left && checkpoint.state == CheckpointState::Created && checkpoint.finalized.is_none()
}

/// Its clean task has not been issued: nobody has begun to make good of a success what was none. A runner that a person must look at is cleaned anew
/// once it is let out, and how is settled anew.
fn is_not_cleaned_yet(checkpoint: &Checkpoint, runner: &Runner) -> bool {
    runner.checkpoint.as_ref() == Some(&checkpoint.name)
        && match &runner.state {
            RunnerState::Resetting { step, .. } => step.is_none(),
            RunnerState::Running { .. }
            | RunnerState::Claimed { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. } => true,
            RunnerState::Created { .. }
            | RunnerState::Idle
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => false,
        }
}
