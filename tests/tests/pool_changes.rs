//! Pools that change or go while they are used: no machine is asked for at the wrong place, and no claim is left without its pool.

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use motorpool_control::ports::backend::{
    Backend, BackendError, Backends, LaunchError, LaunchOrder, Machine, OwnedMachines,
};
use motorpool_control::ports::clock::Clock;
use motorpool_control::ports::ledger::LedgerError;
use motorpool_control::store::{ClaimWrite, Deleted, PoolWrite, RunnerWrite, Store, Written};
use motorpool_control::{Caller, Control, Parts, RefusedKind, SweepWish};
use motorpool_domain::ladder::CapacityOption;
use motorpool_domain::pool::PoolRecord;
use motorpool_domain::pool::{BackendKind, Pool, Rules};
use motorpool_domain::runner::{Decision, Presence, Removal, Runner, RunnerEvent, decide};
use motorpool_domain::spec::{Spec, Want};
use motorpool_domain::{Owner, PoolName, Timestamp, Workflow, samples};
use motorpool_tests::fakes::turned_clock::TurnedClock;
use motorpool_tests::harness::world::{World, pool};
use motorpool_wire::api::{ClaimView, ProvisionRequest};
use motorpool_wire::pool_settings::PoolSettings;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const HOST: Spec = Spec { cpu: 2, memory_mb: 2048 };

fn metal() -> Result<PoolSettings> {
    Ok(serde_json::from_value(json!({"backend": "bare_metal", "clean": "keep", "max": 10}))?)
}

fn file(pools: &[(&str, Rules)]) -> Result<BTreeMap<PoolName, Rules>> {
    pools.iter().map(|(name, rules)| Ok((PoolName::parse(*name)?, rules.clone()))).collect()
}

async fn record(world: &World) -> Result<PoolRecord> {
    world.store.pool(&pool()?).await?.context("the pool")
}

#[tokio::test]
async fn inv_16_a_pools_file_that_moves_a_pool_in_use_is_refused_whole() -> Result<()> {
    let world = World::new(json!({})).await?;
    world.provision("gh-1", 2).await?;
    world.agents_work().await?;
    let before = record(&world).await?;
    let moved = metal()?.rules(HOST)?;
    // The other comes first, by name.
    let wanted = file(&[("another", moved.clone()), ("small", moved.clone())])?;
    let refused = world.control.define_pools(&wanted).await.err().context("it was taken")?;
    ensure!(refused.kind == RefusedKind::Conflict, "{refused:?}");
    for said in ["small", "2 runners", "local", "bare_metal"] {
        ensure!(refused.message.contains(said), "it does not say {said}: {}", refused.message);
    }
    ensure!(refused.hint.contains("retired"), "it does not say what to do: {}", refused.hint);
    ensure!(record(&world).await? == before, "the pool was changed");
    ensure!(world.store.pools().await?.len() == 1, "a refused file changed something");

    // What the hint says, leads there.
    world.control.define_pools(&BTreeMap::new()).await?;
    let request = serde_json::from_value(json!({"workflow": "gh-1"}))?;
    world.control.release(&Caller::Operator, request).await?;
    world.agents_work().await?;
    world.sweep().await?;
    ensure!(world.used().await? == 0 && world.machines.there().is_empty(), "it is not drained");
    world.control.define_pools(&wanted).await?;
    ensure!(record(&world).await?.pool.rules == moved && !record(&world).await?.pool.retired);
    Ok(())
}

#[tokio::test]
async fn inv_16_a_pool_of_the_api_keeps_its_backend_while_it_has_runners() -> Result<()> {
    let world = World::new(json!({})).await?;
    let (name, operator) = (PoolName::parse("own")?, Caller::Operator);
    let local: PoolSettings = serde_json::from_value(json!({"backend": "local", "max": 3}))?;
    world.control.put_pool(&operator, name.clone(), local.clone()).await?;
    let request = serde_json::from_value(json!({"workflow": "gh-1", "pool": "own"}))?;
    let claim = world.control.provision(&operator, request).await?;
    let refused = world.control.put_pool(&operator, name.clone(), metal()?).await.err().context("taken")?;
    ensure!(refused.kind == RefusedKind::Conflict && refused.message.contains("1 runner "), "{refused:?}");
    let plan = world.control.plan_pool(&operator, name.clone(), metal()?).await?;
    ensure!(plan.refused.as_ref() == Some(&refused.message), "{plan:?}");
    // Everything else may change under its runners.
    let larger = PoolSettings { max: 9, ..local };
    ensure!(world.control.plan_pool(&operator, name.clone(), larger.clone()).await?.refused.is_none());
    world.control.put_pool(&operator, name.clone(), larger).await?;

    let runner = &claim.runners.first().context("a runner")?.runner;
    world.control.release(&operator, serde_json::from_value(json!({"workflow": "gh-1"}))?).await?;
    world.control.remove_runner(&operator, runner, Removal::Force).await?;
    let moved = world.control.put_pool(&operator, name, metal()?).await?;
    ensure!(moved.backend == "bare_metal" && moved.used == 0, "{moved:?}");
    Ok(())
}

/// An open claim whose pool is gone, as a deletion leaves it that did not see the claim yet.
async fn without_its_pool(world: &World, count: u32) -> Result<(ClaimView, PoolName)> {
    let name = PoolName::parse("own")?;
    world.control.put_pool(&Caller::Operator, name.clone(), metal()?).await?;
    let request = serde_json::from_value(json!({"workflow": "gh-1", "pool": "own", "count": count}))?;
    let claim = world.control.provision(&Caller::Operator, request).await?;
    ensure!(delete(&world.store, &name).await? == Deleted::Done);
    Ok((claim, name))
}

#[tokio::test]
async fn a_claim_whose_pool_was_deleted_fails_and_says_so() -> Result<()> {
    let world = World::new(json!({})).await?;
    let (claim, _) = without_its_pool(&world, 2).await?;
    let why = world.control.why(&Caller::Operator, &claim.claim).await?;
    ensure!(why.state == "failed" && why.why == "pool own was deleted", "{why:?}");
    ensure!(why.history.last().is_some_and(|entry| entry.why == "pool own was deleted"), "{why:?}");
    ensure!(world.claim(&claim).await?.state == "failed");
    Ok(())
}

#[tokio::test]
async fn a_claim_whose_pool_was_deleted_is_ended_by_refresh_alone_and_can_be_released() -> Result<()> {
    let world = World::new(json!({})).await?;
    let (claim, _) = without_its_pool(&world, 1).await?;
    world.clock.turn(Duration::from_secs(15 * 60 + 1));
    world.refresh().await?;
    let ended = world.store.claim(&claim.claim).await?.context("the claim")?;
    ensure!(ended.state.as_str() == "failed" && ended.threshold.is_none(), "{ended:?}");
    ensure!(world.refresh().await?.examined == 0, "it is due still");

    let world = World::new(json!({})).await?;
    without_its_pool(&world, 1).await?;
    let request = serde_json::from_value(json!({"workflow": "gh-1"}))?;
    let released = world.control.release(&Caller::Operator, request).await?;
    ensure!(released.state == "released", "{released:?}");
    Ok(())
}

/// Its runners are over, or the pool could not be deleted; it has only not noticed yet.
#[tokio::test]
async fn a_ready_claim_whose_pool_was_deleted_ends_and_lets_go() -> Result<()> {
    for ends_first in [true, false] {
        let world = World::new(json!({})).await?;
        let claim = world.provision("gh-1", 1).await?;
        world.agents_work().await?;
        ensure!(world.claim(&claim).await?.state == "ready");
        let id = &claim.runners.first().context("a runner")?.runner;
        let rules = record(&world).await?.pool.rules;
        if ends_first {
            let before = world.store.claim(&claim.claim).await?.context("the claim")?;
            let after = before.released("released, and then the power went", world.now());
            let entry = samples::entry(world.now(), "a test");
            let write = ClaimWrite { before: &before, after: &after, entry: &entry };
            ensure!(world.store.write_claim(write).await? == Written::Done);
        }
        let before = world.runner(id).await?;
        let Decision::Change(gone) = decide(&before, &RunnerEvent::ProviderGone, &rules, world.now()) else {
            anyhow::bail!("it is not gone: {before:?}");
        };
        let entry = samples::entry(world.now(), "a test");
        let write = RunnerWrite { before: &before, after: &gone.after, look_at: None, entry: &entry };
        ensure!(world.store.write_runner(write).await? == Written::Done);
        ensure!(delete(&world.store, &pool()?).await? == Deleted::Done);
        // Long past everything that could be due.
        world.clock.turn(Duration::from_secs(3600));
        world.refresh().await?;
        let ended = world.store.claim(&claim.claim).await?.context("the claim")?;
        ensure!(ended.state.as_str() == "released" && !ended.settling, "{ended:?}");
        ensure!(world.refresh().await?.examined == 0, "something is due still");
    }
    Ok(())
}

/// The pool goes between the moment in which a launch was decided on and the moment in which its intents are written.
#[tokio::test]
async fn a_claim_that_is_opened_while_its_pool_is_deleted_is_refused_or_fails_at_once() -> Result<()> {
    for count in [1, 2] {
        let world = World::new(json!({})).await?;
        let control = control_over(&world, Arc::new(Meddling::of(&world, Meddle::Delete(pool()?))));
        let request: ProvisionRequest =
            serde_json::from_value(json!({"workflow": "gh-1", "pool": "small", "count": count}))?;
        let answer = control.provision(&Caller::Operator, request).await;
        match (count, answer) {
            (1, Err(refused)) => ensure!(refused.kind == RefusedKind::NotFound, "{refused:?}"),
            (_, Ok(claim)) => ensure!(claim.state == "failed" && claim.why.contains("deleted"), "{claim:?}"),
            (_, Err(refused)) => anyhow::bail!("{refused:?}"),
        }
        let claims = world.store.claims_of(&Owner::operator(), &Workflow::parse("gh-1")?).await?;
        ensure!(claims.iter().all(|claim| !claim.state.open()), "{claims:?}");
        ensure!(world.machines.launches() == 0);
    }
    Ok(())
}

/// A pool gets another backend between the moment in which a launch was decided on and the moment in which its intents are written.
#[tokio::test]
async fn inv_16_a_launch_that_meets_a_move_of_its_pool_makes_no_machine() -> Result<()> {
    for min_idle in [0, 2] {
        let world = World::new(json!({"min_idle": min_idle})).await?;
        let to = Pool { rules: metal()?.rules(HOST)?, ..record(&world).await?.pool };
        let control = control_over(&world, Arc::new(Meddling::of(&world, Meddle::Put(Box::new(to)))));
        match min_idle {
            0 => {
                let request: ProvisionRequest =
                    serde_json::from_value(json!({"workflow": "gh-1", "pool": "small"}))?;
                let claim = control.provision(&Caller::Operator, request).await?;
                ensure!(claim.state == "pending", "{claim:?}");
            }
            _ => {
                control.refresh(&Caller::Operator, SweepWish::IfDue).await?;
            }
        }
        ensure!(record(&world).await?.pool.rules.backend == BackendKind::BareMetal, "it was not moved");
        ensure!(world.machines.launches() == 0, "a machine was made where nobody looks for it");
        ensure!(world.used().await? == 0, "its slots are taken for ever");
    }
    Ok(())
}

/// Somebody meddles with the pool while its backend is asked what it has.
#[derive(Debug)]
struct Meddling {
    machines: Arc<dyn Backend>,
    store: Store,
    how: Meddle,
}

#[derive(Debug)]
enum Meddle {
    Put(Box<Pool>),
    Delete(PoolName),
}

impl Meddling {
    fn of(world: &World, how: Meddle) -> Self {
        Self { machines: Arc::clone(&world.machines) as _, store: world.store.clone(), how }
    }
}

#[async_trait]
impl Backend for Meddling {
    async fn ladder(&self, pool: &Pool, want: &Want) -> Result<Vec<CapacityOption>, BackendError> {
        let done = match &self.how {
            Meddle::Put(to) => put_unused(&self.store, to).await,
            Meddle::Delete(name) => delete(&self.store, name).await.map(|gone| gone == Deleted::Done),
        };
        assert!(done.expect("the ledger"), "{:?}", self.how);
        self.machines.ladder(pool, want).await
    }

    async fn launch(&self, order: &LaunchOrder<'_>) -> Result<Vec<Machine>, LaunchError> {
        self.machines.launch(order).await
    }

    async fn describe(&self, runner: &Runner) -> Result<Presence, BackendError> {
        self.machines.describe(runner).await
    }

    async fn ensure_gone(&self, runner: &Runner) -> Result<Presence, BackendError> {
        self.machines.ensure_gone(runner).await
    }

    async fn inventory(&self, pool: &PoolName) -> Result<Vec<Machine>, BackendError> {
        self.machines.inventory(pool).await
    }

    async fn discard(&self, machine: &Machine) -> Result<(), BackendError> {
        self.machines.discard(machine).await
    }
}

async fn delete(store: &Store, name: &PoolName) -> Result<Deleted, LedgerError> {
    let seen = store.pool(name).await?.map_or(0, |record| record.rev);
    store.delete_pool(name, seen).await
}

async fn put_unused(store: &Store, pool: &Pool) -> Result<bool, LedgerError> {
    let seen = store.pool(&pool.name).await?.map_or(0, |record| record.rev);
    let write = PoolWrite { seen, rev: seen + 1, pool, only_unused: true };
    Ok(store.write_pool(write).await? == Written::Done)
}

/// The machine would be looked for where it is not, and never ended.
#[tokio::test]
async fn inv_16_a_definition_decided_on_before_its_pool_moved_is_decided_anew() -> Result<()> {
    let (name, operator) = (PoolName::parse("own")?, Caller::Operator);
    let world = Arc::new(World::new(json!({})).await?);
    world.control.put_pool(&operator, name.clone(), metal()?).await?;
    let other = Arc::clone(&world);
    let control = control_after(&world, async move {
        let local = serde_json::from_value(json!({"backend": "local", "max": 3}))?;
        other.control.put_pool(&Caller::Operator, PoolName::parse("own")?, local).await?;
        let request = serde_json::from_value(json!({"workflow": "gh-1", "pool": "own"}))?;
        other.control.provision(&Caller::Operator, request).await?;
        Ok(())
    });
    let larger = PoolSettings { max: 11, ..metal()? };
    let refused = control.put_pool(&operator, name.clone(), larger).await.err().context("it was taken")?;
    ensure!(refused.kind == RefusedKind::Conflict && refused.message.contains("1 runner "), "{refused:?}");
    let known = world.store.pool(&name).await?.context("the pool")?;
    ensure!((known.pool.rules.backend, known.used) == (BackendKind::Local, 1), "{known:?}");
    Ok(())
}

#[tokio::test]
async fn a_retirement_keeps_what_another_start_made_of_the_pool() -> Result<()> {
    let world = Arc::new(World::new(json!({})).await?);
    let other = Arc::clone(&world);
    let control = control_after(&world, async move {
        Ok(other.control.define_pools(&file(&[("small", metal()?.rules(HOST)?)])?).await?)
    });
    control.define_pools(&BTreeMap::new()).await?;
    let known = record(&world).await?.pool;
    ensure!(known.retired && known.rules.backend == BackendKind::BareMetal, "{known:?}");
    Ok(())
}

/// A clock that is looked at between a read and the write that follows: the first time, somebody else acts in that moment.
struct Moment {
    clock: Arc<TurnedClock>,
    somebody: Mutex<Option<BoxFuture<'static, Result<()>>>>,
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clock.fmt(f)
    }
}

impl Clock for Moment {
    fn now(&self) -> Timestamp {
        let somebody = self.somebody.lock().expect("nobody panicked").take();
        if let Some(acts) = somebody {
            acts.now_or_never().expect("nothing to wait for").expect("the other is served");
        }
        self.clock.now()
    }
}

fn control_after(world: &World, somebody: impl Future<Output = Result<()>> + Send + 'static) -> Control {
    let somebody = Mutex::new(Some(somebody.boxed()));
    let clock = Moment { clock: Arc::clone(&world.clock), somebody };
    control_with(world, Arc::clone(&world.machines) as _, Arc::new(clock))
}

fn control_over(world: &World, local: Arc<dyn Backend>) -> Control {
    control_with(world, local, Arc::clone(&world.clock) as _)
}

/// Another control plane on the same books.
fn control_with(world: &World, local: Arc<dyn Backend>, clock: Arc<dyn Clock>) -> Control {
    let backends = Backends::default()
        .with(BackendKind::Local, local)
        .with(BackendKind::BareMetal, Arc::new(OwnedMachines));
    Control::new(Parts { backends, clock, ..world.parts() })
}
