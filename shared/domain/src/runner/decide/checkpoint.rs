//! What a job's checkpoint does to a runner, and the CI system that hands out jobs by itself.

use super::{Decision, Refusal, Step};
use crate::ids::CheckpointName;
use crate::pool::Dispatch;
use crate::runner::{CleanStep, Hold, ProofKind, Runner, RunnerState, Wear};
use crate::time::Timestamp;
use std::time::Duration;

/// Between the end of one checkpoint and the next: who retries in a loop is held up, who runs job after job is not.
const COOLDOWN: Duration = Duration::from_secs(5);

impl Step<'_> {
    pub(super) fn checkpoint_created(&self, checkpoint: &CheckpointName, hold: Option<&Hold>) -> Decision {
        if self.runner.checkpoint.is_some() {
            return Decision::Refuse(Refusal::Held);
        }
        let named = |decision| match decision {
            Decision::Change(mut change) => {
                change.after.checkpoint = Some(checkpoint.clone());
                Decision::Change(change)
            }
            other @ (Decision::Stay | Decision::Refuse(_)) => other,
        };
        match (&self.runner.state, hold, self.rules.dispatch) {
            (RunnerState::Idle, Some(hold), Dispatch::Hook) => {
                named(self.running(hold, None, "its CI system gave it a job"))
            }
            (RunnerState::Running { .. }, None, Dispatch::Claim | Dispatch::Lease) if !self.expired() => {
                named(self.noting("a job began on it", |_| ()))
            }
            (
                RunnerState::Created { .. }
                | RunnerState::Resetting { .. }
                | RunnerState::Idle
                | RunnerState::Claimed { .. }
                | RunnerState::Running { .. }
                | RunnerState::Releasing { .. }
                | RunnerState::Quarantined { .. }
                | RunnerState::Terminating { .. }
                | RunnerState::Terminated { .. },
                _,
                Dispatch::Claim | Dispatch::Hook | Dispatch::Lease,
            ) => Decision::Refuse(Refusal::NotNow),
        }
    }

    pub(super) fn clean_issued(&self, clean: CleanStep) -> Decision {
        match &self.runner.state {
            RunnerState::Resetting { attempt, not_before, why, step: None } => {
                let (attempt, not_before, why) = (*attempt, *not_before, why.clone());
                let how = match clean {
                    CleanStep::Cleanup => "it is to be cleaned up",
                    CleanStep::Reset => "it is to be reset",
                };
                self.noting(how, |after| {
                    after.state = RunnerState::Resetting { attempt, not_before, why, step: Some(clean) };
                })
            }
            RunnerState::Resetting { step: Some(_), .. } => Decision::Stay,
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

    pub(super) fn paused(&self) -> Decision {
        match &self.runner.state {
            // Only now can anything be done to it: its time begins anew.
            state @ RunnerState::Releasing { .. } if self.runner.paused_at.is_none() => {
                self.pausing(state, Some(self.limits().releasing))
            }
            state @ RunnerState::Resetting { .. } if self.runner.paused_at.is_none() => {
                self.pausing(state, Some(self.rules.resets_within()))
            }
            state @ RunnerState::Quarantined { .. } if self.runner.paused_at.is_none() => {
                self.pausing(state, None)
            }
            RunnerState::Releasing { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Created { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }

    fn pausing(&self, state: &RunnerState, limit: Option<Duration>) -> Decision {
        match self.to(state.clone(), limit, "its CI system brings it no more jobs") {
            Decision::Change(mut change) => {
                change.after.paused_at = Some(self.now);
                Decision::Change(change)
            }
            other @ (Decision::Stay | Decision::Refuse(_)) => other,
        }
    }

    pub(super) fn unpaused(&self) -> Decision {
        match &self.runner.state {
            RunnerState::Idle if self.runner.paused_at.is_some() => {
                self.noting("its CI system brings it jobs again", |after| after.paused_at = None)
            }
            RunnerState::Idle
            | RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }

    /// The time of a checkpoint is over. Its machine is released as if somebody had said that the job has ended.
    pub(super) fn checkpoint_forgotten(&self, hold: &Hold) -> Decision {
        self.to(
            RunnerState::Releasing { hold: hold.clone() },
            Some(self.limits().releasing),
            "nobody said in time that its job has ended",
        )
    }
}

impl Runner {
    /// It is clean: what its checkpoint promised is done.
    pub(super) fn keep_promise(&mut self, how: ProofKind, now: Timestamp) {
        let was_used = self.checkpoint.take().is_some();
        self.cools_until = was_used.then(|| now.after(COOLDOWN));
        match how {
            ProofKind::Reset => self.wear = Some(Wear { jobs: 0, since: now }),
            ProofKind::NewMachine => self.wear = None,
            ProofKind::Cleanup | ProofKind::Keep if was_used => {
                let Wear { jobs, since } = self.wear.unwrap_or(Wear { jobs: 0, since: now });
                self.wear = Some(Wear { jobs: jobs.saturating_add(1), since });
            }
            ProofKind::Cleanup | ProofKind::Keep => {}
        }
    }
}
