//! An older and a newer binary on one ledger, record by record: what the newer one has written this version neither takes for missing nor
//! writes over, and what the older one has written it goes on with.

use crate::fixtures::Kept;
use crate::records::{self, id};
use crate::shared::{LeftAlone, on_each_ledger, only_runner, put_back, ready, release};
use anyhow::{Context, Result, bail, ensure};
use motorpool_control::Caller;
use motorpool_control::ports::queue::QueueName;
use motorpool_domain::claim::{Claim, ClaimName};
use motorpool_domain::ladder::{Lacking, Shortage};
use motorpool_domain::pool::PoolShortage;
use motorpool_domain::runner::{Runner, RunnerState, StateName};
use motorpool_domain::spec::{Spec, Usage};
use motorpool_domain::{PoolName, RunnerId};
use motorpool_tests::fakes::machines::Mood;
use motorpool_tests::harness::world::{World, pool};
use motorpool_wire::pool_settings::PoolSettings;
use motorpool_wire::queue::IdleNotice;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// The claim is still of this version, its runner is not any more.
#[tokio::test]
async fn fault_29_a_claim_keeps_a_runner_that_a_newer_version_has_written() -> Result<()> {
    on_each_ledger(async |world: &World| {
        let claim = ready(world, "gh-1").await?;
        let runner = world.runner(&only_runner(&claim)?).await?;
        let record = world.store.claim(&claim.claim).await?.context("the claim")?;
        let left = LeftAlone::raise(world.ledger.as_ref(), &runner).await?;
        let launches = world.machines.launches();
        world.sweep().await?;
        let seen = world.claim(&claim).await?;
        ensure!(seen.state == "ready" && seen.short == 0, "{seen:?}");
        ensure!(world.store.claim(&claim.claim).await?.as_ref() == Some(&record), "nothing was lost of it");
        ensure!(world.machines.launches() == launches, "and nothing is launched in its place");

        // Nobody here can let go of the runner: the claim stays due, until somebody can.
        release(world, "gh-1").await?;
        world.refresh().await?;
        left.as_before(world.ledger.as_ref()).await?;
        ensure!(world.store.claim(&claim.claim).await?.is_some_and(|claim| claim.settling));
        put_back(world.ledger.as_ref(), &runner).await?;
        world.refresh().await?;
        ensure!(world.runner(&runner.id).await?.state.name() == StateName::Releasing);
        world.agents_work().await?;
        ensure!(world.runner(&runner.id).await?.state == RunnerState::Idle);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn fault_29_the_notice_of_a_runner_that_a_newer_version_has_written_stays_for_who_can_use_it()
-> Result<()> {
    on_each_ledger(async |world: &World| {
        let first = ready(world, "gh-1").await?;
        release(world, "gh-1").await?;
        world.agents_work().await?;
        let idle = world.runner(&only_runner(&first)?).await?;
        ensure!(idle.state == RunnerState::Idle, "{idle:?}");
        let left = LeftAlone::raise(world.ledger.as_ref(), &idle).await?;

        let second = world.provision("gh-2", 1).await?;
        ensure!(only_runner(&second)? != idle.id, "another is launched: {second:?}");
        left.as_before(world.ledger.as_ref()).await?;
        let queue = QueueName::Idle(pool()?);
        let kept = world.queue.receive(&queue, 10, Duration::ZERO, Duration::ZERO).await?;
        let kept: Vec<IdleNotice> =
            kept.iter().map(|message| serde_json::from_str(&message.body)).collect::<Result<_, _>>()?;
        ensure!(kept.iter().map(|notice| &notice.runner).eq([&idle.id]), "{kept:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn fault_29_the_sweep_ends_no_machine_whose_record_it_cannot_read_and_goes_on_to_the_others()
-> Result<()> {
    on_each_ledger(async |world: &World| {
        let left =
            LeftAlone::put(world.ledger.as_ref(), vec![Kept::read("newer/runner")?.row::<Runner>()?]).await?;
        let (newer, stray): (RunnerId, RunnerId) = (id("r-newer"), id("r-stray"));
        world.machines.stray(newer.clone());
        world.machines.stray(stray);
        world.sweep().await?;
        ensure!(world.machines.there() == [newer], "{:?}", world.machines.there());
        left.as_before(world.ledger.as_ref()).await
    })
    .await
}

/// Its answer was lost, and nobody here knows whether it is still made for the runner that can't be read.
#[tokio::test]
async fn fault_29_a_launch_is_not_made_again_when_a_newer_version_has_written_one_of_its_runners()
-> Result<()> {
    on_each_ledger(async |world: &World| {
        world.machines.mood(Mood::Mute);
        world.provision("gh-1", 2).await?;
        let there = world.machines.there();
        let [newer, gone] = there.as_slice() else { bail!("two machines are there, and not {there:?}") };
        let left = LeftAlone::raise(world.ledger.as_ref(), &world.runner(newer).await?).await?;
        world.machines.mood(Mood::Willing);
        world.machines.die(gone);
        let launches = world.machines.launches();
        world.clock.turn(Duration::from_secs(16));
        world.refresh().await?;
        ensure!(world.machines.launches() == launches, "the provider is asked again");
        left.as_before(world.ledger.as_ref()).await
    })
    .await
}

#[tokio::test]
async fn fault_29_a_control_plane_starts_though_a_newer_version_has_written_one_of_its_pools() -> Result<()> {
    on_each_ledger(async |world: &World| {
        let known = world.store.pool(&pool()?).await?.context("the pool")?;
        let left = LeftAlone::raise(world.ledger.as_ref(), &known).await?;
        let settings: PoolSettings = serde_json::from_value(json!({"backend": "local", "max": 3}))?;
        let rules = settings.rules(Spec { cpu: 2, memory_mb: 2_048 })?;
        let other: PoolName = id("other");
        let restarted = world.beside(&world.ledger);
        restarted.define_pools(&BTreeMap::from([(pool()?, rules.clone()), (other.clone(), rules)])).await?;
        ensure!(world.store.pool(&other).await?.is_some(), "the other pool is defined");
        left.as_before(world.ledger.as_ref()).await
    })
    .await
}

#[tokio::test]
async fn fault_29_a_shortage_that_a_newer_version_has_noted_is_not_noted_over() -> Result<()> {
    on_each_ledger(async |world: &World| {
        let kept = Kept::read("newer/shortage")?;
        let left = LeftAlone::put(world.ledger.as_ref(), vec![kept.row::<PoolShortage>()?]).await?;
        let PoolShortage { pool, shortage } = kept.record()?;
        world.store.note_shortage(&pool, &shortage).await?;
        let own = Shortage { of: Lacking::Usage { usage: Usage::Spot }, ..shortage };
        let later = Shortage { why: "MaxSpotInstanceCountExceeded".to_owned(), ..own.clone() };
        world.store.note_shortage(&pool, &own).await?;
        world.store.note_shortage(&pool, &later).await?;
        ensure!(world.store.shortages(&pool, world.now()).await? == [later], "its own it notes over");
        left.as_before(world.ledger.as_ref()).await
    })
    .await
}

#[tokio::test]
async fn fault_29_records_of_an_older_version_go_on_and_lose_nothing() -> Result<()> {
    on_each_ledger(async |world: &World| {
        let (runner, claim) = (Kept::read("older/runner_running")?, Kept::read("older/claim_ready")?);
        let name = Kept::read("claim_name")?;
        let rows = vec![runner.row::<Runner>()?, claim.row::<Claim>()?, name.row::<ClaimName>()?];
        LeftAlone::put(world.ledger.as_ref(), rows).await?;
        let (runner, claim): (Runner, Claim) = (runner.record()?, claim.record()?);
        let request = serde_json::from_value(json!({"workflow": "gh-123.2", "owner": "team-a"}))?;
        let released = world.control.release(&Caller::Operator, request).await?;
        ensure!(released.claim == claim.id && released.state == "released", "{released:?}");
        let after = world.runner(&runner.id).await?;
        let Runner { rev, entered_at, threshold, .. } = after.clone();
        let state = RunnerState::Releasing { hold: records::hold() };
        ensure!(after == Runner { state, rev, entered_at, threshold, ..runner }, "{after:?}");
        let after = world.store.claim(&claim.id).await?.context("the claim")?;
        let Claim { state, rev, threshold, waits_for, settling, .. } = after.clone();
        ensure!(after == Claim { state, rev, threshold, waits_for, settling, ..claim }, "{after:?}");
        Ok(())
    })
    .await
}
