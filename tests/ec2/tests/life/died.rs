//! Machines that die by themselves: nobody tells the control plane.

use crate::{Grounds, cleaned, idle, machine, open, ready};
use anyhow::{Result, ensure};
use motorpool_control::{Caller, Control, SweepWish};
use motorpool_domain::spec::Usage;
use motorpool_ec2_tests::ground::{EndedBy, Ground};
use motorpool_ec2_tests::stage::Stage;

pub(crate) async fn one_that_dies_before_it_joins_is_replaced(grounds: &impl Grounds) -> Result<()> {
    let (stage, plane) = open(grounds, cleaned(Usage::OnDemand, 4)).await?;
    stage.provision(&plane, "gh-1", 1).await?;
    let dead = machine(&stage).await?;
    stage.ec2.end(&dead, EndedBy::AFailure).await?;
    another_comes(&stage, &plane, &dead).await
}

pub(crate) async fn one_that_dies_under_its_job_is_replaced_and_the_claim_says_why(
    grounds: &impl Grounds,
) -> Result<()> {
    let (stage, plane) = open(grounds, cleaned(Usage::OnDemand, 4)).await?;
    let before = ready(&stage, &plane, "gh-1", 1).await?;
    let dead = machine(&stage).await?;
    stage.ec2.end(&dead, EndedBy::AFailure).await?;
    another_comes(&stage, &plane, &dead).await?;
    let after = stage.provision(&plane, "gh-1", 1).await?;
    ensure!(after.claim == before.claim, "{after:?}");
    let why = plane.why(&Caller::Operator, &before.claim).await?;
    ensure!(why.history.iter().any(|entry| entry.why.contains("its machine is gone")), "{why:?}");
    Ok(())
}

/// Its heartbeats are missed, EC2 is asked, and gh-1 is given another.
async fn another_comes<G: Ground>(stage: &Stage<G>, plane: &Control, dead: &str) -> Result<()> {
    let silence = stage.pool.rules.limits.silence();
    stage.nobody_is_heard(plane, silence).await?;
    let claim = ready(stage, plane, "gh-1", 1).await?;
    let left = stage.alive().await?;
    ensure!(left.len() == 1 && left.iter().all(|instance| instance.id != dead), "{left:?}");
    ensure!(claim.runners.iter().all(|runner| !runner.warm), "{claim:?}");
    stage.must_add_up().await
}

pub(crate) async fn one_that_dies_idle_is_found_by_the_sweep(grounds: &impl Grounds) -> Result<()> {
    let (stage, plane) = open(grounds, cleaned(Usage::OnDemand, 4)).await?;
    idle(&stage, &plane).await?;
    let dead = machine(&stage).await?;
    stage.ec2.end(&dead, EndedBy::AFailure).await?;
    // Until a listing must show it; it is not silent by then.
    stage.clock.turn(stage.ec2.behind());
    stage.refresh(&plane, SweepWish::Now).await?;
    ensure!(stage.runners().await?.is_empty(), "{:?}", stage.runners().await?);
    stage.must_add_up().await?;
    // Nobody is offered it: the next one is new.
    let claim = ready(&stage, &plane, "gh-2", 1).await?;
    ensure!(claim.runners.iter().all(|runner| !runner.warm), "{claim:?}");
    stage.must_add_up().await
}
