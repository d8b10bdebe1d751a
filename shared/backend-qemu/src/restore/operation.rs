//! What is to be done to one VM. How far it has come is not in here: the VM shows that.

use serde::{Deserialize, Serialize};

use crate::names::{OperationId, SnapshotName};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Of whoever ordered it. The same one again goes on with it, or finds it done; a further try at the same thing is another operation.
    pub id: OperationId,
    pub snapshot: SnapshotName,
    pub goal: Goal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// There is such a snapshot, whoever took it.
    Snapshot(Memory),
    /// The VM runs in a new generation, from the snapshot.
    Rollback(Memory, Afterwards),
    /// There is no such snapshot.
    Delete,
}

/// What of a VM a snapshot holds, or is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// Live: disk and memory. The VM goes on where the snapshot was taken.
    Included,
    /// Cold: the disk alone, as after a power cut. The VM boots.
    DiskOnly,
}

/// What becomes of the snapshot when the VM runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Afterwards {
    Keep,
    Delete,
}

impl Operation {
    /// Of its own job that saves memory.
    pub(crate) fn save_job(&self) -> String {
        format!("save-{}", self.id)
    }

    pub(crate) fn delete_job(&self) -> String {
        format!("delete-{}", self.id)
    }
}
