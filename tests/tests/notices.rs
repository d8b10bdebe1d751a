//! What becomes of the notice of an idle runner that a claim could not take after all.

use anyhow::Result;
use motorpool_control::{Caller, RefusedKind};
use motorpool_domain::Workflow;
use motorpool_tests::harness::world::{World, pool};
use motorpool_wire::api::{ClaimRequest, ClaimView};
use serde_json::json;
use std::time::Duration;

async fn claim_now(world: &World, workflow: &str) -> Result<Result<ClaimView, RefusedKind>> {
    let request = ClaimRequest {
        workflow: Workflow::parse(workflow)?,
        pool: pool()?,
        max_runtime_minutes: None,
        usage: None,
        allowed_instance_types: None,
        resource_class: None,
    };
    Ok(world.control.claim_now(&Caller::Operator, request).await.map_err(|refused| refused.kind))
}

/// Found by the simulator: the notice was deleted as stale, and nobody heard of the runner until the next sweep.
#[tokio::test]
async fn inv_09_an_idle_runner_whose_time_is_over_keeps_its_notice_if_it_may_stay() -> Result<()> {
    let world = World::new(json!({"min_idle": 1, "idle_seconds": 60})).await?;
    world.refresh().await?;
    world.agents_work().await?;
    world.clock.turn(Duration::from_secs(50));
    world.agents_work().await?;
    world.clock.turn(Duration::from_secs(11));
    assert_eq!(claim_now(&world, "too-late").await?.err(), Some(RefusedKind::NotFound));

    world.refresh().await?;

    let view = claim_now(&world, "again").await?;
    assert!(view.is_ok_and(|view| view.runners.len() == 1), "the runner stays, and can be claimed at once");
    Ok(())
}
