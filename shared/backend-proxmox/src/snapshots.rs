//! Snapshots of a VM: taken, listed, rolled back to, deleted, and whether its storage has them at all.

use serde::Deserialize;

use crate::answer::number;
use crate::error::Error;
use crate::ids::Vm;
use crate::proxmox::Proxmox;
use crate::snapshot_name::{CURRENT, SnapshotName};
use crate::transport::Call;
use crate::upid::Upid;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub name: SnapshotName,
    /// The one that it was taken on.
    pub parent: Option<String>,
    /// When it was taken, in seconds by the node's clock.
    pub taken_at: Option<u64>,
    pub has_memory: bool,
    /// It is being taken or deleted, or was when whoever did it was killed: nothing can be rolled back to it.
    pub unfinished: bool,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    parent: Option<String>,
    #[serde(default, deserialize_with = "number")]
    snaptime: Option<u64>,
    #[serde(default, deserialize_with = "number")]
    vmstate: Option<u64>,
    snapstate: Option<String>,
}

#[derive(Deserialize)]
struct Feature {
    #[serde(default, rename = "hasFeature", deserialize_with = "number")]
    has_feature: Option<u64>,
}

impl Proxmox {
    /// Of the disks; with `memory` also of that, which needs twice the VM's memory on the storage. Needs VM.Snapshot.
    pub async fn snapshot(&self, vm: &Vm, name: &SnapshotName, memory: bool) -> Result<Upid, Error> {
        let call = Call::post(vm.path("snapshot"), format!("take the snapshot {name} of {vm}"))
            .with("snapname", name.as_str())
            .with("vmstate", if memory { "1" } else { "0" });
        self.begin(call).await
    }

    /// Without the pseudo entry for the VM as it is, and without those whose name none can be given any more. Needs VM.Audit.
    pub async fn snapshots(&self, vm: &Vm) -> Result<Vec<Snapshot>, Error> {
        let call = Call::get(vm.path("snapshot"), format!("list the snapshots of {vm}"));
        let entries: Vec<Entry> = self.read(call).await?;
        Ok(entries.into_iter().filter(|entry| entry.name != CURRENT).filter_map(Entry::snapshot).collect())
    }

    /// It restores the VM's configuration too. A VM that runs is ended hard, with five seconds for it: stop it first. Whether a snapshot has
    /// its memory decides whether the VM runs afterwards. Needs VM.Snapshot or VM.Snapshot.Rollback.
    pub async fn rollback(&self, vm: &Vm, name: &SnapshotName) -> Result<Upid, Error> {
        let path = vm.path(&format!("snapshot/{name}/rollback"));
        self.begin(Call::post(path, format!("roll {vm} back to {name}"))).await
    }

    /// Needs VM.Snapshot.
    pub async fn delete_snapshot(&self, vm: &Vm, name: &SnapshotName) -> Result<Upid, Error> {
        let attempted = format!("delete the snapshot {name} of {vm}");
        let call = Call::delete(vm.path(&format!("snapshot/{name}")), attempted);
        self.begin(call).await
    }

    /// Whether all of the VM's disks are on storages with snapshots: not plain LVM, iSCSI, or raw files in a directory. Needs VM.Audit.
    pub async fn has_snapshots(&self, vm: &Vm) -> Result<bool, Error> {
        let call = Call::get(vm.path("feature"), format!("see whether {vm} can be snapshotted"))
            .with("feature", "snapshot");
        let Feature { has_feature } = self.read(call).await?;
        Ok(has_feature == Some(1))
    }
}

impl Entry {
    fn snapshot(self) -> Option<Snapshot> {
        let Self { name, parent, snaptime, vmstate, snapstate } = self;
        Some(Snapshot {
            name: name.parse().ok()?,
            parent,
            taken_at: snaptime,
            has_memory: vmstate == Some(1),
            unfinished: snapstate.is_some_and(|state| !state.is_empty()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_as_proxmox_ve_gives_it() {
        let list = r#"[
            {"name":"mp-1","description":"","snaptime":1732900000,"vmstate":0,"parent":"base"},
            {"name":"base","snaptime":"1732800000","vmstate":"1"},
            {"name":"mp-2","snaptime":1732900001,"snapstate":"prepare","parent":"mp-1"},
            {"name":"current","description":"You are here!","parent":"mp-1","running":1,"digest":"0a"}]"#;
        let entries: Vec<Entry> = serde_json::from_str(list).unwrap();
        let found: Vec<Snapshot> =
            entries.into_iter().filter(|entry| entry.name != CURRENT).filter_map(Entry::snapshot).collect();
        let told: Vec<_> =
            found.iter().map(|it| (it.name.as_str(), it.taken_at, it.has_memory, it.unfinished)).collect();
        assert_eq!(
            told,
            [
                ("mp-1", Some(1_732_900_000), false, false),
                ("base", Some(1_732_800_000), true, false),
                ("mp-2", Some(1_732_900_001), false, true),
            ]
        );
    }
}
