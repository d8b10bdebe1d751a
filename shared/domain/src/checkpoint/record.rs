//! A checkpoint as a record of the ledger.

use super::Checkpoint;
use crate::ids::{CheckpointName, JobId, PoolName};
use crate::record::{Key, Kind, Path, Place, Record, Version, padded};
use crate::time::Timestamp;
use std::time::Duration;

pub const CHECKPOINT: Kind = Kind::new("checkpoint");

const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

impl From<&CheckpointName> for Key {
    fn from(name: &CheckpointName) -> Self {
        Self::new(CHECKPOINT, name.as_str())
    }
}

/// The pool's checkpoints that have not come to their end, oldest first.
pub fn active_checkpoints(pool: &PoolName) -> String {
    format!("checkpoints#{pool}")
}

/// A job's checkpoints that have not come to their end, oldest first: on GitHub all jobs of a run share its id.
pub fn checkpoints_of_job(job: &JobId) -> String {
    format!("job-checkpoints#{job}")
}

impl Record for Checkpoint {
    /// While it is active, of its job and of its pool.
    const LISTS: usize = 2;

    fn path(&self) -> Path {
        Key::from(&self.name).into()
    }

    fn version(&self) -> Version {
        Version { state: self.state.as_str().to_owned(), epoch: self.epoch.0, rev: self.rev }
    }

    fn due(&self) -> Option<Timestamp> {
        self.state.is_active().then_some(self.look_at)
    }

    fn places(&self) -> Vec<Place> {
        let sort = format!("{}#{}", padded(self.created_at), self.name);
        let of_job = Place { list: checkpoints_of_job(&self.job), sort: sort.clone() };
        let of_pool = Place { list: active_checkpoints(&self.pool), sort };
        if self.state.is_active() { vec![of_job, of_pool] } else { Vec::new() }
    }

    fn kept_until(&self) -> Option<Timestamp> {
        self.state.ended_at().map(|at| at.after(KEPT))
    }
}
