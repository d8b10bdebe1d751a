//! Claims that wait for a long time, for their first runners or for another in the place of a lost one.

use anyhow::{Context, Result, ensure};
use motorpool_domain::RunnerId;
use motorpool_domain::Threshold;
use motorpool_domain::claim::Claim;
use motorpool_domain::runner::StateName;
use motorpool_tests::fakes::machines::Mood;
use motorpool_tests::harness::world::World;
use motorpool_wire::api::ClaimView;
use serde_json::json;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

async fn record(world: &World, claim: &ClaimView) -> Result<Claim> {
    world.store.claim(&claim.claim).await?.context("the claim")
}

fn member(claim: &ClaimView, index: usize) -> Result<&RunnerId> {
    Ok(&claim.runners.get(index).context("too few runners")?.runner)
}

/// Until it runs.
async fn begins(world: &World, id: &RunnerId) -> Result<()> {
    while world.runner(id).await?.state.name() != StateName::Running {
        world.agent_syncs(id).await?;
    }
    Ok(())
}

/// It may wait for longer than its runners may run: the first of them is there as long as it waits.
#[tokio::test]
async fn a_pending_claims_first_runner_is_not_cut_off_while_it_waits_for_the_second() -> Result<()> {
    let settings = json!({"wait_minutes": 60, "max_runtime_minutes": 5, "created_minutes": 50});
    let world = World::new(settings).await?;
    let claim = world.provision("gh-1", 2).await?;
    let first = member(&claim, 0)?;
    begins(&world, first).await?;
    for minute in 1..=40 {
        world.clock.turn(MINUTE);
        let answer = world.agent_syncs(first).await?;
        ensure!(answer.threshold_in_ms.is_some_and(|left| left > 0), "minute {minute}: {answer:?}");
        world.refresh().await?;
        let state = world.runner(first).await?.state.name();
        ensure!(state == StateName::Running, "minute {minute}: it is {state}");
    }
    begins(&world, member(&claim, 1)?).await?;
    let ready = record(&world, &claim).await?;
    ensure!(ready.state.as_str() == "ready", "{ready:?}");
    ensure!(ready.threshold == Some(Threshold::in_(5 * MINUTE, world.now())));
    for index in 0..2 {
        let runner = world.runner(member(&claim, index)?).await?;
        ensure!(runner.threshold == ready.threshold, "the claim's end is not that of {}", runner.id);
    }
    world.clock.turn(5 * MINUTE);
    world.refresh().await?;
    ensure!(record(&world, &claim).await?.state.as_str() == "released");
    for index in 0..2 {
        let state = world.runner(member(&claim, index)?).await?.state.name();
        ensure!(state != StateName::Running, "{index} still runs");
    }
    Ok(())
}

/// Nobody gets its runners for nothing: when its wait is over, what it had is given back, and not ended.
#[tokio::test]
async fn a_claim_that_waited_too_long_lets_go_of_a_runner_that_outlived_its_own_time() -> Result<()> {
    let settings = json!({"wait_minutes": 20, "max_runtime_minutes": 5, "created_minutes": 50});
    let world = World::new(settings).await?;
    let claim = world.provision("gh-1", 2).await?;
    let first = member(&claim, 0)?;
    begins(&world, first).await?;
    for _ in 0..20 {
        world.clock.turn(MINUTE);
        world.agent_syncs(first).await?;
        world.refresh().await?;
    }
    ensure!(world.claim(&claim).await?.state == "failed");
    let state = world.runner(first).await?.state.name();
    ensure!(state == StateName::Releasing, "it is {state}");
    Ok(())
}

/// By the due pass: the next sweep may be far.
#[tokio::test]
async fn a_ready_claim_whose_refill_was_refused_is_refilled_by_the_next_passes() -> Result<()> {
    let world = World::new(json!({})).await?;
    let claim = world.provision("gh-1", 2).await?;
    world.agents_work().await?;
    ensure!(world.claim(&claim).await?.state == "ready");
    let (dead, other) = (member(&claim, 0)?, member(&claim, 1)?);
    ensure!(world.refresh().await?.swept, "the first pass sweeps");
    world.clock.turn(MINUTE);
    world.agent_syncs(other).await?;
    world.refresh().await?;
    world.machines.die(dead);
    world.machines.mood(Mood::Refuses("no capacity anywhere".to_owned()));
    world.clock.turn(MINUTE);
    world.agent_syncs(other).await?;
    ensure!(!world.refresh().await?.swept);
    ensure!(world.runner(dead).await?.state.name() == StateName::Terminated);
    let short = record(&world, &claim).await?;
    ensure!(short.state.as_str() == "ready" && short.short() == 1, "it does not lack one: {short:?}");
    ensure!(short.waits_for.as_ref().is_some_and(|why| why.contains("no capacity anywhere")), "{short:?}");
    let asked = world.machines.launches();
    ensure!(asked == 2, "the provider is asked once, and then left alone: {asked}");

    world.machines.mood(Mood::Willing);
    world.clock.turn(MINUTE);
    world.agent_syncs(other).await?;
    ensure!(!world.refresh().await?.swept);
    let refilled = record(&world, &claim).await?;
    ensure!(refilled.short() == 0 && world.machines.there().len() == 2, "{refilled:?}");
    Ok(())
}
