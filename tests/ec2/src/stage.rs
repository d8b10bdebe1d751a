//! A control plane on the in-memory ledger and the fake EC2, which a test plays step by step: its planes can be cut off and begun anew,
//! its agents do what they are told, and at the end everything must add up.

use crate::fake::{CallPoint, FakeEc2, Instance, Side, State};
use anyhow::{Context, Result, ensure};
use motorpool_control::ports::backend::{Backend, Backends};
use motorpool_control::ports::ci::CiSystems;
use motorpool_control::ports::clock::Clock;
use motorpool_control::ports::doorbell::NoDoorbell;
use motorpool_control::ports::entropy::SystemEntropy;
use motorpool_control::ports::ledger::{Ledger, Page};
use motorpool_control::ports::queue::Queue;
use motorpool_control::{Caller, Control, Parts, Refused, RefusedKind, ServerSecret, Settings, SweepWish};
use motorpool_domain::Workflow;
use motorpool_domain::ladder::Rung;
use motorpool_domain::pool::{BackendKind, Pool};
use motorpool_domain::runner::{Notice, Runner, RunnerState};
use motorpool_domain::spec::Spec;
use motorpool_ledger::MemoryLedger;
use motorpool_queues::InProcessQueue;
use motorpool_tests::cutting::{Cuts, Cutting};
use motorpool_tests::played::{PlayedAgents, PlayedHost};
use motorpool_tests::world::TurnedClock;
use motorpool_wire::api::{ClaimView, ProvisionRequest, RefreshReport, ReleaseRequest};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub struct Stage {
    pub fake: FakeEc2,
    pub clock: Arc<TurnedClock>,
    pub ledger: Arc<dyn Ledger>,
    pub queue: Arc<dyn Queue>,
    pub cuts: Arc<Cuts>,
    pub pool: Pool,
    agents: PlayedAgents,
    notices: Mutex<BTreeMap<String, Notice>>,
}

const SERVER_SECRET: &[u8] = b"a server secret, for tests on a stage";
pub const TICK: Duration = Duration::from_secs(30);

impl Stage {
    /// With one pool.
    pub async fn new(pool: Pool) -> Result<Self> {
        let clock = Arc::new(TurnedClock::default());
        let fake = FakeEc2::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let cuts = Cuts::new(None);
        let stage = Self {
            ledger: Arc::new(Cutting::new(Arc::new(MemoryLedger::default()), &cuts)),
            queue: Arc::new(InProcessQueue::default()),
            agents: PlayedAgents::default(),
            notices: Mutex::default(),
            fake,
            clock,
            cuts,
            pool,
        };
        let rules = BTreeMap::from([(stage.pool.name.clone(), stage.pool.rules.clone())]);
        stage.plane().await.define_pools(&rules).await?;
        let cuts = Arc::clone(&stage.cuts);
        stage.fake.on_call(Arc::new(move |point: CallPoint| {
            let cuts = Arc::clone(&cuts);
            Box::pin(async move {
                let side = match point.side {
                    Side::Before => "before",
                    Side::After => "after",
                };
                cuts.pass(format!("{side} {}", point.action)).await;
            })
        }));
        Ok(stage)
    }

    /// A control plane that begins anew: it knows nothing but what is in the ledger, the queue and EC2.
    pub async fn plane(&self) -> Control {
        let secret = ServerSecret::new(SERVER_SECRET);
        let backend = self.fake.backend(&secret.installation()).await;
        Control::new(Parts {
            ledger: Arc::clone(&self.ledger),
            queue: Arc::clone(&self.queue),
            backends: Backends::default().with(BackendKind::Ec2, Arc::new(backend)),
            ci: CiSystems::default(),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            entropy: Arc::new(SystemEntropy),
            doorbell: Arc::new(NoDoorbell),
            secret,
            settings: Settings {
                refresh: TICK,
                sweep: Duration::from_secs(300),
                resource_classes: BTreeMap::new(),
                host: Spec { cpu: 2, memory_mb: 4_096 },
            },
        })
    }

    /// What its instances and its agents' names are marked with.
    pub fn installation(&self) -> String {
        ServerSecret::new(SERVER_SECRET).installation()
    }

    /// What there is to have for the pool, in the order in which it is tried.
    pub async fn ladder(&self) -> Result<Vec<Rung>> {
        let backend = self.fake.backend(&self.installation()).await;
        Ok(backend.ladder(&self.pool).await?)
    }

    /// So many more can be had of it.
    pub fn has(&self, rung: &Rung, more: u32) {
        let Rung { offer, zone, hourly: _ } = rung;
        self.fake.set_capacity(&offer.instance_type, zone.as_deref().unwrap_or_default(), offer.usage, more);
    }

    pub async fn provision(&self, plane: &Control, workflow: &str, count: u32) -> Result<ClaimView, Refused> {
        let request = ProvisionRequest {
            workflow: Workflow::parse(workflow)?,
            pool: self.pool.name.clone(),
            count,
            max_runtime_minutes: None,
            usage: None,
            allowed_instance_types: None,
            resource_class: None,
        };
        plane.provision(&Caller::Operator, request).await
    }

    pub async fn release(&self, plane: &Control, workflow: &str) -> Result<ClaimView, Refused> {
        let request = ReleaseRequest {
            workflow: Workflow::parse(workflow)?,
            pool: Some(self.pool.name.clone()),
            owner: None,
        };
        plane.release(&Caller::Operator, request).await
    }

    pub async fn refresh(&self, plane: &Control, sweep: SweepWish) -> Result<RefreshReport, Refused> {
        plane.refresh(&Caller::Operator, sweep).await
    }

    /// Half a minute goes by, with heartbeats, work and a pass of refresh.
    pub async fn tick(&self, plane: &Control) -> Result<(), Refused> {
        self.clock.turn(TICK / 2);
        self.agents_work(plane).await?;
        self.clock.turn(TICK / 2);
        self.agents_work(plane).await?;
        self.refresh(plane, SweepWish::IfDue).await.map(|_| ())
    }

    /// EC2 tells this machine so from now on.
    pub fn notify(&self, machine: &str, notice: Notice) {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).insert(machine.to_owned(), notice);
    }

    /// Every machine that runs has an agent: each does its tasks until there is nothing to do. Who is told to end powers its host off.
    pub async fn agents_work(&self, plane: &Control) -> Result<(), Refused> {
        loop {
            let mut busy = false;
            for host in self.hosts() {
                match self.agents.sync(plane, &host).await {
                    Ok(answer) if answer.end => {
                        self.fake.power_off(&host.machine_id);
                    }
                    Ok(answer) => busy |= answer.task.is_some(),
                    Err(refused) if over(&refused) => {
                        self.fake.power_off(&host.machine_id);
                    }
                    Err(refused) => return Err(refused),
                }
            }
            if !busy {
                return Ok(());
            }
        }
    }

    fn hosts(&self) -> Vec<PlayedHost> {
        let notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let running = self.fake.instances().into_iter().filter(|(_, state)| *state == State::Running);
        running
            .filter_map(|(instance, _)| {
                Some(PlayedHost {
                    runner: instance.runner()?,
                    secret: launch_secret(&instance)?,
                    notice: notices.get(&instance.id).copied(),
                    machine_id: instance.id,
                })
            })
            .collect()
    }

    pub async fn runners(&self) -> Result<Vec<Runner>> {
        Ok(self.ledger.list_runners(&self.pool.name, None, Page::first(1_000)).await?.items)
    }

    /// Invariants 16 and 17, once everything has come to rest: instances and live records are the same, one to one; slots are counted;
    /// there were never more than `max`; and no runner ever had two machines, nor a token two launches.
    pub async fn must_add_up(&self) -> Result<()> {
        let runners = self.runners().await?;
        let live: BTreeMap<String, &Runner> = runners
            .iter()
            .map(|runner| {
                let named = runner.provider_id.clone();
                Ok((
                    named.with_context(|| format!("{} has no instance: {:?}", runner.id, runner.state))?,
                    runner,
                ))
            })
            .collect::<Result<_>>()?;
        let mut made = BTreeMap::new();
        for (instance, state) in self.fake.instances() {
            let runner = instance.runner().with_context(|| format!("{} is of no runner", instance.id))?;
            *made.entry(runner.clone()).or_insert(0) += 1;
            if state != State::Terminated {
                ensure!(live.contains_key(&instance.id), "{} of {runner} has no record", instance.id);
            }
        }
        for (id, runner) in &live {
            let there = self.fake.instances_of(&runner.id);
            ensure!(
                there.iter().any(|instance| instance.id == *id),
                "{} names {id}, which is gone",
                runner.id
            );
        }
        for (runner, times) in &made {
            ensure!(*times == 1, "{runner} was made {times} times");
        }
        let used = self.ledger.pool(&self.pool.name).await?.context("no pool")?.used;
        ensure!(usize::try_from(used)? == live.len(), "{used} slots for {} runners", live.len());
        let max = usize::try_from(self.pool.rules.max)?;
        ensure!(self.fake.most_alive() <= max, "{} instances at once", self.fake.most_alive());
        Ok(())
    }
}

impl Stage {
    /// All that a plane was cut off from heals by ticks alone: until nothing is under way any more.
    pub async fn comes_to_rest(&self, plane: &Control) -> Result<()> {
        const ENOUGH: usize = 120;
        for _ in 0..ENOUGH {
            self.tick(plane).await?;
            let restless = |runner: &Runner| match &runner.state {
                RunnerState::Idle | RunnerState::Running { .. } => false,
                RunnerState::Created { .. }
                | RunnerState::Resetting { .. }
                | RunnerState::Claimed { .. }
                | RunnerState::Releasing { .. }
                | RunnerState::Quarantined { .. }
                | RunnerState::Terminating { .. }
                | RunnerState::Terminated { .. } => true,
            };
            let ending = self.fake.instances().iter().any(|(_, state)| *state == State::ShuttingDown);
            if !ending && !self.runners().await?.iter().any(restless) {
                // Whatever nobody knows of is found by a sweep.
                self.refresh(plane, SweepWish::Now).await?;
                self.tick(plane).await?;
                self.tick(plane).await?;
                return Ok(());
            }
        }
        anyhow::bail!("it did not come to rest: {:?}", self.runners().await?)
    }
}

/// What the machine was told, as its user data has it.
pub fn launch_secret(instance: &Instance) -> Option<String> {
    let at = instance.user_data.find("mp_launch_")?;
    let rest = instance.user_data.get(at..)?;
    Some(rest.chars().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).collect())
}

/// The control plane knows no such runner any more, or has another machine for it.
fn over(refused: &Refused) -> bool {
    match refused.kind {
        RefusedKind::Gone | RefusedKind::Unauthorized | RefusedKind::Forbidden => true,
        RefusedKind::InvalidRequest
        | RefusedKind::NotFound
        | RefusedKind::Conflict
        | RefusedKind::TooManyRequests
        | RefusedKind::Internal => false,
    }
}
