//! Runners with a fixed token, which have no agent that syncs: whether somebody must have hands on their machines, and what happens to them where nobody
//! need. What an agent would report of such a machine is known without one: nothing was asked of it, and so nothing is left to do.

use super::{Observed, Runner, RunnerEvent, RunnerState, TaskOutcome, TaskResult, observe};
use crate::ids::TaskId;
use crate::pool::{Clean, Commands, Dispatch, Rules};

/// Whether somebody must run commands on the runner's machine before it can take a job. Nobody need where a fixed token is used by a CI system's own
/// hooks, the pool asks for no proof, and there is no script that makes a machine ready.
pub fn needs_hands(runner: &Runner, rules: &Rules) -> bool {
    let Commands { pre_runner, .. } = &rules.commands;
    let nobody_need = rules.dispatch == Dispatch::Hook && rules.clean == Clean::Keep && pre_runner.is_none();
    !(runner.has_fixed_token() && nobody_need)
}

/// The next step of a runner on whose machine nobody needs hands. Nothing while it waits for a job, its job, its CI system or a person; and nothing of
/// any other runner.
pub fn advance_unattended(runner: &Runner, rules: &Rules) -> Option<RunnerEvent> {
    if needs_hands(runner, rules) {
        return None;
    }
    match &runner.state {
        RunnerState::Created { launched_at: Some(_), .. }
        | RunnerState::Releasing { .. }
        | RunnerState::Resetting { .. } => observe(runner, &untouched(runner), rules),
        // Its machine counts as there once its launch is noted, like any other's.
        RunnerState::Created { launched_at: None, .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Quarantined { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => None,
    }
}

/// What an agent would say that had nothing to do: it is prepared, and registered nowhere.
fn untouched(runner: &Runner) -> Observed {
    let prepared = TaskResult {
        task: TaskId::of(runner.epoch, "prepare", 1),
        outcome: TaskOutcome::Done,
        took_ms: None,
    };
    Observed { results: vec![prepared], ..Observed::default() }
}
