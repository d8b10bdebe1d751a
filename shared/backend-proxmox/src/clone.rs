//! A new VM from a template.

use serde_json::Value;

use crate::error::{Error, Problem};
use crate::ids::{NodeName, StorageName, Vm, VmId};
use crate::proxmox::Proxmox;
use crate::transport::Call;
use crate::upid::Upid;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneOrder {
    pub template: Vm,
    pub new: VmId,
    /// Its host name, too.
    pub name: String,
    /// Where it is to be, if not on the template's node: that needs a storage that both have.
    pub on: Option<NodeName>,
    pub copy: Copied,
    /// A pool of Proxmox VE's, whose permissions then hold for the new VM.
    pub pool: Option<String>,
}

/// What becomes of the template's disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Copied {
    /// Nothing is copied: the new VM needs the template for as long as it lives.
    Linked,
    Full {
        to: Option<StorageName>,
    },
}

impl Proxmox {
    /// A number that is free now. It is not kept: of two that clone to it, the second is told that it is taken.
    pub async fn free_vm_id(&self) -> Result<VmId, Error> {
        const ATTEMPTED: &str = "find a free number for a VM";
        let number: Value = self.read(Call::get("cluster/nextid".to_owned(), ATTEMPTED)).await?;
        let parsed = match &number {
            Value::Number(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
            Value::String(text) => text.parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        parsed.and_then(|number| VmId::try_from(number).ok()).ok_or_else(|| {
            let why = format!("{number} is no number of a VM");
            Error::new(ATTEMPTED, Problem::NotUnderstood { why })
        })
    }

    /// Needs VM.Clone on the template, VM.Allocate on the new VM or its pool, Datastore.AllocateSpace on the storage, and since 8.1 SDN.Use
    /// on its network.
    pub async fn clone_vm(&self, order: &CloneOrder) -> Result<Upid, Error> {
        let CloneOrder { template, new, name, on, copy, pool } = order;
        let mut call = Call::post(template.path("clone"), format!("clone {template} to {new}"))
            .with("newid", new.to_string())
            .with("name", name.clone());
        call = match copy {
            Copied::Linked => call.with("full", "0"),
            Copied::Full { to: None } => call.with("full", "1"),
            Copied::Full { to: Some(storage) } => call.with("full", "1").with("storage", storage.to_string()),
        };
        if let Some(node) = on {
            call = call.with("target", node.as_str());
        }
        if let Some(pool) = pool {
            call = call.with("pool", pool.clone());
        }
        self.begin(call).await
    }
}
