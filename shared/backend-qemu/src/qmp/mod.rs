//! QEMU's machine protocol over the VM's socket: JSON, one message a line. It orders and asks; it decides nothing.
//!
//! A session is short: QEMU serves one at a time, and leaves the next one waiting for its greeting.

mod commands;
mod message;
mod session;

pub use commands::{BlockSnapshot, Job, JobState, RunState};
pub use message::{Event, Version};
pub use session::{Qmp, QmpError};
