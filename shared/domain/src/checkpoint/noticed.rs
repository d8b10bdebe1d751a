//! What a checkpoint makes of its runner: how it is to be cleaned, whether that was done, and when to look again. A runner's transition never has to
//! write its checkpoint: whoever looks notices.

use super::finalize::over_at;
use super::{Checkpoint, CheckpointState, JobOutcome};
use crate::pool::{CheckpointRules, Clean, Dispatch, Rules};
use crate::runner::{CleanStep, Runner, RunnerState, Wear};
use crate::time::Timestamp;
use std::time::Duration;

/// While a person must look at the runner, nobody need look at the checkpoint often.
const QUARANTINED: Duration = Duration::from_secs(300);

/// How a runner that is being cleaned is to be cleaned. `checkpoint`: the one that its record names.
pub fn clean_step(
    runner: &Runner,
    checkpoint: Option<&Checkpoint>,
    rules: &Rules,
    now: Timestamp,
) -> CleanStep {
    if rules.clean != Clean::Reset {
        return CleanStep::Cleanup;
    }
    let went_well = checkpoint.and_then(|checkpoint| checkpoint.finalized).map(|it| it.status)
        == Some(JobOutcome::Success);
    let has_cleanup = runner.commands.cleanup.is_some() || rules.commands.cleanup.is_some();
    if went_well && has_cleanup && !is_worn(runner, &rules.checkpoints, now) {
        CleanStep::Cleanup
    } else {
        CleanStep::Reset
    }
}

/// So much was done on it since its last reset that cleaning up is no longer enough.
fn is_worn(runner: &Runner, rules: &CheckpointRules, now: Timestamp) -> bool {
    let Wear { jobs, since } = runner.wear.unwrap_or(Wear { jobs: 0, since: now });
    jobs.saturating_add(1) >= rules.reset_every_jobs || now.since(since) >= rules.reset_every
}

/// The checkpoint at its end, if its runner is clean, gone or another's by now. `runner`: nothing if there is no such record.
pub fn ended(checkpoint: &Checkpoint, runner: Option<&Runner>, now: Timestamp) -> Option<Checkpoint> {
    if !checkpoint.state.is_active() {
        return None;
    }
    let is_its = |runner: &&Runner| runner.checkpoint.as_ref() == Some(&checkpoint.name);
    let state = match runner {
        Some(runner) if is_its(&runner) && !is_over(runner) => return None,
        Some(runner) if is_cleaned_since(runner, checkpoint) => proven(checkpoint, now),
        Some(_) | None => gone(checkpoint, now),
    };
    Some(checkpoint.becoming(state))
}

/// Its epoch is a later one, and it is the same machine's: one that was registered again under its id has proven nothing of what it was before.
fn is_cleaned_since(runner: &Runner, checkpoint: &Checkpoint) -> bool {
    let is_new =
        matches!(runner.state, RunnerState::Created { .. }) || runner.made_at > checkpoint.created_at;
    !is_over(runner) && !is_new && runner.epoch > checkpoint.epoch
}

fn is_over(runner: &Runner) -> bool {
    match &runner.state {
        RunnerState::Terminating { .. } | RunnerState::Terminated { .. } => true,
        RunnerState::Created { .. }
        | RunnerState::Resetting { .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Releasing { .. }
        | RunnerState::Quarantined { .. } => false,
    }
}

fn proven(checkpoint: &Checkpoint, at: Timestamp) -> CheckpointState {
    let status = checkpoint.finalized.map(|finalized| finalized.status);
    match (&checkpoint.state, status) {
        (CheckpointState::FinalizeQueued, Some(JobOutcome::Success)) => {
            CheckpointState::Deleted { at, why: "what its job left is cleaned up".to_owned() }
        }
        (CheckpointState::FinalizeQueued, Some(JobOutcome::Failure | JobOutcome::Canceled) | None) => {
            CheckpointState::Reset { at, why: "its machine was cleaned after its job failed".to_owned() }
        }
        (
            CheckpointState::Created
            | CheckpointState::Reset { .. }
            | CheckpointState::Deleted { .. }
            | CheckpointState::GcReset { .. },
            _,
        ) => CheckpointState::GcReset {
            at,
            why: "nobody said that its job has ended; its machine was cleaned".to_owned(),
        },
    }
}

fn gone(checkpoint: &Checkpoint, at: Timestamp) -> CheckpointState {
    let why = "its machine is gone".to_owned();
    match &checkpoint.state {
        CheckpointState::FinalizeQueued => CheckpointState::Reset { at, why },
        CheckpointState::Created
        | CheckpointState::Reset { .. }
        | CheckpointState::Deleted { .. }
        | CheckpointState::GcReset { .. } => CheckpointState::GcReset { at, why },
    }
}

/// When an active checkpoint is worth another look, if nothing wakes whoever waits for it. `polls`: its CI system can be asked about its job.
pub fn next_look(
    checkpoint: &Checkpoint,
    runner: Option<&Runner>,
    rules: &Rules,
    polls: bool,
    now: Timestamp,
) -> Timestamp {
    let in_quarantine = runner.is_some_and(|runner| matches!(runner.state, RunnerState::Quarantined { .. }));
    if in_quarantine {
        return now.after(QUARANTINED);
    }
    // Who looks before the time for it has that time stay.
    let stays = (checkpoint.look_at > now).then_some(checkpoint.look_at);
    if checkpoint.finalized.is_some() {
        return stays.unwrap_or_else(|| now.after(rules.limits.heartbeat));
    }
    let over_at = over_at(checkpoint, runner, &rules.checkpoints);
    let next_poll = stays.unwrap_or_else(|| now.after(rules.checkpoints.poll));
    let look_at = if polls { over_at.min(next_poll) } else { over_at };
    // A runner that is late to be released is not looked at without a pause.
    look_at.max(now.after(Duration::from_secs(1)))
}

/// Another job has come to its machine, which its CI system hands out one after the other: this one may be over, and its CI system is asked at once.
/// Not where somebody is about to ask: it is asked no more often than it is polled, however many jobs come.
pub fn is_asked_sooner(checkpoint: &Checkpoint, rules: &Rules, now: Timestamp) -> bool {
    let runs = checkpoint.state == CheckpointState::Created && checkpoint.finalized.is_none();
    let can_be_asked = rules.dispatch == Dispatch::Hook && rules.ci.is_some();
    runs && can_be_asked && checkpoint.look_at > now.after(rules.checkpoints.poll)
}
