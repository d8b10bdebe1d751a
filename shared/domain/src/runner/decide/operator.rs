//! What an operator does to a runner: removes it, or releases it from quarantine.

use super::{Decision, Refusal, Step};
use crate::runner::{Removal, RunnerState};

impl Step<'_> {
    pub(super) fn operator_release(&self) -> Decision {
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

    pub(super) fn operator_remove(&self, removal: Removal) -> Decision {
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
