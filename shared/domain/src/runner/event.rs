//! What can happen to a runner.

use crate::ci::Registration;
use crate::ids::{CheckpointName, ClaimId, Label, PoolName, TaskId};
use crate::ladder::LaunchCall;
use crate::record::Key;
use crate::runner::{CleanStep, HandedOut, NextToken, ProofKind, Runner};
use crate::time::Threshold;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunnerEvent {
    /// The provider took the launch.
    Launched {
        provider_id: String,
    },
    /// The provider is about to be called, on another rung of the ladder.
    Attempted {
        attempt: LaunchCall,
    },
    /// The provider refused the launch for good.
    LaunchFailed {
        why: String,
    },
    /// Its agent is there and prepared, and registered if somebody holds it.
    Ready {
        until: Option<Threshold>,
    },
    /// A claim takes it from the pool.
    Taken {
        hold: Hold,
    },
    /// A job begins on it, and has a checkpoint. With `hold` that checkpoint takes it from the pool; without, somebody holds it already.
    CheckpointCreated {
        checkpoint: CheckpointName,
        hold: Option<Hold>,
    },
    /// How it is to be cleaned is settled.
    CleanIssued {
        step: CleanStep,
    },
    /// Its CI system brings it no more jobs, and the one that it had is over.
    Paused,
    /// Its CI system brings it jobs again.
    Unpaused,
    /// Its agent registered it for its holder.
    Registered {
        until: Option<Threshold>,
    },
    /// Its agent could not prepare or register it.
    Unhealthy {
        why: String,
    },
    /// Its holder became ready, and with it its runners' time began; or it still waits, and their time is put off.
    TimeBegins {
        until: Threshold,
    },
    /// Its holder gives it back.
    Release {
        why: String,
    },
    /// Its agent took it out of the CI system.
    Deregistered,
    CleanProven {
        how: ProofKind,
        task: Option<TaskId>,
    },
    CleanFailed {
        why: String,
    },
    /// No heartbeat for four intervals; `presence` is what the backend says about the machine.
    Silent {
        presence: Presence,
    },
    /// The machine started anew under its agent's feet.
    NewBoot {
        boot_id: String,
    },
    /// The provider will take the machine away soon, or may.
    InterruptionNotice {
        notice: Notice,
    },
    /// The CI system knows it by this now.
    RegistrationIssued {
        registration: Registration,
        handed_out: HandedOut,
    },
    /// Its agent, which came with the token `from`, uses another from now on.
    TokenChanged {
        from: String,
        next: NextToken,
    },
    /// Somebody came with a token that its agent has replaced, and is not that agent.
    TokenMisused,
    /// Its agent says which runner program it has.
    ProgramSeen {
        version: String,
    },
    /// Its threshold passed. `needed`: the pool would fall below `min_idle` without it.
    ThresholdPassed {
        needed: bool,
    },
    /// The backend is certain that there is no such machine.
    ProviderGone,
    OperatorRelease,
    OperatorRemove {
        removal: Removal,
    },
}

impl RunnerEvent {
    /// Whether it is about who held the runner when it was decided on, or that nobody did: then it is void for anybody else.
    fn is_about_its_hold(&self) -> bool {
        match self {
            Self::Ready { .. }
            | Self::Registered { .. }
            | Self::Unhealthy { .. }
            | Self::TimeBegins { .. }
            | Self::Release { .. }
            | Self::Deregistered
            | Self::CheckpointCreated { .. }
            | Self::RegistrationIssued { .. } => true,
            Self::Launched { .. }
            | Self::Attempted { .. }
            | Self::LaunchFailed { .. }
            | Self::Taken { .. }
            | Self::CleanIssued { .. }
            | Self::Paused
            | Self::Unpaused
            | Self::CleanProven { .. }
            | Self::CleanFailed { .. }
            | Self::Silent { .. }
            | Self::NewBoot { .. }
            | Self::InterruptionNotice { .. }
            | Self::ProgramSeen { .. }
            | Self::TokenChanged { .. }
            | Self::TokenMisused
            | Self::ThresholdPassed { .. }
            | Self::ProviderGone
            | Self::OperatorRelease
            | Self::OperatorRemove { .. } => false,
        }
    }

    /// Whether it may be decided anew on what was found in the place of the record that it was decided on.
    pub fn is_meant_for(&self, found: &Runner, decided_on: &Runner) -> bool {
        (found.epoch, found.state.name()) == (decided_on.epoch, decided_on.state.name())
            && (!self.is_about_its_hold() || found.holder() == decided_on.holder())
    }
}

/// Who has the use of a runner, and for how long at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    #[serde(flatten)]
    pub holder: Holder,
    /// It came from the pool, and was not launched for this holder.
    pub warm: bool,
    pub max_runtime: Duration,
}

/// The record that holds a runner. Its kind says what follows from a change of the runner, and what the CI system knows it by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    Claim(ClaimId),
    /// Of a job that the CI system dispatched by itself.
    Checkpoint(CheckpointName),
}

impl Holder {
    pub fn claim(&self) -> Option<&ClaimId> {
        match self {
            Self::Claim(claim) => Some(claim),
            Self::Checkpoint(_) => None,
        }
    }

    /// Whether the CI system gave the runner one job, and no other may come before it is clean. A claim's is there for as many as come.
    pub fn is_one_job(&self) -> bool {
        match self {
            Self::Claim(_) => false,
            Self::Checkpoint(_) => true,
        }
    }

    /// Under which label a runner of `pool` that it holds is registered with the CI system: a claim's nobody else has.
    pub fn label(&self, pool: &PoolName) -> Label {
        match self {
            Self::Claim(claim) => claim.label(),
            Self::Checkpoint(_) => pool.label(),
        }
    }
}

impl From<&CheckpointName> for Holder {
    fn from(checkpoint: &CheckpointName) -> Self {
        Self::Checkpoint(checkpoint.clone())
    }
}

impl From<&ClaimId> for Holder {
    fn from(claim: &ClaimId) -> Self {
        Self::Claim(claim.clone())
    }
}

impl From<&Holder> for Key {
    fn from(holder: &Holder) -> Self {
        match holder {
            Holder::Claim(claim) => claim.into(),
            Holder::Checkpoint(checkpoint) => checkpoint.into(),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(claim) => claim.fmt(f),
            Self::Checkpoint(checkpoint) => checkpoint.fmt(f),
        }
    }
}

/// What a provider says to a machine before it takes it away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// It goes, in a minute or two.
    Interruption,
    /// It is likely to be taken soon.
    Rebalance,
}

impl Notice {
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Interruption => "the provider is taking its machine away",
            Self::Rebalance => "the provider is likely to take its machine away soon",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    There,
    Gone,
    /// The backend can't tell, for now or at all.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Refused while somebody holds it.
    IfFree,
    /// Once its holder is done.
    Drain,
    /// At once, whoever holds it.
    Force,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::RunnerState;
    use crate::runner::launching::samples::runner;

    fn held_by(claim: Option<&str>) -> Runner {
        let mut held = runner(0, 1, true);
        if let RunnerState::Created { hold, .. } = &mut held.state {
            *hold = claim.map(|claim| Hold {
                holder: Holder::Claim(ClaimId::parse(claim).unwrap()),
                warm: false,
                max_runtime: Duration::ZERO,
            });
        }
        held
    }

    #[test]
    fn inv_02_what_was_decided_for_one_holder_is_void_for_another() {
        let (first, second, nobody) = (held_by(Some("c-1")), held_by(Some("c-2")), held_by(None));
        let release = RunnerEvent::Release { why: "cancelled".to_owned() };
        let ready = RunnerEvent::Ready { until: None };
        let launched = RunnerEvent::Launched { provider_id: "i-1".to_owned() };
        for (found, was) in [(&second, &first), (&nobody, &first), (&second, &nobody)] {
            assert!(!release.is_meant_for(found, was) && !ready.is_meant_for(found, was));
            assert!(launched.is_meant_for(found, was), "whoever has it, its machine is there");
        }
        let newer = Runner { rev: 7, ..first.clone() };
        assert!(release.is_meant_for(&newer, &first) && ready.is_meant_for(&newer, &first));
        for other in [
            Runner { epoch: first.epoch.next(), ..first.clone() },
            Runner { state: RunnerState::Idle, ..first.clone() },
        ] {
            assert!(!launched.is_meant_for(&other, &first));
        }
    }
}
