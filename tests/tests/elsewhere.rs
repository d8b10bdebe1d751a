//! Two control planes on one ledger, of which only one has the machines: the other's refresh may always be first, and still keeps
//! nothing from the one that can do something about it.

use anyhow::{Context, Result, ensure};
use motorpool_control::ports::backend::{Backends, Elsewhere};
use motorpool_control::ports::ci::CiSystems;
use motorpool_control::ports::clock::Clock;
use motorpool_control::ports::doorbell::NoDoorbell;
use motorpool_control::ports::entropy::SeededEntropy;
use motorpool_control::{Caller, Control, Parts, ServerSecret, Settings, SweepWish};
use motorpool_domain::RunnerId;
use motorpool_domain::pool::BackendKind;
use motorpool_domain::runner::{Removal, RunnerState, StateName};
use motorpool_domain::spec::Spec;
use motorpool_tests::world::{POOL, World};
use motorpool_wire::api::ClaimView;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn inv_15_an_intent_of_who_has_no_machines_is_launched_by_who_has() -> Result<()> {
    let world = World::new(json!({})).await?;
    let other = without_machines(&world);
    let request = serde_json::from_value(json!({"workflow": "gh-1", "pool": POOL}))?;
    let runner = only(&other.provision(&Caller::Operator, request).await?)?;
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
    Control::new(Parts {
        ledger: Arc::clone(&world.ledger),
        queue: Arc::clone(&world.queue),
        backends: Backends::default().with(BackendKind::Local, Arc::new(Elsewhere)),
        ci: CiSystems::default(),
        clock: Arc::clone(&world.clock) as Arc<dyn Clock>,
        entropy: Arc::new(SeededEntropy::new(2)),
        doorbell: Arc::new(NoDoorbell),
        secret: ServerSecret::new(b"for tests"),
        settings: Settings {
            refresh: Duration::from_secs(30),
            sweep: Duration::from_secs(300),
            resource_classes: BTreeMap::new(),
            host: Spec { cpu: 2, memory_mb: 2048 },
        },
    })
}

async fn running(world: &World) -> Result<RunnerId> {
    let runner = only(&world.provision("gh-1", 1).await?)?;
    world.agents_work().await?;
    ensure!(world.runner(&runner).await?.state.name() == StateName::Running);
    Ok(runner)
}

fn only(claim: &ClaimView) -> Result<RunnerId> {
    Ok(claim.runners.first().context("the claim has no runner")?.runner.clone())
}
