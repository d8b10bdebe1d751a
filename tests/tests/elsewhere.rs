//! Two control planes on one ledger, of which only one has the machines: the other's refresh may always be first, and still keeps
//! nothing from the one that can do something about it.

use anyhow::{Result, ensure};
use motorpool_control::ports::backend::{Backend, Backends, Elsewhere, OwnedMachines};
use motorpool_control::{Caller, Control, Parts, SweepWish};
use motorpool_domain::RunnerId;
use motorpool_domain::pool::BackendKind;
use motorpool_domain::runner::{Attested, Removal, RunnerState, StateName};
use motorpool_tests::harness::world::{POOL, World, first_member};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn inv_15_an_intent_of_who_has_no_machines_is_launched_by_who_has() -> Result<()> {
    let world = World::new(json!({})).await?;
    let other = without_machines(&world);
    let request = serde_json::from_value(json!({"workflow": "gh-1", "pool": POOL}))?;
    let runner = first_member(&other.provision(&Caller::Operator, request).await?)?;
    ensure!(matches!(world.runner(&runner).await?.state, RunnerState::Created { launched_at: None, .. }));
    world.clock.turn(Duration::from_secs(16));
    for wish in [SweepWish::IfDue, SweepWish::Now] {
        other.refresh(&Caller::Operator, wish).await?;
        ensure!(world.machines.there().is_empty());
    }
    world.refresh().await?;
    ensure!(world.machines.there() == std::slice::from_ref(&runner));
    ensure!(matches!(world.runner(&runner).await?.state, RunnerState::Created { launched_at: Some(_), .. }));
    Ok(())
}

#[tokio::test]
async fn inv_16_a_busy_machine_that_died_is_noticed_by_who_has_it() -> Result<()> {
    let world = World::new(json!({})).await?;
    let other = without_machines(&world);
    let runner = running(&world).await?;
    // Both have listened ever since.
    for _ in 0..3 {
        world.clock.turn(Duration::from_secs(30));
        other.refresh(&Caller::Operator, SweepWish::IfDue).await?;
        world.agent_syncs(&runner).await?;
    }
    world.machines.die(&runner);
    world.clock.turn(Duration::from_secs(61));
    other.refresh(&Caller::Operator, SweepWish::Now).await?;
    ensure!(
        world.runner(&runner).await?.state.name() == StateName::Running,
        "it can't tell, and kills nobody"
    );
    world.refresh().await?;
    ensure!(world.runner(&runner).await?.state.name() == StateName::Terminated);
    Ok(())
}

#[tokio::test]
async fn refuse_23_who_has_no_machines_vouches_for_none_and_where_each_has_its_own_secret_nobody_need()
-> Result<()> {
    let world = World::new(json!({})).await?;
    let runner = running(&world).await?;
    let runner = world.runner(&runner).await?;
    ensure!(Elsewhere.attest(&runner, "i-1").await? == Attested::NotShown);
    ensure!(OwnedMachines.attest(&runner, "i-1").await? == Attested::NobodyKnows);
    ensure!(world.machines.attest(&runner, "i-1").await? == Attested::NobodyKnows);
    Ok(())
}

#[tokio::test]
async fn inv_14_a_machine_is_told_to_go_by_who_has_it() -> Result<()> {
    let world = World::new(json!({})).await?;
    let other = without_machines(&world);
    let runner = running(&world).await?;
    other.remove_runner(&Caller::Operator, &runner, Removal::Force).await?;
    ensure!(world.runner(&runner).await?.state.name() == StateName::Terminating);
    world.clock.turn(Duration::from_secs(61));
    other.refresh(&Caller::Operator, SweepWish::Now).await?;
    ensure!(world.machines.there().contains(&runner), "it was not its to end");
    world.refresh().await?;
    ensure!(world.runner(&runner).await?.state.name() == StateName::Terminated);
    ensure!(!world.machines.there().contains(&runner));
    Ok(())
}

/// As a function is: on the same ledger, queue and clock.
fn without_machines(world: &World) -> Control {
    let backends = Backends::default().with(BackendKind::Local, Arc::new(Elsewhere));
    Control::new(Parts { backends, ..world.parts() })
}

async fn running(world: &World) -> Result<RunnerId> {
    let runner = first_member(&world.ready("gh-1", 1).await?)?;
    ensure!(world.runner(&runner).await?.state.name() == StateName::Running);
    Ok(runner)
}
