//! A control plane on the in-memory ledger, with a clock that a test turns and machines that do what a test says.

use crate::played::{PlayedAgents, PlayedHost};
use anyhow::{Context, Result};
use async_trait::async_trait;
use motorpool_control::ports::backend::{
    Backend, BackendError, Backends, LaunchError, LaunchOrder, Machine, Ordered, OwnedMachines,
};
use motorpool_control::ports::ci::CiSystems;
use motorpool_control::ports::clock::Clock;
use motorpool_control::ports::doorbell::NoDoorbell;
use motorpool_control::ports::entropy::SeededEntropy;
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::queue::Queue;
use motorpool_control::store::Store;
use motorpool_control::{Caller, Control, Parts, ServerSecret, Settings, SweepWish};
use motorpool_domain::pool::{BackendKind, Rules};
use motorpool_domain::runner::{Presence, Runner};
use motorpool_domain::spec::Spec;
use motorpool_domain::{PoolName, RunnerId, Timestamp, Workflow};
use motorpool_ledger::MemoryLedger;
use motorpool_queues::InProcessQueue;
use motorpool_wire::agent::SyncAnswer;
use motorpool_wire::api::{ClaimView, ProvisionRequest, RefreshReport};
use motorpool_wire::pool_settings::PoolSettings;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
        let control = Self::plane(&ledger, &queue, &machines, &clock, 1);
        control.define_pools(&BTreeMap::from([(pool()?, rules(settings)?)])).await?;
        let store = Store::new(Arc::clone(&ledger));
        Ok(Self { control, ledger, store, queue, machines, clock, agents: PlayedAgents::default() })
    }

    /// A second control plane over the same queue, machines and clock, and over a ledger with the same records.
    pub fn beside(&self, ledger: &Arc<dyn Ledger>) -> Control {
        Self::plane(ledger, &self.queue, &self.machines, &self.clock, 2)
    }

    fn plane(
        ledger: &Arc<dyn Ledger>,
        queue: &Arc<dyn Queue>,
        machines: &Arc<Machines>,
        clock: &Arc<TurnedClock>,
        seed: u64,
    ) -> Control {
        Control::new(Parts {
            ledger: Arc::clone(ledger),
            queue: Arc::clone(queue),
            backends: Backends::default()
                .with(BackendKind::Local, Arc::clone(machines) as Arc<dyn Backend>)
                .with(BackendKind::BareMetal, Arc::new(OwnedMachines)),
            ci: CiSystems::default(),
            clock: Arc::clone(clock) as Arc<dyn Clock>,
            entropy: Arc::new(SeededEntropy::new(seed)),
            doorbell: Arc::new(NoDoorbell),
            secret: ServerSecret::new(b"for tests"),
            settings: Settings {
                refresh: Duration::from_secs(30),
                sweep: Duration::from_secs(300),
                resource_classes: BTreeMap::new(),
                host: HOST,
            },
        })
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub async fn provision(&self, workflow: &str, count: u32) -> Result<ClaimView> {
        let request = ProvisionRequest {
            workflow: Workflow::parse(workflow)?,
            pool: pool()?,
            count,
            max_runtime_minutes: None,
            usage: None,
            allowed_instance_types: None,
            resource_class: None,
        };
        Ok(self.control.provision(&Caller::Operator, request).await?)
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

/// A clock that only a test moves.
#[derive(Debug)]
pub struct TurnedClock(AtomicU64);

impl Default for TurnedClock {
    fn default() -> Self {
        Self(AtomicU64::new(1_700_000_000_000))
    }
}

impl TurnedClock {
    pub fn turn(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }
}

impl Clock for TurnedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Machines that exist once they are launched, and go when they are told to or when a test takes them away.
#[derive(Debug, Default)]
pub struct Machines(Mutex<Yard>);

#[derive(Debug, Default)]
struct Yard {
    secrets: BTreeMap<RunnerId, String>,
    there: BTreeSet<RunnerId>,
    launches: u32,
    mood: Mood,
}

/// How the provider answers the next launches.
#[derive(Debug, Clone, Default)]
pub enum Mood {
    #[default]
    Willing,
    Refuses(String),
    /// The machine is made, but the answer is lost.
    Mute,
}

impl Machines {
    pub fn mood(&self, mood: Mood) {
        self.yard().mood = mood;
    }

    pub fn there(&self) -> Vec<RunnerId> {
        self.yard().there.iter().cloned().collect()
    }

    /// How often the provider was asked for a machine.
    pub fn launches(&self) -> u32 {
        self.yard().launches
    }

    /// A machine dies by itself.
    pub fn die(&self, id: &RunnerId) {
        self.yard().there.remove(id);
    }

    /// A machine that no record knows.
    pub fn stray(&self, id: RunnerId) {
        self.yard().there.insert(id);
    }

    fn secret(&self, id: &RunnerId) -> Option<String> {
        self.yard().secrets.get(id).cloned()
    }

    fn yard(&self) -> MutexGuard<'_, Yard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn machine(id: &RunnerId) -> Machine {
    Machine { runner: id.clone(), provider_id: format!("machine:{id}") }
}

#[async_trait]
impl Backend for Machines {
    async fn launch(&self, order: &LaunchOrder<'_>) -> Result<Vec<Machine>, LaunchError> {
        let mut yard = self.yard();
        yard.launches += 1;
        if let Mood::Refuses(why) = &yard.mood {
            return Err(LaunchError::Refused(why.clone()));
        }
        for Ordered { runner, secret } in &order.machines {
            yard.secrets.insert(runner.clone(), secret.clone());
            yard.there.insert(runner.clone());
        }
        match &yard.mood {
            Mood::Mute => Err(LaunchError::Unconfirmed("the answer was lost".into())),
            Mood::Willing | Mood::Refuses(_) => {
                Ok(order.machines.iter().map(|ordered| machine(&ordered.runner)).collect())
            }
        }
    }

    async fn describe(&self, runner: &Runner) -> Result<Presence, BackendError> {
        Ok(if self.yard().there.contains(&runner.id) { Presence::There } else { Presence::Gone })
    }

    async fn ensure_gone(&self, runner: &Runner) -> Result<Presence, BackendError> {
        self.yard().there.remove(&runner.id);
        Ok(Presence::Gone)
    }

    async fn inventory(&self, _: &PoolName) -> Result<Vec<Machine>, BackendError> {
        Ok(self.yard().there.iter().map(machine).collect())
    }

    async fn discard(&self, machine: &Machine) -> Result<(), BackendError> {
        self.yard().there.remove(&machine.runner);
        Ok(())
    }
}
