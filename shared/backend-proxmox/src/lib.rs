//! Proxmox VE: a client of its REST API for a site agent, and the order of steps in which a VM is given a snapshot, or taken back to one. It
//! does not know pools or runners, does not decide when a machine is reset, and keeps nothing: what must survive is the caller's to note.

mod answer;
mod clone;
mod config;
mod error;
mod explain;
mod fingerprint;
mod ids;
mod power;
mod proxmox;
pub mod restore;
mod settings;
mod snapshot_name;
mod snapshots;
mod status;
mod storage;
mod task;
mod tls;
mod transport;
mod upid;
mod wait;

pub use clone::{CloneOrder, Copied};
pub use config::{Config, ConfigChange};
pub use error::{Begun, Error, Lacking, Problem, SetupError};
pub use fingerprint::{Fingerprint, NotAFingerprint};
pub use ids::{InvalidId, NodeName, StorageName, Vm, VmId};
pub use proxmox::Proxmox;
pub use settings::{ApiToken, ProxmoxSettings, TokenId, Trust};
pub use snapshot_name::SnapshotName;
pub use snapshots::Snapshot;
pub use status::{Lock, Power, VmStatus};
pub use storage::StorageUse;
pub use task::{Task, TaskEnd, TaskState};
pub use upid::{TaskKind, Upid};
pub use wait::{Limits, Pace};
