//! What a pool, a runner and a claim are, and every decision about them. Pure: no async, no I/O, no clock, no randomness.

pub mod audit;
pub mod brake;
pub mod ci;
pub mod claim;
pub mod ids;
pub mod ladder;
pub mod pool;
pub mod record;
pub mod refresh;
pub mod runner;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
pub mod spec;
pub mod text;
pub mod time;

pub use audit::{Actor, AuditEntry};
pub use ids::{ClaimId, Epoch, IdError, Label, LaunchId, Owner, PoolName, RunnerId, TaskId, Workflow};
pub use time::{Threshold, Timestamp};
