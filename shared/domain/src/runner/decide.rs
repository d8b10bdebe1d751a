//! The runner's state machine: one pure function over every state and event.

use crate::ids::Epoch;
use crate::pool::{Clean, Limits, Rules};
use crate::runner::{CleanProof, Hold, Presence, ProofKind, Removal, Runner, RunnerEvent, RunnerState};
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
        E::LaunchFailed { why } => step.launch_failed(why),
        E::Ready { until } => step.ready(*until),
        E::Taken { hold } => step.taken(hold),
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
        E::InterruptionNotice => step.interrupted(),
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
}

/// How often a clean step is tried before a person must look.
const CLEAN_ATTEMPTS: u32 = 3;

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
        | E::CleanProven { .. } => true,
        E::Launched { .. }
        | E::LaunchFailed { .. }
        | E::Unhealthy { .. }
        | E::CleanFailed { .. }
        | E::Silent { .. }
        | E::NewBoot { .. }
        | E::InterruptionNotice
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
        }
        if state.name() != self.runner.state.name() {
            after.entered_at = self.now;
        }
        after.state = state;
        after.rev += 1;
        after.threshold = limit.map(|limit| Threshold::in_(limit, self.now));
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
        let state = RunnerState::Resetting { attempt: 1, not_before: self.now, why: why.to_owned() };
        self.to(state, Some(self.limits().resetting), why)
    }

    fn idle(&self, proof: CleanProof, why: &str) -> Decision {
        match self.to(RunnerState::Idle, Some(self.limits().idle), why) {
            Decision::Change(mut change) => {
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

    /// A machine that nobody can reach: a kept one needs a person, any other goes.
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

    fn launched(&self, provider_id: &str) -> Decision {
        match &self.runner.state {
            RunnerState::Created { hold, launched_at: None } => {
                let hold = hold.clone();
                self.noting("the provider took the launch", |after| {
                    after.provider_id = Some(provider_id.to_owned());
                    after.state = RunnerState::Created { hold, launched_at: Some(self.now) };
                })
            }
            RunnerState::Created { launched_at: Some(_), .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }

    fn launch_failed(&self, why: &str) -> Decision {
        match &self.runner.state {
            RunnerState::Created { launched_at: None, .. } => self.terminated(why),
            RunnerState::Created { launched_at: Some(_), .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }

    fn ready(&self, until: Option<Threshold>) -> Decision {
        match &self.runner.state {
            RunnerState::Created { .. } if self.runner.draining => self.terminating("it was being drained"),
            RunnerState::Created { hold: Some(hold), .. } => self.running(hold, until, "it is ready"),
            RunnerState::Created { hold: None, .. } => {
                let proof = CleanProof { how: ProofKind::NewMachine, at: self.now, task: None };
                self.idle(proof, "it is new and ready")
            }
            RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Refuse(Refusal::NotNow),
        }
    }

    fn taken(&self, hold: &Hold) -> Decision {
        match &self.runner.state {
            RunnerState::Idle => self.to(
                RunnerState::Claimed { hold: hold.clone() },
                Some(self.limits().claimed),
                format!("{} took it from the pool", hold.claim),
            ),
            RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Refuse(Refusal::NotNow),
        }
    }

    fn registered(&self, until: Option<Threshold>) -> Decision {
        match &self.runner.state {
            RunnerState::Claimed { hold } => self.running(hold, until, "it registered for its holder"),
            RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Refuse(Refusal::NotNow),
        }
    }

    fn unhealthy(&self, why: &str) -> Decision {
        match &self.runner.state {
            RunnerState::Created { .. } => self.terminating(why),
            RunnerState::Claimed { .. } | RunnerState::Running { .. } => self.discard(why),
            RunnerState::Releasing { .. } => self.give_up(why),
            RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }

    fn time_begins(&self, until: Threshold) -> Decision {
        match &self.runner.state {
            RunnerState::Running { .. } if self.runner.threshold.is_none_or(|now| now < until) => {
                self.noting("its holder is ready, and its time begins", |after| after.threshold = Some(until))
            }
            RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }

    fn release(&self, why: &str) -> Decision {
        match &self.runner.state {
            RunnerState::Created { hold: Some(_), launched_at } => {
                let launched_at = *launched_at;
                self.noting(why, |after| after.state = RunnerState::Created { hold: None, launched_at })
            }
            RunnerState::Claimed { hold } | RunnerState::Running { hold, .. } => {
                self.to(RunnerState::Releasing { hold: hold.clone() }, Some(self.limits().releasing), why)
            }
            RunnerState::Created { hold: None, .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }

    fn deregistered(&self) -> Decision {
        match &self.runner.state {
            RunnerState::Releasing { .. } if self.runner.draining => self.terminating("it was being drained"),
            RunnerState::Releasing { .. } => match self.rules.clean {
                Clean::Replace => self.terminating("used once; the pool replaces its machines"),
                Clean::Reset | Clean::Cleanup | Clean::Keep => self.resetting("its holder gave it back"),
            },
            RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Refuse(Refusal::NotNow),
        }
    }

    fn clean_proven(&self, proof: CleanProof) -> Decision {
        match &self.runner.state {
            RunnerState::Resetting { .. } if self.runner.draining => self.terminating("it was being drained"),
            RunnerState::Resetting { .. } => self.idle(proof, "it is clean"),
            RunnerState::Created { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Refuse(Refusal::NotNow),
        }
    }

    fn clean_failed(&self, why: &str) -> Decision {
        match &self.runner.state {
            RunnerState::Resetting { attempt, .. } => self.clean_again(*attempt, why),
            RunnerState::Created { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }

    /// Backs off by twice as much each time; after the last attempt a person must look.
    fn clean_again(&self, attempt: u32, why: &str) -> Decision {
        if attempt >= CLEAN_ATTEMPTS {
            return self.quarantined(&format!("it could not be cleaned in {attempt} attempts: {why}"));
        }
        let backoff = self.limits().heartbeat * 2u32.saturating_pow(attempt - 1);
        let state = RunnerState::Resetting {
            attempt: attempt + 1,
            not_before: self.now.after(backoff),
            why: why.to_owned(),
        };
        self.to(state, Some(self.limits().resetting + backoff), format!("cleaning again: {why}"))
    }

    fn silent(&self, presence: Presence) -> Decision {
        if presence == Presence::Gone {
            return self.provider_gone();
        }
        match &self.runner.state {
            RunnerState::Idle => self.give_up("its agent fell silent while idle"),
            RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }

    fn new_boot(&self, boot_id: &str) -> Decision {
        let noted = |decision| match decision {
            Decision::Change(mut change) => {
                let Change { after, .. } = change.as_mut();
                after.boot_id = Some(boot_id.to_owned());
                Decision::Change(change)
            }
            other @ (Decision::Stay | Decision::Refuse(_)) => other,
        };
        match &self.runner.state {
            RunnerState::Idle | RunnerState::Claimed { .. } | RunnerState::Running { .. } => {
                noted(self.discard("its machine started anew"))
            }
            RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. } => noted(self.noting("its machine started anew", |_| ())),
            RunnerState::Terminating { .. } | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }

    fn interrupted(&self) -> Decision {
        match &self.runner.state {
            RunnerState::Running { hold, leaving: false } => {
                let hold = hold.clone();
                self.noting("the provider will take its machine away", |after| {
                    after.state = RunnerState::Running { hold, leaving: true };
                    after.draining = true;
                })
            }
            RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. } => self.terminating("the provider will take its machine away"),
            RunnerState::Running { leaving: true, .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }

    fn threshold_passed(&self, needed: bool) -> Decision {
        if !self.expired() {
            return Decision::Stay;
        }
        match &self.runner.state {
            RunnerState::Created { .. } => self.terminating("it did not become ready in time"),
            RunnerState::Resetting { attempt, .. } => self.clean_again(*attempt, "it took too long"),
            RunnerState::Idle if self.runner.kept || needed => {
                self.to(RunnerState::Idle, Some(self.limits().idle), "still wanted in the pool")
            }
            RunnerState::Idle => self.terminating("nobody claimed it in time"),
            RunnerState::Claimed { .. } => self.discard("it did not register in time"),
            RunnerState::Running { .. } => self.discard("its holder's time was over"),
            RunnerState::Releasing { .. } => self.give_up("it did not deregister in time"),
            RunnerState::Terminating { why, told } => {
                let state = RunnerState::Terminating { why: why.clone(), told: told.saturating_add(1) };
                self.to(state, Some(self.limits().terminating), "telling the provider again")
            }
            RunnerState::Quarantined { .. } | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }

    fn provider_gone(&self) -> Decision {
        match &self.runner.state {
            RunnerState::Terminating { why, .. } => self.terminated(why),
            RunnerState::Created { launched_at: Some(_), .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. } => self.terminated("its machine is gone"),
            RunnerState::Created { launched_at: None, .. } | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }

    fn operator_release(&self) -> Decision {
        match &self.runner.state {
            RunnerState::Quarantined { .. } => self.resetting("an operator released it from quarantine"),
            RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Refuse(Refusal::NotNow),
        }
    }

    fn operator_remove(&self, removal: Removal) -> Decision {
        match &self.runner.state {
            RunnerState::Terminating { .. } | RunnerState::Terminated { .. } => Decision::Stay,
            RunnerState::Quarantined { .. } | RunnerState::Idle | RunnerState::Created { hold: None, .. } => {
                self.terminating("an operator removed it")
            }
            RunnerState::Created { hold: Some(_), .. }
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Resetting { .. } => match removal {
                Removal::IfFree if self.runner.state.hold().is_some() => Decision::Refuse(Refusal::Held),
                Removal::IfFree | Removal::Force => self.terminating("an operator removed it"),
                Removal::Drain if self.runner.draining => Decision::Stay,
                Removal::Drain => self.noting("an operator drains it", |after| after.draining = true),
            },
        }
    }
}
