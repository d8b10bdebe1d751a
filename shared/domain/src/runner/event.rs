//! What can happen to a runner.

use crate::ci::Registration;
use crate::ids::{ClaimId, TaskId};
use crate::ladder::Attempt;
use crate::runner::ProofKind;
use crate::time::Threshold;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunnerEvent {
    /// The provider took the launch.
    Launched {
        provider_id: String,
    },
    /// The provider is about to be called, on another rung of the ladder.
    Attempted {
        attempt: Attempt,
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
    },
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

/// A claim's hold on a runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    pub claim: ClaimId,
    /// It came from the pool, and was not launched for this claim.
    pub warm: bool,
    pub max_runtime: Duration,
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
