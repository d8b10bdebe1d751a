//! The backend port: where machines come from. A few verbs, each safe to repeat.

use async_trait::async_trait;
use motorpool_domain::ladder::{CapacityOption, Lacking, LaunchCall};
use motorpool_domain::pool::{BackendKind, Pool, RuleError, Rules};
use motorpool_domain::runner::{Attested, Presence, Runner};
use motorpool_domain::spec::Want;
use motorpool_domain::{LaunchId, PoolName, RunnerId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

#[async_trait]
pub trait Backend: Send + Sync + std::fmt::Debug {
    /// The ways to get a machine of this pool, best first. It need not be asked twice for the same within minutes.
    async fn ladder(&self, pool: &Pool, _: &Want) -> Result<Vec<CapacityOption>, BackendError> {
        Ok(vec![CapacityOption::only(pool.rules.offer.clone())])
    }

    /// What the provider knows to be wrong with a pool's settings, before anything is launched: with any of these, what the pool asks for
    /// would never come, or not all of it. It answers while an operator waits; an error means that the provider can't be asked now.
    async fn check(&self, _: &Pool) -> Result<Vec<RuleError>, BackendError> {
        Ok(Vec::new())
    }

    /// Whether machines of such a pool could be launched and call home, as far as can be known without asking anybody.
    fn accepts(&self, _: &Rules) -> Result<(), Unfit> {
        Ok(())
    }

    /// One call to the provider, for all machines of the order: all, some, or an error. The same order again makes no machine more,
    /// and answers the same. Of some, they are the first ones.
    async fn launch(&self, order: &LaunchOrder<'_>) -> Result<Vec<Machine>, LaunchError>;

    /// Whether the runner's machine is there.
    async fn describe(&self, runner: &Runner) -> Result<Presence, BackendError>;

    /// Whether a machine that claims to be the runner's is: an agent's word alone does not count. Asked where all machines of a launch are told the
    /// same; a backend that tells each its own secret has nothing to add to that.
    async fn attest(&self, _: &Runner, _provider_id: &str) -> Result<Attested, BackendError> {
        Ok(Attested::NobodyKnows)
    }

    /// The machine is told to go; the answer is whether it is gone already. One that is there and is not the runner's is never told: an error.
    async fn ensure_gone(&self, runner: &Runner) -> Result<Presence, BackendError>;

    /// Every machine of ours in this pool that is not gone, with or without a record.
    async fn inventory(&self, pool: &PoolName) -> Result<Vec<Machine>, BackendError>;

    /// How long after the call that made it a machine may be missing from the inventory.
    fn shown_within(&self) -> Duration {
        Duration::ZERO
    }

    /// Ends a machine that has no record, or whose record is of another machine. One that is not ours is never told: an error.
    async fn discard(&self, machine: &Machine) -> Result<(), BackendError>;

    /// Whether this control plane is one that can launch, see and end the runner's machine. One that is not leaves what is due for it
    /// to one that is: a look later, or another try, would hide it from that one.
    fn answers_for(&self, _: &Runner) -> bool {
        true
    }
}

/// What a launch is made from. All of it is in the ledger, or follows from what is: made again after a crash, it is the same.
pub struct LaunchOrder<'a> {
    pub pool: &'a Pool,
    pub launch: &'a LaunchId,
    pub attempt: &'a LaunchCall,
    /// As many as the attempt counts, in the order of their index.
    pub machines: Vec<Ordered>,
    /// What any agent of this launch redeems, where all its machines are told the same.
    pub launch_secret: String,
}

impl std::fmt::Debug for LaunchOrder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaunchOrder")
            .field("launch", &self.launch)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// One machine of an order.
#[derive(Clone)]
pub struct Ordered {
    pub runner: RunnerId,
    /// What this machine's agent redeems, where each machine can be told its own.
    pub secret: String,
}

impl std::fmt::Debug for Ordered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ordered").field("runner", &self.runner).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    pub runner: RunnerId,
    pub provider_id: String,
}

/// Why this control plane takes no such pool, and what its operator can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unfit {
    pub why: String,
    pub hint: String,
}

#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// None can be had of `of` now. Nothing was launched.
    #[error("{why}")]
    NoCapacity { of: Lacking, why: String },
    /// The provider is asked too often. Nothing was launched; the same order later.
    #[error("the provider is asked too often: {0}")]
    Throttled(String),
    /// No machine will come of such an order on any rung, until a person has mended something.
    #[error("{0}")]
    Refused(String),
    /// Nobody knows whether machines came of it; the same order again will tell.
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
    async fn launch(&self, order: &LaunchOrder<'_>) -> Result<Vec<Machine>, LaunchError> {
        let machine = |runner: &RunnerId| Machine { runner: runner.clone(), provider_id: runner.to_string() };
        Ok(order.machines.iter().map(|ordered| machine(&ordered.runner)).collect())
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
    async fn launch(&self, _: &LaunchOrder<'_>) -> Result<Vec<Machine>, LaunchError> {
        Err(LaunchError::Unconfirmed(Box::new(NotHere)))
    }

    async fn describe(&self, _: &Runner) -> Result<Presence, BackendError> {
        Ok(Presence::Unknown)
    }

    /// Whoever launched it will note it, or can be asked.
    async fn attest(&self, _: &Runner, _: &str) -> Result<Attested, BackendError> {
        Ok(Attested::NotShown)
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
