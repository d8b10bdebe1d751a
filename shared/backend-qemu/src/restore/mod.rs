//! A VM is given a snapshot, taken back to it, or relieved of it: one operation, in steps, each of which may be the last before its driver is
//! killed. What is next follows from what the VM's process, its jobs, its image and its generation show ([`Operation::step`], pure); the driver
//! beside it looks, asks and waits. Neither tries a step that failed again: whoever ordered the operation may order another one.
//!
//! What holds of it, whatever is lost on the way:
//! - Nothing is begun while a job of the VM's QEMU is not final, or while a program works on its image.
//! - A disk is taken back only while the VM has no process; a live rollback begins as a new process, never in the old one.
//! - What runs after a rollback is a generation of its own, noted before it began; nothing of it runs before QEMU has said that all is loaded.
//! - A VM that was set going by an operation is not taken back by the same one again.

mod drive;
mod goals;
mod operation;
mod seen;
mod step;

pub use drive::DriveError;
pub use operation::{Afterwards, Goal, Memory, Operation};
pub use seen::{Process, Responds, Seen, Snapshot, ThisDriver};
pub use step::{Ask, Done, Failure, Next, Waiting};
