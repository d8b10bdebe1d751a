//! How a VM is now: whether it runs, and what it is locked for.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::ids::Vm;
use crate::proxmox::Proxmox;
use crate::transport::Call;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmStatus {
    pub power: Power,
    /// What QEMU itself says: `running`, `paused`, `prelaunch`, …
    pub qmpstatus: Option<String>,
    pub lock: Option<Lock>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    Running,
    Stopped,
}

/// Of a VM's configuration, while something is done to the VM; it outlives whoever was killed at that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Lock {
    Backup,
    Clone,
    Create,
    Migrate,
    Rollback,
    Snapshot,
    SnapshotDelete,
    Suspended,
    Suspending,
    Other(String),
}

#[derive(Deserialize)]
struct Current {
    status: String,
    qmpstatus: Option<String>,
    lock: Option<String>,
}

impl Proxmox {
    /// Needs VM.Audit.
    pub async fn status(&self, vm: &Vm) -> Result<VmStatus, Error> {
        let call = Call::get(vm.path("status/current"), format!("see how {vm} is"));
        let Current { status, qmpstatus, lock } = self.read(call).await?;
        let power = if status == "stopped" { Power::Stopped } else { Power::Running };
        Ok(VmStatus { power, qmpstatus, lock: lock.filter(|name| !name.is_empty()).map(Lock::from) })
    }
}

impl Lock {
    fn name(&self) -> &str {
        match self {
            Self::Backup => "backup",
            Self::Clone => "clone",
            Self::Create => "create",
            Self::Migrate => "migrate",
            Self::Rollback => "rollback",
            Self::Snapshot => "snapshot",
            Self::SnapshotDelete => "snapshot-delete",
            Self::Suspended => "suspended",
            Self::Suspending => "suspending",
            Self::Other(name) => name,
        }
    }
}

impl From<&str> for Lock {
    fn from(name: &str) -> Self {
        match name {
            "backup" => Self::Backup,
            "clone" => Self::Clone,
            "create" => Self::Create,
            "migrate" => Self::Migrate,
            "rollback" => Self::Rollback,
            "snapshot" => Self::Snapshot,
            "snapshot-delete" => Self::SnapshotDelete,
            "suspended" => Self::Suspended,
            "suspending" => Self::Suspending,
            other => Self::Other(other.chars().filter(|c| !c.is_control()).take(40).collect()),
        }
    }
}

impl From<String> for Lock {
    fn from(name: String) -> Self {
        Self::from(name.as_str())
    }
}

impl From<Lock> for String {
    fn from(lock: Lock) -> Self {
        lock.name().to_owned()
    }
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
