//! A Proxmox VE in memory, behind its own API on loopback: nodes, VMs with disks and snapshots, tasks that take their time, locks, storages,
//! tokens with privileges, and failures on order. What a VM does can be somebody else's ([`Machines`]): then a real machine stands behind the
//! API. Our client is not known here, only to the tests.

mod access;
mod actions;
mod answer;
mod begin;
mod cluster;
mod faults;
mod machines;
mod request;
mod routes;
mod server;
mod tasks;
mod vms;

pub use actions::Action;
pub use cluster::{Cluster, SECRET, State, TOKEN};
pub use faults::Fault;
pub use machines::Machines;
pub use server::{Server, Tls};
pub use tasks::ModelTask;
pub use vms::{ModelSnapshot, ModelVm, StorageKind};
