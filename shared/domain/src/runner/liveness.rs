//! When to look whether a runner still lives, and what a look sees. A heartbeat itself changes no index: it is looked at when due.

use crate::pool::{Limits, Rules};
use crate::runner::{Runner, RunnerState, awaits_pause, awaits_step, is_to_be_unpaused};
use crate::time::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Its launch was never confirmed: call the provider again.
    Unlaunched,
    Heard,
    Silent,
}

/// What there is to see at `now`, or nothing for a state that is not looked at.
/// Silence is counted from `listening_since` at the earliest: while the control plane itself was away, nobody could be heard.
/// Who has a fixed token has no agent that must be heard from: it calls when it has a job, and is never silent.
pub fn look(runner: &Runner, limits: &Limits, listening_since: Timestamp, now: Timestamp) -> Option<Look> {
    match &runner.state {
        RunnerState::Created { launched_at: None, .. } => Some(Look::Unlaunched),
        RunnerState::Created { launched_at: Some(_), .. }
        | RunnerState::Resetting { .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Releasing { .. } => {
            let heard_at = last_heard(runner).max(listening_since);
            let is_silent = !runner.has_fixed_token() && now.since(heard_at) >= limits.silence();
            Some(if is_silent { Look::Silent } else { Look::Heard })
        }
        RunnerState::Quarantined { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => None,
    }
}

/// Whether its heartbeat is overdue, though it need not be silent yet. Nothing of who never had one, need have none, or is not looked at.
pub fn overdue(runner: &Runner, limits: &Limits, listening_since: Timestamp, now: Timestamp) -> Option<bool> {
    let seen_at = runner.seen_at.filter(|_| !runner.has_fixed_token())?;
    match look(runner, limits, listening_since, now)? {
        Look::Unlaunched => None,
        Look::Heard => Some(now.since(seen_at.max(listening_since)) >= limits.overdue()),
        Look::Silent => Some(true),
    }
}

/// When the next look is due, if the runner stays as it is.
pub fn next_look(runner: &Runner, rules: &Rules, now: Timestamp) -> Option<Timestamp> {
    let look = next_look_at_its_heartbeat(runner, &rules.limits, now)?;
    let waits = awaits_pause(runner, rules) || awaits_step(runner) || is_to_be_unpaused(runner, rules);
    Some(if waits { look.min(now.after(rules.checkpoints.poll)) } else { look })
}

fn next_look_at_its_heartbeat(runner: &Runner, limits: &Limits, now: Timestamp) -> Option<Timestamp> {
    match &runner.state {
        RunnerState::Created { launched_at: None, .. } => Some(now.after(limits.heartbeat)),
        RunnerState::Created { launched_at: Some(_), .. }
        | RunnerState::Resetting { .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Releasing { .. } => {
            let expected = last_heard(runner).after(limits.silence());
            Some(if expected > now { expected } else { now.after(limits.silence()) })
        }
        RunnerState::Quarantined { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => None,
    }
}

fn last_heard(runner: &Runner) -> Timestamp {
    runner.seen_at.map_or(runner.entered_at, |seen_at| seen_at.max(runner.entered_at))
}
