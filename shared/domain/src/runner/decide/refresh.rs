//! What becomes of a runner whose threshold passed.

use super::{Decision, Step};
use crate::runner::RunnerState;

impl Step<'_> {
    pub(super) fn threshold_passed(&self, needed: bool) -> Decision {
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
}
