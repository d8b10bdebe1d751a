//! Whether a runner waits for its CI system: until that brings it no more jobs it is not cleaned, and once it is clean it is brought jobs again. And
//! whether it waits for how it is to be cleaned. Only where the CI system hands out work by itself; a claim's runner has a label that nobody else asks for.

use super::{Runner, RunnerState};
use crate::ci::{CiBinding, CiSystem, Registration};
use crate::ids::Label;
use crate::pool::{Dispatch, Rules};
use crate::time::Timestamp;

fn is_paused_in_ci(rules: &Rules) -> bool {
    rules.dispatch == Dispatch::Hook && rules.ci.is_some()
}

/// Nothing is done to it before its CI system has said that it brings it no job.
pub fn awaits_pause(runner: &Runner, rules: &Rules) -> bool {
    let is_to_be_cleaned =
        matches!(runner.state, RunnerState::Releasing { .. } | RunnerState::Resetting { .. });
    is_to_be_cleaned && is_paused_in_ci(rules) && runner.paused_at.is_none()
}

/// Its CI system is to bring it no more jobs, and has not said so yet: before it is cleaned, and while a person must look.
pub fn is_to_be_paused(runner: &Runner, rules: &Rules) -> bool {
    let is_quarantined = matches!(runner.state, RunnerState::Quarantined { .. });
    awaits_pause(runner, rules) || (is_quarantined && is_paused_in_ci(rules) && runner.paused_at.is_none())
}

/// It is clean, and its CI system does not know yet.
pub fn is_to_be_unpaused(runner: &Runner, rules: &Rules) -> bool {
    is_open_in_ci(runner, rules) && runner.paused_at.is_some()
}

/// Its CI system should bring it jobs.
pub fn is_open_in_ci(runner: &Runner, rules: &Rules) -> bool {
    runner.state == RunnerState::Idle && is_paused_in_ci(rules)
}

/// It waits for its CI system for longer than a machine may take to be clean: to be paused before it is cleaned, or to be brought jobs again. A job's
/// machine is not meant: its job may run on, and its checkpoint has a time of its own.
pub fn is_held_up_by_ci(runner: &Runner, rules: &Rules, now: Timestamp) -> bool {
    let awaits_pause = awaits_pause(runner, rules) && runner.checkpoint.is_none();
    let waits = awaits_pause || is_to_be_unpaused(runner, rules);
    waits && now.since(runner.entered_at) >= rules.resets_within()
}

/// Nobody has said yet how it is to be cleaned, and how its job ended decides.
pub fn awaits_step(runner: &Runner) -> bool {
    matches!(runner.state, RunnerState::Resetting { step: None, .. }) && runner.checkpoint.is_some()
}

/// What a CI system's calls name a runner by: the registration that was made for it, or what an operator said.
pub fn known_in_ci(runner: &Runner, binding: &CiBinding) -> Option<String> {
    let made = runner.registration.as_ref();
    let made = made.filter(|made| made.system == binding.system).map(|made| made.id.clone());
    match binding.system {
        CiSystem::Jenkins => Some(runner.named_by_hand()),
        CiSystem::GitHub | CiSystem::GitLab => made.or_else(|| runner.ci_runner.clone()),
    }
}

/// Whom a CI system is told to bring no more jobs to, before the machine is cleaned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToPause {
    /// It calls the runner so.
    Known(String),
    /// Nobody: it brings this machine no jobs but by a registration of ours, and there is none. Its agent takes that back before it cleans anything.
    /// Or the system has no such call.
    Nobody,
    /// It brings the machine jobs by a registration that is not ours, and no operator has said as what.
    Unnamed,
}

pub fn to_pause(runner: &Runner, binding: &CiBinding) -> ToPause {
    match known_in_ci(runner, binding) {
        Some(known) => ToPause::Known(known),
        None if runner.has_fixed_token() && goes_by_number(binding.system) => ToPause::Unnamed,
        None => ToPause::Nobody,
    }
}

/// Whether a runner with a fixed token can be paused only if an operator has said what its CI system calls it: nobody registers it for us there.
pub fn must_be_named(rules: &Rules) -> bool {
    rules.dispatch == Dispatch::Hook && rules.ci.as_ref().is_some_and(|ci| goes_by_number(ci.system))
}

/// It waits until an operator says what its CI system calls it.
pub fn awaits_name(runner: &Runner, rules: &Rules) -> bool {
    let is_unnamed = |binding| to_pause(runner, binding) == ToPause::Unnamed;
    is_to_be_paused(runner, rules) && rules.ci.as_ref().is_some_and(is_unnamed)
}

/// Whether it is told to pause a runner by a number of its own. GitHub can't be told, and a node of Jenkins' is by default called what its machine is.
fn goes_by_number(system: CiSystem) -> bool {
    match system {
        CiSystem::GitLab => true,
        CiSystem::GitHub | CiSystem::Jenkins => false,
    }
}

impl Runner {
    /// What a CI system lists it as beside a job that it had. `made`: the registration by which the job came, if we made one.
    pub fn listed_in_ci(&self, system: CiSystem, made: Option<&Registration>) -> Option<String> {
        let made = made.filter(|made| made.system == system);
        match system {
            CiSystem::GitHub => Some(made.map_or_else(|| self.named_by_hand(), |made| made.name.clone())),
            CiSystem::Jenkins => Some(self.named_by_hand()),
            CiSystem::GitLab => made.map(|made| made.id.clone()).or_else(|| self.ci_runner.clone()),
        }
    }

    /// By default an operator calls a machine the same everywhere.
    fn named_by_hand(&self) -> String {
        self.ci_runner.clone().unwrap_or_else(|| self.id.to_string())
    }
}

/// It is idle, and its CI system's program on it waits for jobs.
pub fn waits_for_ci(runner: &Runner, rules: &Rules) -> bool {
    runner.state == RunnerState::Idle && rules.dispatch == Dispatch::Hook
}

/// The label under which it is to be registered with a CI system, if under any. Not while it has a job that the CI system gave it: another would come
/// to a machine that nobody has cleaned.
pub fn wanted_label(runner: &Runner, rules: &Rules) -> Option<Label> {
    match &runner.state {
        RunnerState::Idle if rules.dispatch == Dispatch::Hook => Some(runner.pool.label()),
        state @ (RunnerState::Created { .. }
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Releasing { .. }) => {
            let hold = state.hold().filter(|hold| !hold.holder.is_one_job());
            hold.map(|hold| hold.holder.label(&runner.pool))
        }
        RunnerState::Idle
        | RunnerState::Resetting { .. }
        | RunnerState::Quarantined { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => None,
    }
}
