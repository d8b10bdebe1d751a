//! What an agent reports: ready, registered, deregistered, clean or not, started anew.

use super::{Change, Decision, Refusal, Step};
use crate::ci::Registration;
use crate::pool::{Clean, Dispatch};
use crate::runner::{CleanProof, CleanStep, HandedOut, ProofKind, RunnerState, may_be_handed_out};
use crate::time::Threshold;

/// How often a clean step is tried before a person must look.
const CLEAN_ATTEMPTS: u32 = 3;

impl Step<'_> {
    pub(super) fn ready(&self, until: Option<Threshold>) -> Decision {
        match &self.runner.state {
            RunnerState::Created { .. } if self.runner.draining => self.terminating("it was being drained"),
            RunnerState::Created { hold: Some(hold), .. } => self.running(hold, until, "it is ready"),
            // Nobody knows what was done on a machine of the operator's own before it came.
            RunnerState::Created { hold: None, .. } if self.runner.kept => {
                self.resetting("it joins the pool, and is cleaned first")
            }
            RunnerState::Created { hold: None, .. } if self.runner.used => {
                self.after_use("its holder may have used it")
            }
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

    pub(super) fn registered(&self, until: Option<Threshold>) -> Decision {
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

    pub(super) fn unhealthy(&self, why: &str) -> Decision {
        match &self.runner.state {
            RunnerState::Created { .. } => self.terminating(why),
            RunnerState::Claimed { .. } | RunnerState::Running { .. } => self.discard(why),
            RunnerState::Releasing { .. } => self.give_up(why),
            // Its CI system should know it while it is idle, and does not.
            RunnerState::Idle if self.rules.dispatch == Dispatch::Hook => self.give_up(why),
            RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }

    pub(super) fn deregistered(&self) -> Decision {
        match &self.runner.state {
            RunnerState::Releasing { .. } if self.runner.draining => self.terminating("it was being drained"),
            RunnerState::Releasing { .. } => self.after_use("its holder gave it back"),
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

    fn after_use(&self, why: &str) -> Decision {
        match self.rules.clean {
            Clean::Replace => self.terminating("used once; the pool replaces its machines"),
            Clean::Reset | Clean::Cleanup | Clean::Keep => self.resetting(why),
        }
    }

    pub(super) fn clean_proven(&self, proof: CleanProof) -> Decision {
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

    pub(super) fn clean_failed(&self, why: &str) -> Decision {
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
    pub(super) fn clean_again(&self, attempt: u32, why: &str) -> Decision {
        if attempt >= CLEAN_ATTEMPTS {
            return self.quarantined(&format!("it could not be cleaned in {attempt} attempts: {why}"));
        }
        let backoff = self.limits().heartbeat * 2u32.saturating_pow(attempt - 1);
        let state = RunnerState::Resetting {
            attempt: attempt + 1,
            not_before: self.now.after(backoff),
            why: why.to_owned(),
            step: self.settled_step(),
        };
        self.to(state, Some(self.rules.resets_within() + backoff), format!("cleaning again: {why}"))
    }

    /// How it is cleaned stays settled, however often it is tried.
    fn settled_step(&self) -> Option<CleanStep> {
        match &self.runner.state {
            RunnerState::Resetting { step, .. } => *step,
            RunnerState::Created { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => None,
        }
    }

    pub(super) fn registration_issued(&self, registration: &Registration, next: &HandedOut) -> Decision {
        match &self.runner.state {
            RunnerState::Running { hold, .. } if hold.holder.is_one_job() => {
                Decision::Refuse(Refusal::NotNow)
            }
            RunnerState::Created { hold: Some(_), .. }
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. } => self.issued(registration, next),
            RunnerState::Idle if self.rules.dispatch == Dispatch::Hook => self.issued(registration, next),
            RunnerState::Created { hold: None, .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Refuse(Refusal::NotNow),
        }
    }

    fn issued(&self, registration: &Registration, next: &HandedOut) -> Decision {
        if !may_be_handed_out(self.runner, next) {
            return Decision::Refuse(Refusal::HandedOut);
        }
        if self.runner.registration.as_ref() == Some(registration) {
            return Decision::Stay;
        }
        let why = format!("it registers as {}", registration.name);
        self.noting(why, |after| {
            after.registration = Some(registration.clone());
            after.handed_out = Some(next.clone());
        })
    }

    pub(super) fn program_seen(&self, version: &str) -> Decision {
        match &self.runner.state {
            RunnerState::Terminating { .. } | RunnerState::Terminated { .. } => Decision::Stay,
            RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. } => {
                if self.runner.program.as_deref() == Some(version) {
                    return Decision::Stay;
                }
                self.noting(format!("its runner program is {version}"), |after| {
                    after.program = Some(version.to_owned());
                })
            }
        }
    }

    pub(super) fn new_boot(&self, boot_id: &str) -> Decision {
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
}
