//! What a claim does to a runner: takes it, begins its time, gives it back.

use super::{Decision, Refusal, Step};
use crate::pool::Dispatch;
use crate::runner::{Hold, RunnerState, can_be_taken_on_its_way};
use crate::time::Threshold;

impl Step<'_> {
    pub(super) fn taken(&self, hold: &Hold) -> Decision {
        match &self.runner.state {
            // There the CI system hands out work by itself.
            RunnerState::Idle if self.rules.dispatch == Dispatch::Hook => Decision::Refuse(Refusal::NotNow),
            RunnerState::Idle => self.to(
                RunnerState::Claimed { hold: hold.clone() },
                Some(self.limits().claimed),
                format!("{} took it from the pool", hold.holder),
            ),
            RunnerState::Created { hold: None, launched_at, attempt }
                if can_be_taken_on_its_way(self.runner, self.now) =>
            {
                let (launched_at, attempt) = (*launched_at, attempt.clone());
                self.noting(format!("{} took it on its way", hold.holder), |after| {
                    after.state = RunnerState::Created { hold: Some(hold.clone()), launched_at, attempt };
                })
            }
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

    pub(super) fn time_begins(&self, until: Threshold) -> Decision {
        match &self.runner.state {
            RunnerState::Running { .. } if self.runner.threshold.is_none_or(|now| now < until) => {
                self.noting("its holder has time until then", |after| after.threshold = Some(until))
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

    pub(super) fn release(&self, why: &str) -> Decision {
        match &self.runner.state {
            RunnerState::Created { hold: Some(_), launched_at, attempt } => {
                let (launched_at, attempt) = (*launched_at, attempt.clone());
                self.noting(why, |after| {
                    after.state = RunnerState::Created { hold: None, launched_at, attempt };
                    after.registration = None;
                    // Its agent was there, and may have registered it already, and a job may have come.
                    after.used = after.credential.is_some() || after.boot_id.is_some();
                })
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
}
