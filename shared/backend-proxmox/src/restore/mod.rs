//! A VM is given a snapshot, taken back to it, or relieved of it: one operation, in steps, each of which may be the last before its driver is
//! killed. What is next follows from what Proxmox VE shows and from little else ([`Memory`]). The decision is pure ([`Memory::step`]); the driver
//! beside it looks, asks and waits. Neither tries a step that failed again: whoever ordered the operation may order another one.
//!
//! What holds of it, whatever is lost on the way:
//! - Nothing is asked for while a task of the VM runs, or while a call of ours may still arrive.
//! - Each step is asked for at most once in an operation, so a VM is rolled back once.
//! - A VM is stopped before it is rolled back, and started only when the rollback's task has ended well.
//! - That a task was begun means nothing. That it ended well does, and then it is looked whether it shows.

mod drive;
mod goals;
mod operation;
mod seen;
mod step;

pub use drive::{DriveError, Driver, Journal};
pub use operation::{Baseline, Goal, Memory, Operation};
pub use seen::Seen;
pub use step::{Ask, Done, Failure, Next, Outcome, Waiting};
