//! What a pool, a runner, a claim and a checkpoint are, and every decision about them. Pure: no async, no I/O, no clock, no randomness.

pub mod alert;
pub mod audit;
pub mod brake;
pub mod checkpoint;
pub mod ci;
pub mod claim;
pub mod delivery;
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

pub use audit::{Actor, AuditEntry, AuditResult};
pub use ids::{
    CheckpointName, ClaimId, DeliveryId, Epoch, IdError, JobId, Label, LaunchId, Owner, PoolName, RunnerId,
    TaskId, Workflow,
};
pub use time::{Threshold, Timestamp};
