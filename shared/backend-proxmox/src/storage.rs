//! How full a storage is, as a node sees it.

use serde::Deserialize;

use crate::answer::number;
use crate::error::{Error, Problem};
use crate::ids::{NodeName, StorageName};
use crate::proxmox::Proxmox;
use crate::transport::Call;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageUse {
    pub total_bytes: u64,
    pub used_bytes: u64,
    pub available_bytes: u64,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default, deserialize_with = "number")]
    total: Option<u64>,
    #[serde(default, deserialize_with = "number")]
    used: Option<u64>,
    #[serde(default, deserialize_with = "number")]
    avail: Option<u64>,
    #[serde(default, deserialize_with = "number")]
    active: Option<u64>,
}

impl Proxmox {
    /// Needs Datastore.Audit or Datastore.AllocateSpace. A storage that is switched off, or out of the node's reach, is unavailable.
    pub async fn storage_use(&self, node: &NodeName, storage: &StorageName) -> Result<StorageUse, Error> {
        let attempted = format!("see how full the storage {storage} of {node} is");
        let call = Call::get(format!("nodes/{node}/storage/{storage}/status"), attempted.clone());
        let Status { total, used, avail, active } = self.read(call).await?;
        match (total, used, avail) {
            (Some(total_bytes), Some(used_bytes), Some(available_bytes))
                if total_bytes > 0 && active != Some(0) =>
            {
                Ok(StorageUse { total_bytes, used_bytes, available_bytes })
            }
            _ => Err(Error::saying(&attempted, Problem::Unavailable, "the storage is not active")),
        }
    }
}

impl StorageUse {
    /// Of a hundred, rounded down.
    pub fn percent(&self) -> u64 {
        self.used_bytes.saturating_mul(100).checked_div(self.total_bytes).unwrap_or(100)
    }
}
