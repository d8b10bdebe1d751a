//! EC2 tells a machine that it takes it, or that it may; its agent tells the control plane.

use crate::{Grounds, cleaned, idle, machine, open, ready};
use anyhow::{Context, Result, ensure};
use motorpool_control::Caller;
use motorpool_domain::runner::Notice;
use motorpool_domain::spec::Usage;
use motorpool_ec2_tests::State;
use motorpool_ec2_tests::ground::{EndedBy, Ground};

pub(crate) async fn fault_12_an_interruption_during_a_job_brings_a_replacement_and_a_why(
    grounds: &impl Grounds,
) -> Result<()> {
    let (stage, plane) = open(grounds, cleaned(Usage::Spot, 4)).await?;
    let before = ready(&stage, &plane, "gh-1", 1).await?;
    let machine = machine(&stage).await?;
    stage.notify(&machine, Notice::Interruption);
    stage.agents_work(&plane).await?;
    let told = stage.provision(&plane, "gh-1", 1).await?;
    let why = plane.why(&Caller::Operator, &before.claim).await?;
    ensure!(why.history.iter().any(|entry| entry.why.contains("taking its machine away")), "{why:?}");
    ensure!(told.runners.iter().all(|runner| before.runners.iter().all(|old| old.runner != runner.runner)));
    // Two minutes later EC2 takes it, and the replacement has long been there.
    for _ in 0..3 {
        stage.tick(&plane).await?;
    }
    let after = stage.provision(&plane, "gh-1", 1).await?;
    ensure!(after.claim == before.claim && after.state == "ready" && after.short == 0, "{after:?}");
    stage.ec2.end(&machine, EndedBy::TheProvider).await?;
    stage.comes_to_rest(&plane).await?;
    let left = stage.alive().await?;
    ensure!(left.len() == 1 && left.iter().all(|instance| instance.id != machine), "{left:?}");
    ensure!(stage.instances().await?.len() == 2, "one replacement is enough");
    stage.must_add_up().await
}

pub(crate) async fn fault_12_a_rebalance_notice_during_a_job_brings_a_replacement_and_lets_the_job_end(
    grounds: &impl Grounds,
) -> Result<()> {
    let (stage, plane) = open(grounds, cleaned(Usage::Spot, 4)).await?;
    let before = ready(&stage, &plane, "gh-1", 1).await?;
    let machine = machine(&stage).await?;
    stage.notify(&machine, Notice::Rebalance);
    for _ in 0..3 {
        stage.tick(&plane).await?;
    }
    let after = stage.provision(&plane, "gh-1", 1).await?;
    ensure!(after.claim == before.claim && after.state == "ready" && after.short == 0, "{after:?}");
    let new = after.runners.first().context("no runner")?;
    ensure!(before.runners.iter().all(|old| old.runner != new.runner), "{after:?}");
    ensure!(stage.ec2.state_of(&machine).await? == State::Running, "EC2 may never take it, and its job runs");
    stage.release(&plane, "gh-1").await?;
    stage.comes_to_rest(&plane).await?;
    ensure!(
        stage.ec2.state_of(&machine).await? == State::Terminated,
        "it may go at any time: it is not kept"
    );
    let left = stage.alive().await?;
    ensure!(left.len() == 1 && left.iter().all(|it| it.runner().as_ref() == Some(&new.runner)), "{left:?}");
    stage.must_add_up().await
}

pub(crate) async fn fault_12_a_rebalance_notice_on_an_idle_runner_ends_it(
    grounds: &impl Grounds,
) -> Result<()> {
    let (stage, plane) = open(grounds, cleaned(Usage::Spot, 4)).await?;
    let machine = idle(&stage, &plane).await?.provider_id.context("no machine")?;
    stage.notify(&machine, Notice::Rebalance);
    stage.comes_to_rest(&plane).await?;
    ensure!(stage.alive().await?.is_empty(), "{:?}", stage.alive().await?);
    stage.must_add_up().await
}
