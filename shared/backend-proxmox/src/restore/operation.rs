//! What is to be done to one VM, and what of it must survive the driver. How far it has come is not in here: Proxmox VE shows that.

use serde::{Deserialize, Serialize};

use crate::ids::Vm;
use crate::snapshot_name::SnapshotName;
use crate::upid::Upid;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Of whoever ordered it. A further try at the same thing is another operation: it does not count what this one has done.
    pub id: String,
    pub vm: Vm,
    pub snapshot: SnapshotName,
    pub goal: Goal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// There is such a snapshot, whoever took it.
    Snapshot { memory: bool },
    /// The VM was stopped, rolled back and started, and the snapshot is gone.
    Rollback,
    /// There is no such snapshot.
    Delete,
}

/// Written down by the driver each time it changes, before anything else is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    pub operation: Operation,
    /// None until it begins: nothing was asked for yet.
    pub baseline: Option<Baseline>,
    /// The task that was begun last. It may be one behind: who was killed, or lost the answer, could not note it.
    pub last: Option<Upid>,
}

/// The VM's newest task when the operation began, if it had any. Tasks that began later, under our token, are the operation's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    pub newest: Option<Upid>,
}

impl Memory {
    pub fn of(operation: Operation) -> Self {
        Self { operation, baseline: None, last: None }
    }

    #[must_use]
    pub fn noting(&self, task: &Upid) -> Self {
        Self { last: Some(task.clone()), ..self.clone() }
    }
}
