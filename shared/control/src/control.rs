//! The control plane: its ports and settings, and the reads that every use case begins with.

use crate::error::Refused;
use crate::measures::Measures;
use crate::ports::alerts::AlertSender;
use crate::ports::backend::{Backend, Backends};
use crate::ports::ci::CiSystems;
use crate::ports::clock::Clock;
use crate::ports::doorbell::Doorbell;
use crate::ports::entropy::Entropy;
use crate::ports::ledger::Ledger;
use crate::ports::queue::Queue;
use crate::secrets::ServerSecret;
use crate::store::Store;
use motorpool_domain::claim::{Claim, TeamLimits};
use motorpool_domain::pool::{BackendKind, PoolRecord};
use motorpool_domain::record::Key;
use motorpool_domain::runner::Runner;
use motorpool_domain::spec::Spec;
use motorpool_domain::{ClaimId, Owner, PoolName, RunnerId, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub struct Control {
    pub(crate) store: Store,
    pub(crate) queue: Arc<dyn Queue>,
    backends: Backends,
    pub(crate) ci: CiSystems,
    clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    doorbell: Arc<dyn Doorbell>,
    pub(crate) alerts: Option<Arc<dyn AlertSender>>,
    pub(crate) secret: ServerSecret,
    pub(crate) settings: Settings,
    measures: Measures,
}

/// What a control plane is made of.
#[derive(Debug)]
pub struct Parts {
    pub ledger: Arc<dyn Ledger>,
    pub queue: Arc<dyn Queue>,
    pub backends: Backends,
    pub ci: CiSystems,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub doorbell: Arc<dyn Doorbell>,
    /// Without it incidents are logged and listed, and nobody is told.
    pub alerts: Option<Arc<dyn AlertSender>>,
    pub secret: ServerSecret,
    pub settings: Settings,
}

#[derive(Debug, Clone)]
pub struct Settings {
    /// How often refresh is called: a longer gap means that nobody was listening.
    pub refresh: Duration,
    pub sweep: Duration,
    pub resource_classes: BTreeMap<String, Spec>,
    /// The hardware of a pool that does not name its own.
    pub host: Spec,
    /// The teams that there are. One that is not named, as where tokens are checked elsewhere, has the usual limits.
    pub teams: BTreeMap<Owner, TeamLimits>,
}

impl Control {
    pub fn new(parts: Parts) -> Self {
        let Parts { ledger, queue, backends, ci, clock, entropy, doorbell, alerts, secret, settings } = parts;
        let store = Store::new(ledger);
        let measures = Measures::default();
        Self { store, queue, backends, ci, clock, entropy, doorbell, alerts, secret, settings, measures }
    }

    /// Whether the control plane can do its work: the ledger answers.
    pub async fn ready(&self) -> Result<(), Refused> {
        Ok(self.store.ping().await?)
    }

    /// Of this process alone.
    pub fn measures(&self) -> &Measures {
        &self.measures
    }

    /// On the control plane's clock, the only one that deadlines are compared on.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Whoever waits for a change of this record looks again.
    pub(crate) fn wake(&self, changed: Key) {
        self.doorbell.ring(changed);
    }

    pub(crate) fn backend(&self, kind: BackendKind) -> Result<&Arc<dyn Backend>, Refused> {
        self.backends.get(kind).ok_or_else(|| {
            Refused::invalid(
                format!("the backend {} is not part of this control plane", kind.name()),
                match kind {
                    BackendKind::Ec2 => "start it with AWS_REGION set, from a build that has the feature ec2",
                    BackendKind::Local => {
                        "define a local pool in the pools file: only then does `motorpool serve` run commands on its own host"
                    }
                    BackendKind::BareMetal
                    | BackendKind::Proxmox
                    | BackendKind::Qemu => "use another backend, or a build that has it",
                },
            )
        })
    }

    /// Nothing of the operator: he makes the limits.
    pub(crate) fn limits_of(&self, owner: &Owner) -> Option<TeamLimits> {
        (*owner != Owner::operator()).then(|| self.settings.teams.get(owner).copied().unwrap_or_default())
    }

    pub(crate) async fn pool_record(&self, name: &PoolName) -> Result<PoolRecord, Refused> {
        self.store.pool(name).await?.ok_or_else(|| no_pool(name))
    }

    pub(crate) async fn claim_record(&self, id: &ClaimId) -> Result<Claim, Refused> {
        self.store.claim(id).await?.ok_or_else(|| {
            Refused::not_found(
                format!("there is no claim {id}"),
                "`motorpool claims` lists those that are; ended ones are kept for 30 days",
            )
        })
    }

    pub(crate) async fn runner_record(&self, id: &RunnerId) -> Result<Runner, Refused> {
        self.store.runner(id).await?.ok_or_else(|| {
            Refused::not_found(format!("there is no runner {id}"), "`motorpool runners` lists those that are")
        })
    }
}

pub(crate) fn no_pool(name: &PoolName) -> Refused {
    Refused::not_found(format!("there is no pool {name}"), "`motorpool pools` lists those that are")
}
