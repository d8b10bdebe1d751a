//! Virtual machines in QEMU on this Linux host: made, started, found again, stopped, given snapshots and taken back to them. It does not know pools
//! or runners, does not decide when a machine is reset, and has no daemon: what is true of a VM is in its directory and in its QEMU process.

mod accelerator;
mod command_line;
mod directory;
mod driver_lock;
mod error;
mod generation;
mod host;
mod image;
mod launch;
mod machine;
mod names;
mod process;
pub mod qmp;
pub mod restore;
mod status;
mod verbs;
mod wait;

pub use command_line::{Launch, arguments};
pub use driver_lock::Held;
pub use error::Error;
pub use generation::{Entry, Generation};
pub use host::{Host, Programs, Vm};
pub use machine::{Acceleration, BaseImage, Console, Forward, ImageFormat, Kernel, Machine, Network};
pub use names::{InvalidName, OperationId, SnapshotName, VmName};
pub use status::Status;
pub use wait::Limits;
