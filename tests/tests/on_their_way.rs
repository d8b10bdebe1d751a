//! Machines that are on their way for nobody go to whoever comes next, instead of a second machine for the same work.

use anyhow::{Context, Result, ensure};
use motorpool_control::Caller;
use motorpool_control::store::{ClaimWrite, Written};
use motorpool_domain::runner::{RunnerState, StateName};
use motorpool_domain::samples;
use motorpool_tests::harness::world::{World, members};
use serde_json::json;

#[tokio::test]
async fn a_cancelled_workflows_machines_go_to_the_one_begun_anew() -> Result<()> {
    let world = World::new(json!({})).await?;
    let cancelled = world.provision("gh-1.1", 3).await?;
    world.release("gh-1.1").await?;
    let anew = world.provision("gh-1.2", 2).await?;
    ensure!(world.machines.there().len() == 3, "another was launched: {:?}", world.machines.there());
    let before = members(&cancelled);
    ensure!(members(&anew).iter().all(|runner| before.contains(runner)), "{anew:?}");
    ensure!(anew.runners.iter().all(|runner| !runner.warm), "{anew:?}");
    let why = world.control.why(&Caller::Operator, &anew.claim).await?;
    ensure!(why.history.iter().any(|entry| entry.what == "took a machine on its way"), "{why:?}");

    world.agents_work().await?;
    ensure!(world.claim(&anew).await?.state == "ready");
    let mut states = Vec::new();
    for runner in &before {
        states.push(world.runner(runner).await?.state.name());
    }
    states.sort_by_key(|state| state.as_str());
    ensure!(states == [StateName::Idle, StateName::Running, StateName::Running], "{states:?}");
    Ok(())
}

#[tokio::test]
async fn what_is_lacking_beside_them_is_launched() -> Result<()> {
    let world = World::new(json!({})).await?;
    world.provision("gh-1", 1).await?;
    world.release("gh-1").await?;
    let next = world.provision("gh-2", 3).await?;
    ensure!(next.runners.len() == 3 && world.machines.there().len() == 3, "{next:?}");
    world.agents_work().await?;
    ensure!(world.claim(&next).await?.state == "ready");
    Ok(())
}

/// No refresh, and no machine that joins, is needed for it.
#[tokio::test]
async fn who_waits_at_the_maximum_has_them_at_once() -> Result<()> {
    let world = World::new(json!({"max": 2})).await?;
    world.provision("gh-1", 2).await?;
    let waits = world.provision("gh-2", 2).await?;
    ensure!(waits.runners.is_empty(), "{waits:?}");
    world.release("gh-1").await?;
    let served = world.store.claim(&waits.claim).await?.context("the claim")?;
    ensure!(served.short() == 0, "{served:?}");
    ensure!(world.used().await? == 2 && world.machines.there().len() == 2);
    world.agents_work().await?;
    ensure!(world.claim(&waits).await?.state == "ready");
    Ok(())
}

#[tokio::test]
async fn so_has_one_that_was_to_replace_a_lost_runner_of_a_ready_claim() -> Result<()> {
    let world = World::new(json!({"max": 2})).await?;
    let first = world.provision("gh-1", 2).await?;
    world.agents_work().await?;
    ensure!(world.claim(&first).await?.state == "ready");
    world.machines.die(members(&first).first().context("a runner")?);
    world.sweep().await?;
    let replaced = world.claim(&first).await?;
    ensure!(replaced.state == "ready" && replaced.runners.len() == 2, "{replaced:?}");
    let waits = world.provision("gh-2", 1).await?;
    ensure!(waits.runners.is_empty(), "{waits:?}");
    world.release("gh-1").await?;
    let served = world.store.claim(&waits.claim).await?.context("the claim")?;
    ensure!(served.short() == 0, "{served:?}");
    Ok(())
}

/// The offer was lost in a crash, or nobody made one: refresh alone finds that it can have one, though no slot is free.
#[tokio::test]
async fn refresh_brings_who_waits_to_what_is_on_its_way() -> Result<()> {
    let world = World::new(json!({"max": 1})).await?;
    let first = world.provision("gh-1", 1).await?;
    let waits = world.provision("gh-2", 1).await?;
    let ends = world.store.claim(&first.claim).await?.context("the claim")?;
    let over = ends.failed("its wait is over", world.now());
    let entry = samples::entry(world.now(), "ended");
    let write = ClaimWrite { before: &ends, after: &over, entry: &entry };
    ensure!(world.store.write_claim(write).await? == Written::Done);
    world.refresh().await?;
    let served = world.store.claim(&waits.claim).await?.context("the claim")?;
    ensure!(served.short() == 0, "{served:?}");
    ensure!(world.machines.launches() == 1, "another was launched");
    Ok(())
}

#[tokio::test]
async fn a_spare_on_its_way_is_taken_and_another_launched_in_its_place() -> Result<()> {
    let world = World::new(json!({"min_idle": 1})).await?;
    world.refresh().await?;
    let spare = world.machines.there();
    ensure!(spare.len() == 1);
    let claim = world.provision("gh-1", 1).await?;
    ensure!(members(&claim) == spare, "{claim:?}");
    world.refresh().await?;
    ensure!(world.machines.there().len() == 2, "no other spare");
    Ok(())
}

/// Its agent was there while the first claim had it: a job may have come.
#[tokio::test]
async fn inv_13_one_that_had_joined_for_another_claim_is_cleaned_first() -> Result<()> {
    let world = World::new(json!({})).await?;
    let first = world.provision("gh-1", 1).await?;
    let joined = members(&first).first().context("a runner")?.clone();
    world.agent_syncs(&joined).await?;
    ensure!(world.runner(&joined).await?.state.name() == StateName::Created, "it is further already");
    world.release("gh-1").await?;
    let next = world.provision("gh-2", 1).await?;
    ensure!(!members(&next).contains(&joined), "{next:?}");
    world.agent_syncs(&joined).await?;
    let state = world.runner(&joined).await?.state;
    ensure!(!matches!(state, RunnerState::Idle | RunnerState::Running { .. }), "{state:?}");
    Ok(())
}
