//! Machines that are there, and whose agents are heard no more.

use crate::{Grounds, cleaned, idle, machine, only, open, ready};
use anyhow::{Result, ensure};
use motorpool_domain::runner::{RunnerState, StateName};
use motorpool_domain::spec::Usage;
use motorpool_ec2_tests::State;
use motorpool_ec2_tests::ground::Ground;
use std::time::Duration;

pub(crate) async fn an_idle_one_that_falls_silent_goes(grounds: &impl Grounds) -> Result<()> {
    let (stage, plane) = open(grounds, cleaned(Usage::OnDemand, 4)).await?;
    idle(&stage, &plane).await?;
    let silence = stage.pool.rules.limits.silence();
    stage.nobody_is_heard(&plane, silence / 2).await?;
    ensure!(only(&stage).await?.state == RunnerState::Idle, "a heartbeat or two may be missing");
    stage.nobody_is_heard(&plane, silence / 2).await?;
    match only(&stage).await?.state {
        RunnerState::Terminating { why, .. } => ensure!(why.contains("silent"), "{why}"),
        other => anyhow::bail!("it is {other:?}"),
    }
    stage.nobody_is_heard(&plane, stage.pool.rules.limits.terminating * 2).await?;
    ensure!(stage.alive().await?.is_empty(), "{:?}", stage.alive().await?);
    ensure!(stage.runners().await?.is_empty(), "{:?}", stage.runners().await?);
    stage.must_add_up().await
}

pub(crate) async fn one_that_falls_silent_under_its_job_has_its_claims_time_and_no_more(
    grounds: &impl Grounds,
) -> Result<()> {
    let (stage, plane) = open(grounds, cleaned(Usage::OnDemand, 4)).await?;
    ready(&stage, &plane, "gh-1", 1).await?;
    let machine = machine(&stage).await?;
    let limits = &stage.pool.rules.limits;
    stage.nobody_is_heard(&plane, limits.max_runtime - Duration::from_secs(60)).await?;
    let quiet = only(&stage).await?;
    ensure!(quiet.state.name() == StateName::Running, "its job may go on: {:?}", quiet.state);
    ensure!(stage.ec2.state_of(&machine).await? == State::Running, "its machine was ended");
    stage.nobody_is_heard(&plane, Duration::from_secs(60) + limits.terminating * 2).await?;
    ensure!(stage.alive().await?.is_empty(), "{:?}", stage.alive().await?);
    ensure!(stage.runners().await?.is_empty(), "{:?}", stage.runners().await?);
    stage.must_add_up().await
}
