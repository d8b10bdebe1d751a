//! A pool as a record of the ledger, with its slots in use as the record's counter; and the shortages that stand under it.

use super::{Clean, Dispatch, Pool, Rules};
use crate::ids::PoolName;
use crate::ladder::{Lacking, Shortage};
use crate::record::{Beside, Key, Kind, Path, Place, Record, Version};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

pub const POOL: Kind = Kind::new("pool");
/// The list of all pools.
pub const POOLS: &str = "pools";
/// What the names of a pool's shortages begin with.
pub const SHORTAGE: &str = "shortage#";

impl From<&PoolName> for Key {
    fn from(name: &PoolName) -> Self {
        Self::new(POOL, name.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PoolRecord {
    pub pool: Pool,
    /// Of the definition; slots do not change it.
    #[serde(skip)]
    pub rev: u64,
    /// Slots in use: live runners and launch intents.
    #[serde(skip)]
    pub used: u32,
}

impl PoolRecord {
    pub fn version_of(rev: u64) -> Version {
        Version { rev, ..Version::default() }
    }
}

impl Record for PoolRecord {
    /// The second has checkpoints: an older version would announce, and hand to claims, what the CI system gives jobs to by itself.
    const SCHEMA: u32 = 2;

    fn schema(&self) -> u32 {
        let Rules { dispatch, clean, commands, checkpoints, .. } = &self.pool.rules;
        let is_first = *dispatch == Dispatch::Claim
            && *clean != Clean::Reset
            && commands.reset.is_none()
            && commands.readiness.is_none()
            && checkpoints.is_usual();
        if is_first { 1 } else { Self::SCHEMA }
    }

    fn path(&self) -> Path {
        Key::from(&self.pool.name).into()
    }

    fn version(&self) -> Version {
        Self::version_of(self.rev)
    }

    fn places(&self) -> Vec<Place> {
        vec![Place { list: POOLS.to_owned(), sort: self.pool.name.to_string() }]
    }

    fn beside(self, beside: &Beside) -> Self {
        let used = u32::try_from(beside.counter).unwrap_or(u32::MAX);
        Self { rev: beside.version.rev, used, ..self }
    }
}

/// A shortage under its pool, one of each kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolShortage {
    pub pool: PoolName,
    pub shortage: Shortage,
}

impl PoolShortage {
    pub fn path_of(pool: &PoolName, of: &Lacking) -> Path {
        Path::child(Key::from(pool), format!("{SHORTAGE}{}", of.key()))
    }
}

impl Record for PoolShortage {
    fn path(&self) -> Path {
        Self::path_of(&self.pool, &self.shortage.of)
    }

    fn version(&self) -> Version {
        Version::default()
    }

    fn kept_until(&self) -> Option<Timestamp> {
        Some(self.shortage.until)
    }
}
