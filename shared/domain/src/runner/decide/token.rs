//! What becomes of a runner whose agent changes its token, or of which somebody else has a token.

use super::{Change, Decision, Refusal, Step};
use crate::runner::{Credential, Named, NextToken, RunnerState};

const MISUSED: &str = "somebody came with a token that its agent has replaced: it was copied from the machine, or its agent was shut out";

impl Step<'_> {
    /// In any state: when nothing of its work is left, only its agent knows. Of two that come with the same token, the first has it.
    pub(super) fn token_changed(&self, from: &str, next: &NextToken) -> Decision {
        match &self.runner.state {
            RunnerState::Terminating { .. } | RunnerState::Terminated { .. } => return Decision::Stay,
            RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. } => {}
        }
        let is_its = |known: &&Credential| known.token_sha256 == from && !known.fixed;
        let Some(known) = self.runner.credential.as_ref().filter(is_its) else {
            return Decision::Refuse(Refusal::NotNow);
        };
        let NextToken { token_sha256, session } = next.clone();
        let named = Some(Named { epoch: self.runner.epoch, session });
        let credential = Credential { token_sha256, named, ..known.clone() };
        self.noting("its agent changed its token", |after| after.credential = Some(credential))
    }

    /// Nobody knows which of the two is its agent: neither is, from now on. A machine that can be replaced is; any other needs a person, and a new
    /// secret. What is only being made has no token that could have been copied: whoever comes has one of an earlier life. So has he who comes to a
    /// runner with a fixed token, which no agent has ever replaced.
    pub(super) fn token_misused(&self) -> Decision {
        if self.runner.has_fixed_token() {
            return Decision::Stay;
        }
        match &self.runner.state {
            RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. } => match self.give_up(MISUSED) {
                Decision::Change(mut change) => {
                    let Change { after, .. } = change.as_mut();
                    if matches!(after.state, RunnerState::Quarantined { .. }) {
                        after.credential = None;
                    }
                    Decision::Change(change)
                }
                other @ (Decision::Stay | Decision::Refuse(_)) => other,
            },
            RunnerState::Quarantined { .. } if self.runner.credential.is_some() => {
                self.noting(MISUSED, |after| after.credential = None)
            }
            RunnerState::Created { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }
}
