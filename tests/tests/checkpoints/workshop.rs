//! Machines of an operator's own in a pool whose CI system hands out jobs by itself, on a clock that the test turns.

use anyhow::{Context, Result};
use motorpool_control::ports::ci::CiSystems;
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::queue::Queue;
use motorpool_control::{Caller, Control, Parts, Refused};
use motorpool_domain::checkpoint::Checkpoint;
use motorpool_domain::ci::{CiBinding, CiSystem};
use motorpool_domain::record::Key;
use motorpool_domain::runner::Runner;
use motorpool_domain::spec::Spec;
use motorpool_domain::{CheckpointName, RunnerId};
use motorpool_ledger::MemoryLedger;
use motorpool_queues::InProcessQueue;
use motorpool_tests::fakes::ci::TestCi;
use motorpool_tests::fakes::played::{PlayedAgents, PlayedHost};
use motorpool_tests::harness::world::{POOL, World, pool};
use motorpool_wire::agent::SyncAnswer;
use motorpool_wire::checkpoint::{CheckpointView, CreateCheckpoint, FinalizeAnswer};
use motorpool_wire::pool_settings::PoolSettings;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Workshop {
    pub(crate) world: World,
    pub(crate) control: Arc<Control>,
    pub(crate) ci: Arc<TestCi>,
    agents: PlayedAgents,
    secrets: BTreeMap<RunnerId, String>,
}

/// What a machine is called at its CI system.
pub(crate) fn in_ci(runner: &str) -> String {
    format!("ci-{runner}")
}

impl Workshop {
    /// With `more` of its pool's settings, and these machines, which are clean and wait for jobs.
    pub(crate) async fn open(more: Value, machines: &[&str]) -> Result<Self> {
        let (ledger, queue) = (Arc::new(MemoryLedger::default()), Arc::new(InProcessQueue::default()));
        Self::open_on(ledger, queue, more, machines).await
    }

    /// The same at another CI system, or elsewhere in it.
    pub(crate) async fn open_at(
        (system, scope): (CiSystem, &str),
        more: Value,
        machines: &[&str],
    ) -> Result<Self> {
        let (ledger, queue) = (Arc::new(MemoryLedger::default()), Arc::new(InProcessQueue::default()));
        Self::made_of(ledger, queue, (system, scope), more, machines).await
    }

    /// The same on another ledger and queue.
    pub(crate) async fn open_on(
        ledger: Arc<dyn Ledger>,
        queue: Arc<dyn Queue>,
        more: Value,
        machines: &[&str],
    ) -> Result<Self> {
        Self::made_of(ledger, queue, (CiSystem::GitLab, "instance"), more, machines).await
    }

    async fn made_of(
        ledger: Arc<dyn Ledger>,
        queue: Arc<dyn Queue>,
        (system, scope): (CiSystem, &str),
        more: Value,
        machines: &[&str],
    ) -> Result<Self> {
        let mut settings = json!({
            "backend": "bare_metal", "dispatch": "hook", "clean": "reset", "max": 500,
            "reset_cmd": "reset", "cleanup_cmd": "cleanup", "idle_minutes": 600, "heartbeat_seconds": 3600,
        });
        if let (Value::Object(settings), Value::Object(more)) = (&mut settings, more) {
            settings.extend(more);
        }
        let world = World::on(ledger, queue, settings.clone()).await?;
        let ci = Arc::new(TestCi::default());
        let systems = CiSystems::default().with(system, Arc::clone(&ci) as _);
        let control = Arc::new(Control::new(Parts { ci: systems, ..world.parts() }));
        settings["ci"] = json!({"system": system.name(), "scope": scope});
        let settings: PoolSettings = serde_json::from_value(settings)?;
        let rules = settings.rules(Spec { cpu: 2, memory_mb: 2_048 })?;
        control.define_pools(&BTreeMap::from([(pool()?, rules)])).await?;
        let (agents, secrets) = (PlayedAgents::default(), BTreeMap::new());
        let mut workshop = Self { world, control, ci, agents, secrets };
        for machine in machines {
            workshop.join(machine).await?;
        }
        Ok(workshop)
    }

    /// The same with its pool at another CI system from now on.
    pub(crate) async fn moved_to(mut self, (system, scope): (CiSystem, &str)) -> Result<Self> {
        let systems = CiSystems::default().with(system, Arc::clone(&self.ci) as _);
        self.control = Arc::new(Control::new(Parts { ci: systems, ..self.world.parts() }));
        let mut rules = self.world.store.pool(&pool()?).await?.context("its pool")?.pool.rules;
        rules.ci = rules.ci.map(|binding| CiBinding { system, scope: scope.to_owned(), ..binding });
        self.control.define_pools(&BTreeMap::from([(pool()?, rules)])).await?;
        Ok(self)
    }

    pub(crate) async fn join(&mut self, machine: &str) -> Result<()> {
        let request = json!({"runner_id": machine, "pool": POOL, "ci_runner": in_ci(machine)});
        let registered =
            self.control.register_runner(&Caller::Operator, serde_json::from_value(request)?).await?;
        self.secrets.insert(RunnerId::parse(machine)?, registered.bootstrap_secret.context("a secret")?);
        self.works(machine).await
    }

    /// For a second control plane.
    pub(crate) fn systems(&self) -> CiSystems {
        CiSystems::default().with(CiSystem::GitLab, Arc::clone(&self.ci) as _)
    }

    /// What its agent is told to do of this kind fails from now on; or nothing does.
    pub(crate) fn fails_at(&self, machine: &str, kind: Option<&'static str>) {
        self.agents.fails_at(machine, kind);
    }

    /// One sync of the machine's agent, with what it is given to do done at once.
    pub(crate) async fn syncs(&self, machine: &str) -> Result<SyncAnswer> {
        self.syncs_at(&self.control, machine).await
    }

    async fn syncs_at(&self, control: &Control, machine: &str) -> Result<SyncAnswer> {
        let runner = RunnerId::parse(machine)?;
        let secret = self.secrets.get(&runner).context("it joined")?.clone();
        let host = PlayedHost { runner, secret, machine_id: machine.to_owned(), notice: None };
        Ok(self.agents.sync(control, &host).await?)
    }

    /// Its agent and whoever attends to runners, until there is nothing to do.
    pub(crate) async fn works(&self, machine: &str) -> Result<()> {
        self.works_at(&self.control, machine).await
    }

    /// The same with another control plane.
    pub(crate) async fn works_at(&self, control: &Control, machine: &str) -> Result<()> {
        loop {
            let rests = self.syncs_at(control, machine).await?.task.is_none();
            if control.attend_to_notices(Duration::ZERO).await? == 0 && rests {
                return Ok(());
            }
        }
    }

    pub(crate) async fn create(&self, machine: &str, job: &str) -> Result<CheckpointView, Refused> {
        self.create_in(machine, job, None).await
    }

    /// The same where the hook says of which project its job is.
    pub(crate) async fn create_in(
        &self,
        machine: &str,
        job: &str,
        project: Option<&str>,
    ) -> Result<CheckpointView, Refused> {
        let request = CreateCheckpoint {
            runner_id: None,
            job_id: job.parse()?,
            project: project.map(str::to_owned),
            attempt: None,
            caller: None,
            key: None,
        };
        self.control.create_checkpoint(&token(machine), request).await
    }

    pub(crate) async fn finalize(
        &self,
        machine: &str,
        name: &CheckpointName,
        status: &str,
    ) -> Result<FinalizeAnswer> {
        self.finalize_at(&self.control, machine, name, status).await
    }

    /// The same at another control plane.
    pub(crate) async fn finalize_at(
        &self,
        control: &Control,
        machine: &str,
        name: &CheckpointName,
        status: &str,
    ) -> Result<FinalizeAnswer> {
        let request = serde_json::from_value(json!({"checkpoint_name": name, "status": status}))?;
        Ok(control.finalize_checkpoint(&token(machine), &request).await?)
    }

    pub(crate) async fn runner(&self, machine: &str) -> Result<Runner> {
        self.world.runner(&RunnerId::parse(machine)?).await
    }

    pub(crate) async fn state(&self, machine: &str) -> Result<&'static str> {
        Ok(self.runner(machine).await?.state.name().as_str())
    }

    /// How often a machine was released, by its log.
    pub(crate) async fn releases(&self, machine: &str) -> Result<usize> {
        let key = Key::from(&RunnerId::parse(machine)?);
        let log = self.world.store.audit(&key, motorpool_control::Page::first(200)).await?;
        let is_release = |to: Option<&str>| to.is_some_and(|to| to.starts_with("releasing@"));
        Ok(log.items.iter().filter(|entry| entry.from != entry.to && is_release(entry.to.as_deref())).count())
    }

    pub(crate) async fn checkpoint(&self, name: &CheckpointName) -> Result<Checkpoint> {
        self.world.store.checkpoint(name).await?.context("it is kept")
    }

    pub(crate) fn turn(&self, seconds: u64) {
        self.world.clock.turn(Duration::from_secs(seconds));
    }

    pub(crate) async fn refresh(&self) -> Result<()> {
        self.control.refresh(&Caller::Operator, motorpool_control::SweepWish::IfDue).await?;
        Ok(())
    }
}

/// The token of a played agent.
pub(crate) fn token(machine: &str) -> String {
    format!("mp_runner_{machine}")
}
