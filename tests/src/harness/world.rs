//! A control plane on the in-memory ledger, with a clock that a test turns and machines that do what a test says.

use crate::fakes::machines::Machines;
use crate::fakes::played::{PlayedAgents, PlayedHost};
use crate::fakes::turned_clock::TurnedClock;
use anyhow::{Context, Result, ensure};
use motorpool_control::ports::backend::{Backend, Backends, OwnedMachines};
use motorpool_control::ports::ci::CiSystems;
use motorpool_control::ports::clock::Clock;
use motorpool_control::ports::doorbell::NoDoorbell;
use motorpool_control::ports::entropy::SeededEntropy;
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::queue::Queue;
use motorpool_control::store::Store;
use motorpool_control::{Caller, Control, Parts, ServerSecret, Settings, SweepWish};
use motorpool_domain::claim::TeamLimits;
use motorpool_domain::pool::{BackendKind, Rules};
use motorpool_domain::runner::Runner;
use motorpool_domain::spec::Spec;
use motorpool_domain::{Owner, PoolName, RunnerId, Timestamp};
use motorpool_ledger::MemoryLedger;
use motorpool_queues::InProcessQueue;
use motorpool_wire::agent::SyncAnswer;
use motorpool_wire::api::{ClaimView, RefreshReport};
use motorpool_wire::pool_settings::PoolSettings;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub struct World {
    pub control: Control,
    pub ledger: Arc<dyn Ledger>,
    /// The verbs over the same ledger.
    pub store: Store,
    pub queue: Arc<dyn Queue>,
    pub machines: Arc<Machines>,
    pub clock: Arc<TurnedClock>,
    agents: PlayedAgents,
}

pub const POOL: &str = "small";
const HOST: Spec = Spec { cpu: 2, memory_mb: 2048 };

impl World {
    /// With one pool of machines that can be replaced; `settings` are added to its pool settings.
    pub async fn new(settings: serde_json::Value) -> Result<Self> {
        let ledger: Arc<dyn Ledger> = Arc::new(MemoryLedger::default());
        let queue: Arc<dyn Queue> = Arc::new(InProcessQueue::default());
        Self::on(ledger, queue, settings).await
    }

    /// The same on another ledger and queue.
    pub async fn on(
        ledger: Arc<dyn Ledger>,
        queue: Arc<dyn Queue>,
        settings: serde_json::Value,
    ) -> Result<Self> {
        let clock = Arc::new(TurnedClock::default());
        let machines = Arc::new(Machines::default());
        let control = Control::new(parts(&ledger, &queue, &machines, &clock, 1));
        control.define_pools(&BTreeMap::from([(pool()?, rules(settings)?)])).await?;
        let store = Store::new(Arc::clone(&ledger));
        Ok(Self { control, ledger, store, queue, machines, clock, agents: PlayedAgents::default() })
    }

    /// The same for teams with these limits.
    pub fn with_teams(mut self, teams: BTreeMap<Owner, TeamLimits>) -> Self {
        let parts = self.parts();
        let settings = Settings { teams, ..parts.settings };
        self.control = Control::new(Parts { settings, ..parts });
        self
    }

    /// A second control plane over the same queue, machines and clock, and over a ledger with the same records.
    pub fn beside(&self, ledger: &Arc<dyn Ledger>) -> Control {
        Control::new(Parts { ledger: Arc::clone(ledger), ..self.parts() })
    }

    /// What a second control plane on the same books is made of.
    pub fn parts(&self) -> Parts {
        parts(&self.ledger, &self.queue, &self.machines, &self.clock, 2)
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub async fn provision(&self, workflow: &str, count: u32) -> Result<ClaimView> {
        let request = json!({"workflow": workflow, "pool": POOL, "count": count});
        let request = serde_json::from_value(request)?;
        Ok(self.control.provision(&Caller::Operator, request).await?)
    }

    /// The same for a team.
    pub async fn provision_as(&self, team: &Caller, workflow: &str, count: u32) -> Result<ClaimView> {
        let request = serde_json::from_value(json!({"workflow": workflow, "pool": POOL, "count": count}))?;
        Ok(self.control.provision(team, request).await?)
    }

    pub async fn release_as(&self, team: &Caller, workflow: &str) -> Result<()> {
        let request = serde_json::from_value(json!({"workflow": workflow}))?;
        self.control.release(team, request).await?;
        Ok(())
    }

    /// The same once its runners are all there.
    pub async fn ready(&self, workflow: &str, count: u32) -> Result<ClaimView> {
        let claim = self.provision(workflow, count).await?;
        self.agents_work().await?;
        let claim = self.claim(&claim).await?;
        ensure!(claim.state == "ready", "{claim:?}");
        Ok(claim)
    }

    pub async fn release(&self, workflow: &str) -> Result<()> {
        let request = serde_json::from_value(json!({"workflow": workflow}))?;
        self.control.release(&Caller::Operator, request).await?;
        Ok(())
    }

    pub async fn claim(&self, claim: &ClaimView) -> Result<ClaimView> {
        Ok(self.control.view_claim(&Caller::Operator, &claim.claim).await?)
    }

    pub async fn refresh(&self) -> Result<RefreshReport> {
        Ok(self.control.refresh(&Caller::Operator, SweepWish::IfDue).await?)
    }

    pub async fn sweep(&self) -> Result<RefreshReport> {
        Ok(self.control.refresh(&Caller::Operator, SweepWish::Now).await?)
    }

    pub async fn runner(&self, id: &RunnerId) -> Result<Runner> {
        self.store.runner(id).await?.with_context(|| format!("no runner {id}"))
    }

    pub async fn used(&self) -> Result<u32> {
        Ok(self.store.pool(&pool()?).await?.context("no pool")?.used)
    }

    /// Every machine that is there has a healthy agent: each syncs and does its tasks until there is nothing to do.
    pub async fn agents_work(&self) -> Result<()> {
        loop {
            let mut busy = false;
            for id in self.machines.there() {
                busy |= self.agent_syncs(&id).await?.task.is_some();
            }
            if !busy {
                return Ok(());
            }
        }
    }

    /// One sync of one agent, with the task that it is given done at once.
    pub async fn agent_syncs(&self, id: &RunnerId) -> Result<SyncAnswer> {
        let secret = self.machines.secret(id).with_context(|| format!("{id} was not launched"))?;
        let host = PlayedHost { runner: id.clone(), secret, machine_id: id.to_string(), notice: None };
        Ok(self.agents.sync(&self.control, &host).await?)
    }
}

pub fn members(claim: &ClaimView) -> Vec<RunnerId> {
    claim.runners.iter().map(|member| member.runner.clone()).collect()
}

/// The first of a claim's runners.
pub fn first_member(claim: &ClaimView) -> Result<RunnerId> {
    members(claim).into_iter().next().context("the claim has no runner")
}

fn parts(
    ledger: &Arc<dyn Ledger>,
    queue: &Arc<dyn Queue>,
    machines: &Arc<Machines>,
    clock: &Arc<TurnedClock>,
    seed: u64,
) -> Parts {
    Parts {
        ledger: Arc::clone(ledger),
        queue: Arc::clone(queue),
        backends: Backends::default()
            .with(BackendKind::Local, Arc::clone(machines) as Arc<dyn Backend>)
            .with(BackendKind::BareMetal, Arc::new(OwnedMachines)),
        ci: CiSystems::default(),
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        entropy: Arc::new(SeededEntropy::new(seed)),
        doorbell: Arc::new(NoDoorbell),
        alerts: None,
        secret: ServerSecret::new(b"for tests"),
        settings: Settings {
            refresh: Duration::from_secs(30),
            sweep: Duration::from_secs(300),
            resource_classes: BTreeMap::new(),
            host: HOST,
            teams: BTreeMap::new(),
        },
    }
}

pub fn pool() -> Result<PoolName> {
    Ok(PoolName::parse(POOL)?)
}

fn rules(settings: serde_json::Value) -> Result<Rules> {
    let mut all = json!({"backend": "local", "clean": "cleanup", "max": 10});
    if let (Some(all), serde_json::Value::Object(more)) = (all.as_object_mut(), settings) {
        all.extend(more);
    }
    let settings: PoolSettings = serde_json::from_value(all)?;
    Ok(settings.rules(HOST)?)
}
