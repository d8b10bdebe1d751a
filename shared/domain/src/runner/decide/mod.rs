//! The runner's state machine: one pure function over every state and event, by who causes the event.

mod agent;
mod checkpoint;
mod holder;
mod operator;
mod provider;
mod refresh;
mod token;

use crate::ids::Epoch;
use crate::pool::{Dispatch, Limits, Rules};
use crate::runner::{CleanProof, Hold, Runner, RunnerEvent, RunnerState, StateName};
use crate::time::{Threshold, Timestamp};
use std::time::Duration;

/// What becomes of `runner` when `event` happens at `now`.
pub fn decide(runner: &Runner, event: &RunnerEvent, rules: &Rules, now: Timestamp) -> Decision {
    use RunnerEvent as E;
    let step = Step { runner, rules, now };
    if step.expired() && needs_time_left(event) {
        return Decision::Refuse(Refusal::Expired);
    }
    match event {
        E::Launched { provider_id } => step.launched(provider_id),
        E::Attempted { attempt } => step.attempted(attempt),
        E::LaunchFailed { why } => step.launch_failed(why),
        E::Ready { until } => step.ready(*until),
        E::Taken { hold } => step.taken(hold),
        E::CheckpointCreated { checkpoint, hold } => step.checkpoint_created(checkpoint, hold.as_ref()),
        E::CleanIssued { step: clean } => step.clean_issued(*clean),
        E::Paused => step.paused(),
        E::Unpaused => step.unpaused(),
        E::Registered { until } => step.registered(*until),
        E::Unhealthy { why } => step.unhealthy(why),
        E::TimeBegins { until } => step.time_begins(*until),
        E::Release { why } => step.release(why),
        E::Deregistered => step.deregistered(),
        E::CleanProven { how, task } => {
            step.clean_proven(CleanProof { how: *how, at: now, task: task.clone() })
        }
        E::CleanFailed { why } => step.clean_failed(why),
        E::Silent { presence } => step.silent(*presence),
        E::NewBoot { boot_id } => step.new_boot(boot_id),
        E::InterruptionNotice { notice } => step.interrupted(*notice),
        E::RegistrationIssued { registration, handed_out } => {
            step.registration_issued(registration, handed_out)
        }
        E::ProgramSeen { version } => step.program_seen(version),
        E::TokenChanged { from, next } => step.token_changed(from, next),
        E::TokenMisused => step.token_misused(),
        E::ThresholdPassed { needed } => step.threshold_passed(*needed),
        E::ProviderGone => step.provider_gone(),
        E::OperatorRelease => step.operator_release(),
        E::OperatorRemove { removal } => step.operator_remove(*removal),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Change(Box<Change>),
    /// Nothing changes, on purpose.
    Stay,
    Refuse(Refusal),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub after: Runner,
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its time is over; only refresh decides about it now.
    Expired,
    /// The event does not belong to the state.
    NotNow,
    /// Somebody holds it.
    Held,
    /// It was handed out to somebody else.
    HandedOut,
}

/// What moves a runner forward needs an unexpired threshold. What ends it, or tells a fact, does not.
fn needs_time_left(event: &RunnerEvent) -> bool {
    use RunnerEvent as E;
    match event {
        E::Ready { .. }
        | E::Taken { .. }
        | E::Registered { .. }
        | E::TimeBegins { .. }
        | E::Release { .. }
        | E::Deregistered
        | E::RegistrationIssued { .. }
        | E::CleanProven { .. } => true,
        // A runner that is idle in such a pool is kept, and stays whatever its threshold says.
        E::CheckpointCreated { .. }
        | E::CleanIssued { .. }
        | E::Paused
        | E::Unpaused
        | E::Launched { .. }
        | E::Attempted { .. }
        | E::LaunchFailed { .. }
        | E::Unhealthy { .. }
        | E::CleanFailed { .. }
        | E::Silent { .. }
        | E::NewBoot { .. }
        | E::InterruptionNotice { .. }
        | E::ProgramSeen { .. }
        | E::TokenChanged { .. }
        | E::TokenMisused
        | E::ThresholdPassed { .. }
        | E::ProviderGone
        | E::OperatorRelease
        | E::OperatorRemove { .. } => false,
    }
}

struct Step<'a> {
    runner: &'a Runner,
    rules: &'a Rules,
    now: Timestamp,
}

impl Step<'_> {
    fn limits(&self) -> &Limits {
        &self.rules.limits
    }

    fn expired(&self) -> bool {
        self.runner.threshold.is_some_and(|threshold| threshold.passed(self.now))
    }

    /// The record as it would be in another state. The epoch rises here, and only on entering `resetting`.
    fn to(&self, state: RunnerState, limit: Option<Duration>, why: impl Into<String>) -> Decision {
        let mut after = self.runner.clone();
        if matches!(state, RunnerState::Resetting { .. })
            && !matches!(self.runner.state, RunnerState::Resetting { .. })
        {
            after.epoch = Epoch::next(self.runner.epoch);
            after.proof = None;
            after.used = false;
            after.handed_out = None;
        }
        let lasts = state.name() == self.runner.state.name();
        if !lasts {
            after.entered_at = self.now;
        }
        match state.name() {
            StateName::Created | StateName::Claimed | StateName::Running | StateName::Releasing => {}
            // There the CI system finds work for idle ones by itself.
            StateName::Idle if self.rules.dispatch == Dispatch::Hook => {}
            // Nobody holds it any more: whatever the CI system still knows of it is void.
            StateName::Resetting
            | StateName::Idle
            | StateName::Quarantined
            | StateName::Terminating
            | StateName::Terminated => after.registration = None,
        }
        let is_on_its_way = match (self.runner.state.name(), state.name()) {
            (_, StateName::Idle | StateName::Releasing) => true,
            (from, StateName::Resetting) => matches!(from, StateName::Releasing | StateName::Resetting),
            (from, to) => from == to,
        };
        if !is_on_its_way {
            // What the CI system was told of an earlier job says nothing of the next.
            after.paused_at = None;
        }
        after.state = state;
        after.rev += 1;
        let threshold = limit.map(|limit| Threshold::in_(limit, self.now));
        // While a state lasts its deadline never moves back: not by a limit that is shorter by now, nor by a clock that is behind.
        after.threshold = if lasts { threshold.max(self.runner.threshold) } else { threshold };
        Decision::Change(Box::new(Change { after, why: why.into() }))
    }

    /// The same state, with a detail changed and the threshold as it was.
    fn noting(&self, why: impl Into<String>, note: impl FnOnce(&mut Runner)) -> Decision {
        let mut after = self.runner.clone();
        after.rev += 1;
        note(&mut after);
        Decision::Change(Box::new(Change { after, why: why.into() }))
    }

    fn terminating(&self, why: &str) -> Decision {
        self.to(
            RunnerState::Terminating { why: why.to_owned(), told: 1 },
            Some(self.limits().terminating),
            why,
        )
    }

    fn terminated(&self, why: &str) -> Decision {
        self.to(RunnerState::Terminated { why: why.to_owned() }, None, why)
    }

    fn quarantined(&self, why: &str) -> Decision {
        self.to(RunnerState::Quarantined { why: why.to_owned() }, None, why)
    }

    fn resetting(&self, why: &str) -> Decision {
        let state =
            RunnerState::Resetting { attempt: 1, not_before: self.now, why: why.to_owned(), step: None };
        self.to(state, Some(self.rules.resets_within()), why)
    }

    fn idle(&self, proof: CleanProof, why: &str) -> Decision {
        match self.to(RunnerState::Idle, Some(self.limits().idle), why) {
            Decision::Change(mut change) => {
                change.after.keep_promise(proof.how, self.now);
                change.after.proof = Some(proof);
                Decision::Change(change)
            }
            other @ (Decision::Stay | Decision::Refuse(_)) => other,
        }
    }

    /// A machine that failed its holder: a kept one is cleaned, any other is not worth keeping.
    fn discard(&self, why: &str) -> Decision {
        if self.runner.kept { self.resetting(why) } else { self.terminating(why) }
    }

    /// A machine that nobody can reach, or can trust: a kept one needs a person, any other goes.
    fn give_up(&self, why: &str) -> Decision {
        if self.runner.kept { self.quarantined(why) } else { self.terminating(why) }
    }

    fn running(&self, hold: &Hold, until: Option<Threshold>, why: &str) -> Decision {
        let state = RunnerState::Running { hold: hold.clone(), leaving: false };
        match self.to(state, Some(hold.max_runtime), why) {
            Decision::Change(mut change) => {
                if until.is_some() {
                    change.after.threshold = until;
                }
                Decision::Change(change)
            }
            other @ (Decision::Stay | Decision::Refuse(_)) => other,
        }
    }
}
