//! What a person is told of: each kind of incident with its name for machines, its subject, and its sentences for people. What raises and ends
//! one is decided elsewhere.

use crate::ids::{PoolName, RunnerId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Incident {
    RunnerQuarantined {
        runner: RunnerId,
    },
    /// Somebody has a copy of a runner's token.
    TokenMisused {
        runner: RunnerId,
    },
    /// Somebody came with the secret of a launch that was not his, or is used up.
    LaunchSecretMisused {
        runner: RunnerId,
    },
    /// A provider refuses to make machines: it does so until somebody has mended something.
    LaunchRefused {
        pool: PoolName,
    },
    /// A queue has messages that nobody could use.
    DeadLetters {
        queue: String,
    },
    /// A checkpoint is past its time to live, and not at its end.
    StaleCheckpoint {
        checkpoint: String,
    },
    /// Machines have long waited to be taken out of their CI system's hands, or to be given back into them.
    CiSystemAwaited {
        pool: PoolName,
    },
    /// Refresh was not called for so long that whatever was due waited.
    RefreshLate,
    /// Most heartbeats are missing at once, and nobody is reaped for silence.
    MassSilence,
    /// Records of this kind are due that this version can't read. One incident for all of them: a rolling update brings many at once.
    LedgerUnreadable {
        kind: String,
    },
}

const MINUTE: Duration = Duration::from_secs(60);

impl Incident {
    /// A name that programs may rely on.
    pub fn name(&self) -> &'static str {
        match self {
            Self::RunnerQuarantined { .. } => "runner_quarantined",
            Self::TokenMisused { .. } => "token_misused",
            Self::LaunchSecretMisused { .. } => "launch_secret_misused",
            Self::LaunchRefused { .. } => "launch_refused",
            Self::DeadLetters { .. } => "dead_letters",
            Self::StaleCheckpoint { .. } => "stale_checkpoint",
            Self::CiSystemAwaited { .. } => "ci_system_awaited",
            Self::RefreshLate => "refresh_late",
            Self::MassSilence => "mass_silence",
            Self::LedgerUnreadable { .. } => "ledger_unreadable",
        }
    }

    /// Which runner, pool, queue or kind of record it is about; nothing, if it is about all of them.
    pub fn subject(&self) -> Option<&str> {
        match self {
            Self::RunnerQuarantined { runner }
            | Self::TokenMisused { runner }
            | Self::LaunchSecretMisused { runner } => Some(runner.as_str()),
            Self::LaunchRefused { pool } | Self::CiSystemAwaited { pool } => Some(pool.as_str()),
            Self::DeadLetters { queue } => Some(queue),
            Self::StaleCheckpoint { checkpoint } => Some(checkpoint),
            Self::LedgerUnreadable { kind } => Some(kind),
            Self::RefreshLate | Self::MassSilence => None,
        }
    }

    /// What is said when it is over.
    pub fn when_over(&self) -> String {
        match self {
            Self::RunnerQuarantined { runner } => format!("runner {runner} is no longer quarantined"),
            Self::TokenMisused { runner } => {
                format!("nobody came again with a copied token of runner {runner}")
            }
            Self::LaunchSecretMisused { runner } => {
                format!("nobody came again with the launch secret of runner {runner}")
            }
            Self::LaunchRefused { pool } => format!("the provider refuses no launch of pool {pool} any more"),
            Self::DeadLetters { queue } => format!("the queue {queue} has no dead letters any more"),
            Self::StaleCheckpoint { checkpoint } => {
                format!("the checkpoint {checkpoint} has come to its end")
            }
            Self::CiSystemAwaited { pool } => {
                format!("no machine of pool {pool} waits long for its CI system any more")
            }
            Self::RefreshLate => "refresh comes in time again".to_owned(),
            Self::MassSilence => "most heartbeats are heard again".to_owned(),
            Self::LedgerUnreadable { kind } => {
                format!("no record of kind {kind} that can't be read is due any more")
            }
        }
    }

    /// How often refresh looks whether it is over, where nobody has said so.
    pub fn looked_at_every(&self) -> Duration {
        match self {
            Self::RefreshLate | Self::MassSilence => MINUTE,
            Self::RunnerQuarantined { .. }
            | Self::TokenMisused { .. }
            | Self::LaunchSecretMisused { .. }
            | Self::LaunchRefused { .. }
            | Self::DeadLetters { .. }
            | Self::StaleCheckpoint { .. }
            | Self::CiSystemAwaited { .. }
            | Self::LedgerUnreadable { .. } => 5 * MINUTE,
        }
    }
}

/// What is the matter.
impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RunnerQuarantined { runner } => {
                write!(f, "runner {runner} is quarantined: a person must look")
            }
            Self::TokenMisused { runner } => write!(f, "somebody has a copy of a token of runner {runner}"),
            Self::LaunchSecretMisused { runner } => {
                write!(f, "somebody came with a launch secret that should be runner {runner}'s alone")
            }
            Self::LaunchRefused { pool } => {
                write!(f, "the provider refuses to launch machines for pool {pool}")
            }
            Self::DeadLetters { queue } => write!(f, "the queue {queue} has messages that nobody could use"),
            Self::StaleCheckpoint { checkpoint } => {
                write!(f, "the checkpoint {checkpoint} has outlived its time")
            }
            Self::CiSystemAwaited { pool } => {
                write!(f, "machines of pool {pool} wait for their CI system, and can take no job meanwhile")
            }
            Self::RefreshLate => f.write_str("refresh came late: what was due had to wait"),
            Self::MassSilence => f.write_str(
                "most heartbeats are missing at once: nobody is reaped for silence until they are heard",
            ),
            Self::LedgerUnreadable { kind } => {
                write!(f, "records of kind {kind} are due that can't be read, and are left as they are")
            }
        }
    }
}
