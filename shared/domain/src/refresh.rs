//! What refresh remembers from pass to pass.

use crate::record::{Beside, Key, Kind, Path, Record, Version};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Kept from pass to pass, so that a gap between passes shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshMemory {
    pub last_pass_at: Timestamp,
    pub last_sweep_at: Timestamp,
    /// Since when heartbeats could have arrived without a gap.
    pub listening_since: Timestamp,
    /// Which write of it this is; 0 for one that was never written.
    #[serde(skip)]
    pub rev: u64,
}

impl RefreshMemory {
    pub fn path_of() -> Path {
        Key::new(Kind::new("refresh"), "memory").into()
    }

    pub fn version_of(rev: u64) -> Version {
        Version { rev, ..Version::default() }
    }
}

impl Record for RefreshMemory {
    fn path(&self) -> Path {
        Self::path_of()
    }

    fn version(&self) -> Version {
        Self::version_of(self.rev)
    }

    fn beside(self, beside: &Beside) -> Self {
        Self { rev: beside.version.rev, ..self }
    }
}
