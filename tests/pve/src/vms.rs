//! VMs as the model has them: a configuration, a disk that is a set of files, and snapshots of both.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

#[derive(Debug, Clone)]
pub struct ModelVm {
    pub node: String,
    pub name: String,
    pub storage: String,
    pub template: bool,
    pub running: bool,
    /// How often it was started.
    pub boots: u64,
    pub lock: Option<String>,
    pub config: BTreeMap<String, String>,
    pub files: BTreeSet<String>,
    /// In the order in which they were taken.
    pub snapshots: Vec<ModelSnapshot>,
    /// The snapshot that it was taken back to, or that was taken of it, last.
    pub parent: Option<String>,
    /// How often it was rolled back, and how often while it ran.
    pub rollbacks: u64,
    pub rollbacks_while_running: u64,
}

#[derive(Debug, Clone)]
pub struct ModelSnapshot {
    pub name: String,
    pub taken_at: u64,
    pub parent: Option<String>,
    /// The VM ran, and its memory was taken too.
    pub memory: bool,
    /// Not finished: `prepare` or `delete`.
    pub state: Option<String>,
    pub config: BTreeMap<String, String>,
    pub files: BTreeSet<String>,
}

/// What a storage can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageKind {
    /// Snapshots, in any order.
    LvmThin,
    /// Snapshots, and back to the newest only.
    Zfs,
    /// None.
    PlainLvm,
}

#[derive(Debug, Clone)]
pub(crate) struct Storage {
    pub(crate) kind: StorageKind,
    pub(crate) total: u64,
    pub(crate) used: u64,
    pub(crate) active: bool,
}

impl ModelVm {
    pub(crate) fn new(node: &str, name: &str, storage: &str) -> Self {
        let config = [("name", name), ("memory", "2048"), ("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0")];
        Self {
            node: node.to_owned(),
            name: name.to_owned(),
            storage: storage.to_owned(),
            template: false,
            running: false,
            boots: 0,
            lock: None,
            config: config.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            files: BTreeSet::new(),
            snapshots: Vec::new(),
            parent: None,
            rollbacks: 0,
            rollbacks_while_running: 0,
        }
    }

    pub fn snapshot(&self, name: &str) -> Option<&ModelSnapshot> {
        self.snapshots.iter().find(|snapshot| snapshot.name == name)
    }

    /// Of the configuration as it is.
    pub(crate) fn digest(&self) -> String {
        let hash = Sha256::digest(format!("{:?} {:?}", self.config, self.parent).as_bytes());
        hash.iter().take(20).map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn shown_config(&self) -> Value {
        let mut shown: BTreeMap<String, Value> =
            self.config.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        shown.insert("digest".to_owned(), json!(self.digest()));
        if let Some(lock) = &self.lock {
            shown.insert("lock".to_owned(), json!(lock));
        }
        json!(shown)
    }

    /// The pseudo entry for the VM as it is comes last.
    pub(crate) fn shown_snapshots(&self) -> Value {
        let mut shown: Vec<Value> = self.snapshots.iter().map(ModelSnapshot::shown).collect();
        let mut current = json!({
            "name": "current", "description": "You are here!", "digest": self.digest(), "running": u8::from(self.running),
        });
        if let Some(parent) = &self.parent {
            current["parent"] = json!(parent);
        }
        shown.push(current);
        json!(shown)
    }

    pub(crate) fn boot(&mut self) {
        (self.running, self.boots) = (true, self.boots + 1);
    }
}

impl ModelSnapshot {
    fn shown(&self) -> Value {
        let Self { name, taken_at, parent, memory, state, config: _, files: _ } = self;
        let mut shown =
            json!({"name": name, "description": "", "snaptime": taken_at, "vmstate": u8::from(*memory)});
        for (key, value) in [("parent", parent), ("snapstate", state)] {
            if let Some(value) = value {
                shown[key] = json!(value);
            }
        }
        shown
    }
}
