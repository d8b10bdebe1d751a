//! What the provider does to a runner: launches, refusals, interruptions, and machines that are gone.

use super::{Decision, Step};
use crate::ladder::{CapacityOption, LaunchCall};
use crate::runner::{Notice, Presence, RunnerState};

impl Step<'_> {
    pub(super) fn launched(&self, provider_id: &str) -> Decision {
        match &self.runner.state {
            RunnerState::Created { hold, launched_at: None, attempt } => {
                let (hold, attempt) = (hold.clone(), attempt.clone());
                self.noting("the provider took the launch", |after| {
                    after.provider_id = Some(provider_id.to_owned());
                    if let Some(LaunchCall { rung, .. }) = &attempt {
                        let CapacityOption { offer, zone, hourly } = rung.clone();
                        after.offer = offer;
                        after.zone = zone;
                        after.hourly = hourly;
                    }
                    after.state = RunnerState::Created { hold, launched_at: Some(self.now), attempt };
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

    pub(super) fn attempted(&self, next: &LaunchCall) -> Decision {
        match &self.runner.state {
            RunnerState::Created { hold, launched_at: None, attempt: Some(last) }
                if last.number < next.number =>
            {
                let hold = hold.clone();
                let why =
                    format!("{} had nothing to give; now {}", last.rung.in_words(), next.rung.in_words());
                self.noting(why, |after| {
                    let attempt = Some(next.clone());
                    after.state = RunnerState::Created { hold, launched_at: None, attempt };
                })
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

    pub(super) fn launch_failed(&self, why: &str) -> Decision {
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

    pub(super) fn silent(&self, presence: Presence) -> Decision {
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

    pub(super) fn interrupted(&self, notice: Notice) -> Decision {
        match &self.runner.state {
            RunnerState::Running { hold, leaving: false } => {
                let hold = hold.clone();
                self.noting(notice.in_words(), |after| {
                    after.state = RunnerState::Running { hold, leaving: true };
                    after.draining = true;
                })
            }
            RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. } => self.terminating(notice.in_words()),
            RunnerState::Running { leaving: true, .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => Decision::Stay,
        }
    }

    pub(super) fn provider_gone(&self) -> Decision {
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
}
