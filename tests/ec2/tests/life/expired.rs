//! Every state has its time, and when that is over no instance stays.

use crate::{Grounds, cleaned, idle, only, open, ready};
use anyhow::{Context, Result, ensure};
use motorpool_control::{Caller, Control, SweepWish};
use motorpool_domain::pool::Clean;
use motorpool_domain::runner::{Removal, RunnerState, StateName};
use motorpool_domain::spec::Usage;
use motorpool_ec2_tests::State;
use motorpool_ec2_tests::ground::Ground;
use motorpool_ec2_tests::stage::Stage;
use std::time::Duration;

/// Longer than a runner may be in any state.
const TOO_LONG: Duration = Duration::from_secs(31 * 60);

pub(crate) async fn expired_in_every_state_and_no_instance_stays(grounds: &impl Grounds) -> Result<()> {
    for state in
        [StateName::Created, StateName::Running, StateName::Claimed, StateName::Releasing, StateName::Idle]
    {
        let (stage, plane) = open(grounds, cleaned(Usage::OnDemand, 4)).await?;
        bring_to(&stage, &plane, state).await.with_context(|| format!("bring it to {state}"))?;
        let before = only(&stage).await?;
        ensure!(before.state.name() == state, "{:?} is not {state}", before.state);
        ensure!(stage.alive().await?.len() == 1, "{state}: {:?}", stage.alive().await?);
        // Nobody is heard from any more, and its time passes.
        stage.clock.turn(TOO_LONG);
        stage.refresh(&plane, SweepWish::IfDue).await?;
        let after = stage.runners().await?;
        ensure!(
            after
                .iter()
                .all(|runner| runner.id != before.id || runner.state.name() == StateName::Terminating),
            "still {state} after its time: {after:?}"
        );
        // Its agent ends nothing: EC2 is told to, and told again.
        stage.nobody_is_heard(&plane, stage.pool.rules.limits.terminating * 2).await?;
        ensure!(stage.alive().await?.is_empty(), "{state}: {:?}", stage.alive().await?);
        ensure!(stage.runners().await?.is_empty(), "{state}: {:?}", stage.runners().await?);
        stage.must_add_up().await?;
    }
    Ok(())
}

async fn bring_to<G: Ground>(stage: &Stage<G>, plane: &Control, state: StateName) -> Result<()> {
    match state {
        // It never joins, since no agent works.
        StateName::Created => {
            stage.provision(plane, "gh-1", 1).await?;
            stage.release(plane, "gh-1").await?;
        }
        StateName::Running => {
            ready(stage, plane, "gh-1", 1).await?;
        }
        StateName::Releasing => {
            ready(stage, plane, "gh-1", 1).await?;
            stage.release(plane, "gh-1").await?;
        }
        StateName::Idle => {
            idle(stage, plane).await?;
        }
        StateName::Claimed => {
            idle(stage, plane).await?;
            stage.provision(plane, "gh-2", 1).await?;
        }
        StateName::Resetting | StateName::Quarantined | StateName::Terminating | StateName::Terminated => {
            anyhow::bail!("a flow of its own")
        }
    }
    Ok(())
}

pub(crate) async fn one_that_is_told_to_go_keeps_its_slot_until_it_is_seen_to_be_gone(
    grounds: &impl Grounds,
) -> Result<()> {
    let mut replaced = cleaned(Usage::OnDemand, 4);
    replaced.rules.clean = Clean::Replace;
    let (stage, plane) = open(grounds, replaced).await?;
    ready(&stage, &plane, "gh-1", 1).await?;
    stage.release(&plane, "gh-1").await?;
    stage.agents_work(&plane).await?;
    let used = async || anyhow::Ok(stage.store.pool(&stage.pool.name).await?.context("no pool")?.used);
    let ending = only(&stage).await?;
    ensure!(matches!(ending.state, RunnerState::Terminating { told: 1, .. }), "{:?}", ending.state);
    ensure!(used().await? == 1, "EC2 has only been told");
    stage.clock.turn(stage.pool.rules.limits.terminating);
    stage.refresh(&plane, SweepWish::IfDue).await?;
    ensure!(stage.runners().await?.is_empty() && used().await? == 0, "told again, and seen to be gone");
    let machine = ending.provider_id.context("no machine")?;
    ensure!(stage.ec2.state_of(&machine).await? == State::Terminated);
    stage.must_add_up().await
}

pub(crate) async fn a_cleaning_that_never_ends_is_given_up_and_its_machine_goes_when_a_person_says_so(
    grounds: &impl Grounds,
) -> Result<()> {
    let (stage, plane) = open(grounds, cleaned(Usage::OnDemand, 4)).await?;
    ready(&stage, &plane, "gh-1", 1).await?;
    stage.release(&plane, "gh-1").await?;
    // As far as its agent is told to clean, and no further.
    for _ in 0..5 {
        if only(&stage).await?.state.name() == StateName::Resetting {
            break;
        }
        stage.agents_sync(&plane).await?;
    }
    let resetting = only(&stage).await?;
    ensure!(resetting.state.name() == StateName::Resetting, "{:?}", resetting.state);
    stage.nobody_is_heard(&plane, TOO_LONG).await?;
    let given_up = only(&stage).await?;
    match &given_up.state {
        RunnerState::Quarantined { why } => ensure!(why.contains("could not be cleaned"), "{why}"),
        other => anyhow::bail!("it is {other:?}"),
    }
    let claim = stage.provision(&plane, "gh-2", 1).await?;
    ensure!(claim.runners.iter().all(|runner| runner.runner != given_up.id), "it was never proven clean");
    stage.release(&plane, "gh-2").await?;
    let given_up_on = given_up.provider_id.context("no machine")?;
    ensure!(stage.ec2.state_of(&given_up_on).await? == State::Running, "a person may look at it");
    plane.remove_runner(&Caller::Operator, &given_up.id, Removal::IfFree).await?;
    stage.nobody_is_heard(&plane, stage.pool.rules.limits.terminating * 2).await?;
    ensure!(stage.ec2.state_of(&given_up_on).await? == State::Terminated);
    stage.must_add_up().await
}
