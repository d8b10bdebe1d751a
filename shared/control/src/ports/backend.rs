//! The backend port: where machines come from. Four verbs, each safe to repeat.

use async_trait::async_trait;
use motorpool_domain::pool::{BackendKind, Pool};
use motorpool_domain::runner::{Presence, Runner};
use motorpool_domain::{PoolName, RunnerId};
use std::collections::HashMap;
use std::sync::Arc;

#[async_trait]
pub trait Backend: Send + Sync + std::fmt::Debug {
    /// The machine of this launch intent exists, made now or by an earlier call.
    async fn ensure_launched(&self, order: &LaunchOrder<'_>) -> Result<Launched, LaunchError>;

    /// Whether the runner's machine is there.
    async fn describe(&self, runner: &Runner) -> Result<Presence, BackendError>;

    /// The machine is told to go; the answer is whether it is gone already.
    async fn ensure_gone(&self, runner: &Runner) -> Result<Presence, BackendError>;

    /// Every machine of ours in this pool, with or without a record.
    async fn inventory(&self, pool: &PoolName) -> Result<Vec<Machine>, BackendError>;

    /// Ends a machine that has no record, or whose record is of another machine.
    async fn discard(&self, machine: &Machine) -> Result<(), BackendError>;

    /// Whether this control plane is one that can launch, see and end the runner's machine. One that is not leaves what is due for it
    /// to one that is: a look later, or another try, would hide it from that one.
    fn answers_for(&self, _: &Runner) -> bool {
        true
    }
}

#[derive(Debug)]
pub struct LaunchOrder<'a> {
    pub pool: &'a Pool,
    pub runner: &'a Runner,
    /// What the machine's agent redeems for its own token.
    pub secret: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    pub provider_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    pub runner: RunnerId,
    pub provider_id: String,
}

#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No machine will come of this intent.
    #[error("{0}")]
    Refused(String),
    /// Nobody knows whether a machine came of it; the same call again will tell.
    #[error("the launch could not be confirmed")]
    Unconfirmed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

#[derive(Debug, thiserror::Error)]
#[error("the backend could not {attempted}")]
pub struct BackendError {
    pub attempted: String,
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// The backends of this control plane, by kind.
#[derive(Debug, Clone, Default)]
pub struct Backends(HashMap<BackendKind, Arc<dyn Backend>>);

impl Backends {
    #[must_use]
    pub fn with(mut self, kind: BackendKind, backend: Arc<dyn Backend>) -> Self {
        self.0.insert(kind, backend);
        self
    }

    pub fn get(&self, kind: BackendKind) -> Option<&Arc<dyn Backend>> {
        self.0.get(&kind)
    }
}

/// Machines that somebody else owns and starts: nothing to launch, nothing to end, nobody to ask.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnedMachines;

#[async_trait]
impl Backend for OwnedMachines {
    async fn ensure_launched(&self, order: &LaunchOrder<'_>) -> Result<Launched, LaunchError> {
        Ok(Launched { provider_id: order.runner.id.to_string() })
    }

    async fn describe(&self, _: &Runner) -> Result<Presence, BackendError> {
        Ok(Presence::Unknown)
    }

    /// The machine stays; that its agent ends its work is what it is told at its next sync.
    async fn ensure_gone(&self, _: &Runner) -> Result<Presence, BackendError> {
        Ok(Presence::Gone)
    }

    async fn inventory(&self, _: &PoolName) -> Result<Vec<Machine>, BackendError> {
        Ok(Vec::new())
    }

    async fn discard(&self, _: &Machine) -> Result<(), BackendError> {
        Ok(())
    }
}

/// Stands in for a backend whose machines another control plane on the same ledger has: that one launches, is asked and tells.
#[derive(Debug, Clone, Copy, Default)]
pub struct Elsewhere;

#[derive(Debug, thiserror::Error)]
#[error("machines of this backend are launched by a serve that has them")]
struct NotHere;

#[async_trait]
impl Backend for Elsewhere {
    /// The intent stays as it is, and is launched by a refresh of whoever can.
    async fn ensure_launched(&self, _: &LaunchOrder<'_>) -> Result<Launched, LaunchError> {
        Err(LaunchError::Unconfirmed(Box::new(NotHere)))
    }

    async fn describe(&self, _: &Runner) -> Result<Presence, BackendError> {
        Ok(Presence::Unknown)
    }

    async fn ensure_gone(&self, _: &Runner) -> Result<Presence, BackendError> {
        Ok(Presence::Unknown)
    }

    async fn inventory(&self, _: &PoolName) -> Result<Vec<Machine>, BackendError> {
        Ok(Vec::new())
    }

    async fn discard(&self, machine: &Machine) -> Result<(), BackendError> {
        let attempted = format!("discard {}", machine.provider_id);
        Err(BackendError { attempted, source: Box::new(NotHere) })
    }

    fn answers_for(&self, _: &Runner) -> bool {
        false
    }
}
