//! A control plane on the in-memory ledger and an EC2, which a test plays step by step: its planes can be cut off and begun anew, its
//! agents do what they are told, and at the end everything must add up.

use crate::fake::{CallPoint, FakeEc2, Side, State};
use crate::ground::{EndedBy, Ground, Seen};
use anyhow::{Context, Result, ensure};
use motorpool_control::ports::backend::{Backend, Backends};
use motorpool_control::ports::ci::CiSystems;
use motorpool_control::ports::clock::Clock;
use motorpool_control::ports::doorbell::NoDoorbell;
use motorpool_control::ports::entropy::{Entropy, SeededEntropy};
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::queue::Queue;
use motorpool_control::store::{Page, Store};
use motorpool_control::{Caller, Control, Parts, Refused, RefusedKind, Settings, SweepWish};
use motorpool_domain::Workflow;
use motorpool_domain::ladder::CapacityOption;
use motorpool_domain::pool::{BackendKind, Pool};
use motorpool_domain::runner::{Notice, Runner, RunnerState};
use motorpool_domain::spec::{Spec, Want};
use motorpool_ledger::MemoryLedger;
use motorpool_queues::InProcessQueue;
use motorpool_tests::fakes::cutting::{Cuts, Cutting};
use motorpool_tests::fakes::played::{PlayedAgents, PlayedHost};
use motorpool_tests::fakes::turned_clock::TurnedClock;
use motorpool_wire::api::{ClaimView, ProvisionRequest, RefreshReport, ReleaseRequest};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub struct Stage<G = FakeEc2> {
    pub ec2: G,
    pub clock: Arc<TurnedClock>,
    pub ledger: Arc<dyn Ledger>,
    /// The verbs over the same ledger.
    pub store: Store,
    pub queue: Arc<dyn Queue>,
    pub cuts: Arc<Cuts>,
    pub pool: Pool,
    /// How often its planes sweep.
    pub sweep: Duration,
    /// Where all planes have their ids from: one that begins anew goes on where the last one ended.
    entropy: Arc<dyn Entropy>,
    agents: PlayedAgents,
    notices: Mutex<BTreeMap<String, Notice>>,
}

pub const TICK: Duration = Duration::from_secs(30);

impl Stage {
    /// With one pool, on a fake of its own, whose calls are points at which a plane can be cut off. What is played on it in the same order
    /// is the same each time, ids included.
    pub async fn new(pool: Pool) -> Result<Self> {
        let clock = Arc::new(TurnedClock::default());
        let fake = FakeEc2::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let stage = Self::on(fake, clock, Arc::new(SeededEntropy::new(1)), pool).await?;
        let cuts = Arc::clone(&stage.cuts);
        stage.ec2.on_call(Arc::new(move |point: CallPoint| {
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

    /// The same, with listings that are up to so far behind, by the seed, and with a sweep in every pass: so one that goes back is seen.
    pub async fn lagging(pool: Pool, seed: u64, behind: Duration) -> Result<Self> {
        let stage = Self { sweep: TICK, ..Self::new(pool).await? };
        stage.ec2.lag(seed, behind);
        Ok(stage)
    }

    /// So many more can be had of it.
    pub fn has(&self, rung: &CapacityOption, more: u32) {
        let CapacityOption { offer, zone, hourly: _ } = rung;
        self.ec2.set_capacity(&offer.instance_type, zone.as_deref().unwrap_or_default(), offer.usage, more);
    }
}

impl<G: Ground> Stage<G> {
    /// With one pool, on the clock that this EC2's backends have, and with ids that no other stage on this EC2 has.
    pub async fn on(ec2: G, clock: Arc<TurnedClock>, entropy: Arc<dyn Entropy>, pool: Pool) -> Result<Self> {
        let cuts = Cuts::new(None);
        let ledger: Arc<dyn Ledger> = Arc::new(Cutting::new(Arc::new(MemoryLedger::default()), &cuts));
        let stage = Self {
            store: Store::new(Arc::clone(&ledger)),
            ledger,
            queue: Arc::new(InProcessQueue::default()),
            agents: PlayedAgents::default(),
            notices: Mutex::default(),
            pool: ec2.settle(pool),
            ec2,
            clock,
            cuts,
            entropy,
            sweep: Duration::from_secs(300),
        };
        let rules = BTreeMap::from([(stage.pool.name.clone(), stage.pool.rules.clone())]);
        stage.plane().await.define_pools(&rules).await?;
        Ok(stage)
    }

    /// A control plane that begins anew: it knows nothing but what is in the ledger, the queue and EC2.
    pub async fn plane(&self) -> Control {
        let backend = self.ec2.backend_for(&self.installation()).await;
        Control::new(Parts {
            ledger: Arc::clone(&self.ledger),
            queue: Arc::clone(&self.queue),
            backends: Backends::default().with(BackendKind::Ec2, backend),
            ci: CiSystems::default(),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            entropy: Arc::clone(&self.entropy),
            doorbell: Arc::new(NoDoorbell),
            alerts: None,
            secret: self.ec2.secret(),
            settings: Settings {
                refresh: TICK,
                sweep: self.sweep,
                resource_classes: BTreeMap::new(),
                host: Spec { cpu: 2, memory_mb: 4_096 },
                teams: BTreeMap::new(),
            },
        })
    }

    /// What its instances and its agents' names are marked with.
    pub fn installation(&self) -> String {
        self.ec2.secret().installation()
    }

    /// What there is to have for the pool, in the order in which it is tried.
    pub async fn ladder(&self) -> Result<Vec<CapacityOption>> {
        let backend = self.ec2.backend_for(&self.installation()).await;
        Ok(backend.ladder(&self.pool, &Want::default()).await?)
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
    pub async fn tick(&self, plane: &Control) -> Result<()> {
        self.clock.turn(TICK / 2);
        self.agents_work(plane).await?;
        self.clock.turn(TICK / 2);
        self.agents_work(plane).await?;
        self.refresh(plane, SweepWish::IfDue).await?;
        Ok(())
    }

    /// As long goes by, with passes of refresh and without a word from any agent.
    pub async fn nobody_is_heard(&self, plane: &Control, span: Duration) -> Result<()> {
        let mut left = span;
        while !left.is_zero() {
            let step = left.min(TICK);
            self.clock.turn(step);
            self.refresh(plane, SweepWish::IfDue).await?;
            left -= step;
        }
        Ok(())
    }

    /// EC2 tells this machine so from now on.
    pub fn notify(&self, machine: &str, notice: Notice) {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).insert(machine.to_owned(), notice);
    }

    /// Every machine that runs has an agent: each does its tasks until there is nothing to do. Who is told to end powers its host off.
    pub async fn agents_work(&self, plane: &Control) -> Result<()> {
        let mut hosts = self.hosts().await?;
        while self.sync_each(plane, &mut hosts).await? {}
        Ok(())
    }

    /// One sync of each agent.
    pub async fn agents_sync(&self, plane: &Control) -> Result<()> {
        let mut hosts = self.hosts().await?;
        self.sync_each(plane, &mut hosts).await.map(drop)
    }

    /// Leaves those that go on. Whether any of them was given something to do.
    async fn sync_each(&self, plane: &Control, hosts: &mut Vec<PlayedHost>) -> Result<bool> {
        let mut busy = false;
        for host in std::mem::take(hosts) {
            match self.agents.sync(plane, &host).await {
                Ok(answer) if answer.end => self.ec2.end(&host.machine_id, EndedBy::Itself).await?,
                Ok(answer) => {
                    busy |= answer.task.is_some();
                    hosts.push(host);
                }
                Err(refused) if over(&refused) => self.ec2.end(&host.machine_id, EndedBy::Itself).await?,
                // EC2 does not show it yet: it comes again.
                Err(refused) if refused.kind == RefusedKind::Unavailable => {}
                Err(refused) => return Err(refused.into()),
            }
        }
        Ok(busy)
    }

    async fn hosts(&self) -> Result<Vec<PlayedHost>> {
        let instances = self.instances().await?;
        let notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        let running = instances.into_iter().filter(|instance| instance.state == State::Running);
        let host = |instance: Seen| {
            Some(PlayedHost {
                runner: instance.runner()?,
                secret: instance.launch_secret()?,
                notice: notices.get(&instance.id).copied(),
                machine_id: instance.id,
            })
        };
        Ok(running.filter_map(host).collect())
    }

    /// All that were ever made for the pool.
    pub async fn instances(&self) -> Result<Vec<Seen>> {
        self.ec2.made_for(&self.installation(), &self.pool.name).await
    }

    /// Those that are not terminated: also what shuts down still counts.
    pub async fn alive(&self) -> Result<Vec<Seen>> {
        let all = self.instances().await?.into_iter();
        Ok(all.filter(|instance| instance.state != State::Terminated).collect())
    }

    pub async fn runners(&self) -> Result<Vec<Runner>> {
        Ok(self.store.list_runners(&self.pool.name, None, Page::first(1_000)).await?.items)
    }

    /// All that were ever opened, as they are: to list them moves none of them on.
    pub async fn claims(&self, plane: &Control) -> Result<Vec<ClaimView>> {
        let page = plane.list_claims(&Caller::Operator, &self.pool.name, Page::first(1_000)).await?;
        ensure!(page.next.is_none(), "there are more claims than one page has");
        Ok(page.claims)
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
        let mut there = BTreeMap::new();
        for instance in self.instances().await? {
            let runner = instance.runner().with_context(|| format!("{} is of no runner", instance.id))?;
            *made.entry(runner.clone()).or_insert(0) += 1;
            if instance.state != State::Terminated {
                ensure!(live.contains_key(&instance.id), "{} of {runner} has no record", instance.id);
                there.insert(instance.id, runner);
            }
        }
        for (id, runner) in &live {
            ensure!(there.get(id) == Some(&runner.id), "{} names {id}, which is gone", runner.id);
        }
        if G::KNOWS_TOKENS {
            for (runner, times) in &made {
                ensure!(*times == 1, "{runner} was made {times} times");
            }
        }
        let used = self.store.pool(&self.pool.name).await?.context("no pool")?.used;
        ensure!(usize::try_from(used)? == live.len(), "{used} slots for {} runners", live.len());
        let max = usize::try_from(self.pool.rules.max)?;
        if let Some(most) = self.ec2.most_alive() {
            ensure!(most <= max, "{most} instances at once");
        }
        Ok(())
    }
}

impl<G: Ground> Stage<G> {
    /// All that a plane was cut off from heals by ticks alone: until nothing is under way any more, and a sweep finds nothing either. What
    /// nobody knows of only a sweep finds.
    pub async fn comes_to_rest(&self, plane: &Control) -> Result<()> {
        const ENOUGH: usize = 120;
        // By then, listings show all that there was when it began.
        let shown = 1 + u32::try_from(self.ec2.behind().as_secs().div_ceil(TICK.as_secs()))?;
        for _ in 0..ENOUGH {
            if self.rests_for(plane, shown).await? {
                self.refresh(plane, SweepWish::Now).await?;
                if self.rests_for(plane, 2).await? {
                    return Ok(());
                }
            }
        }
        let (runners, claims) = (self.runners().await?, self.claims(plane).await?);
        anyhow::bail!("it did not come to rest: {runners:?}, {claims:?}")
    }

    /// Whether nothing is under way at the end of each of so many ticks.
    async fn rests_for(&self, plane: &Control, ticks: u32) -> Result<bool> {
        for _ in 0..ticks {
            self.tick(plane).await?;
            let ending = self.alive().await?.iter().any(|instance| instance.state == State::ShuttingDown);
            let moving = self.runners().await?.iter().any(|runner| is_under_way(&runner.state));
            let waiting =
                self.claims(plane).await?.iter().any(|claim| claim.state == "pending" || claim.short > 0);
            if ending || moving || waiting {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn is_under_way(state: &RunnerState) -> bool {
    match state {
        RunnerState::Idle | RunnerState::Running { .. } => false,
        RunnerState::Created { .. }
        | RunnerState::Resetting { .. }
        | RunnerState::Claimed { .. }
        | RunnerState::Releasing { .. }
        | RunnerState::Quarantined { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => true,
    }
}

/// The control plane knows no such runner any more, or has another machine for it.
fn over(refused: &Refused) -> bool {
    match refused.kind {
        RefusedKind::Gone | RefusedKind::Unauthorized | RefusedKind::Forbidden => true,
        RefusedKind::InvalidRequest
        | RefusedKind::NotFound
        | RefusedKind::Conflict
        | RefusedKind::TooManyRequests
        | RefusedKind::Unavailable
        | RefusedKind::Internal => false,
    }
}
