//! What becomes of a runner whose threshold passed.

use super::{Decision, Step};
use crate::runner::{Hold, Holder, RunnerState, awaits_pause};

impl Step<'_> {
    pub(super) fn threshold_passed(&self, needed: bool) -> Decision {
        if !self.expired() {
            return Decision::Stay;
        }
        match &self.runner.state {
            RunnerState::Created { .. } => {
                self.terminating(&format!("it did not become ready in time: {}", self.held_up()))
            }
            // Nothing could be done to it yet, and nothing is wrong with it.
            state @ (RunnerState::Releasing { .. } | RunnerState::Resetting { .. })
                if awaits_pause(self.runner, self.rules) =>
            {
                self.to(state.clone(), Some(self.limits().releasing), "its CI system has not answered yet")
            }
            RunnerState::Resetting { attempt, .. } => self.clean_again(*attempt, "it took too long"),
            RunnerState::Idle if self.runner.kept || needed => {
                self.to(RunnerState::Idle, Some(self.limits().idle), "still wanted in the pool")
            }
            RunnerState::Idle => self.terminating("nobody claimed it in time"),
            RunnerState::Claimed { .. } => self.discard("it did not register in time"),
            RunnerState::Running { hold: hold @ Hold { holder: Holder::Checkpoint(_), .. }, .. } => {
                self.checkpoint_forgotten(hold)
            }
            RunnerState::Running { .. } => self.discard("its holder's time was over"),
            RunnerState::Releasing { .. } => self.give_up("it did not deregister in time"),
            RunnerState::Terminating { why, told } => {
                let state = RunnerState::Terminating { why: why.clone(), told: told.saturating_add(1) };
                self.to(state, Some(self.limits().terminating), "telling the provider again")
            }
            RunnerState::Quarantined { .. } | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }

    /// How far a new runner came, so that whoever reads it knows where to look.
    fn held_up(&self) -> String {
        match (&self.runner.credential, &self.runner.provider_id) {
            (Some(_), _) => "its agent joined, but its preparation or registration did not end".to_owned(),
            (None, Some(machine)) => format!(
                "the agent on {machine} never called; its log or console says why, and it must reach the control plane's address"
            ),
            (None, None) => "no machine came of its launch".to_owned(),
        }
    }
}
