//! Machines that EC2 has made and does not show yet, or has ended and still shows.

use crate::cleaned;
use anyhow::{Context, Result, ensure};
use motorpool_control::ports::clock::Clock;
use motorpool_control::ports::entropy::SeededEntropy;
use motorpool_control::{Caller, Control, RefusedKind, SweepWish, token_sha256};
use motorpool_domain::RunnerId;
use motorpool_domain::pool::Clean;
use motorpool_domain::runner::{Removal, StateName};
use motorpool_domain::spec::Usage;
use motorpool_ec2_tests::stage::Stage;
use motorpool_ec2_tests::{FakeEc2, FakeSettings, Lagged, Loss, TurnedClock};
use motorpool_wire::agent::BootstrapRequest;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// An EC2 that shows nothing younger than this.
const SHOWN_AFTER: Duration = Duration::from_secs(90);

async fn slow_to_show() -> Result<Stage> {
    let clock = Arc::new(TurnedClock::default());
    let fake = FakeEc2::with(FakeSettings {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        boot: Duration::from_secs(40),
        shutdown: Duration::from_secs(30),
        visible_after: SHOWN_AFTER,
        largest_page: 1_000,
    });
    Stage::on(fake, clock, Arc::new(SeededEntropy::new(1)), cleaned(Usage::OnDemand, 4)).await
}

/// Three were made, and nobody heard of it. One of them is over before the others' agents come: the call for all three can't be made again,
/// and what it made is not shown yet.
#[tokio::test]
async fn inv_16_17_what_is_not_shown_yet_is_not_made_again() -> Result<()> {
    let stage = slow_to_show().await?;
    let plane = stage.plane().await;
    stage.ec2.lose_answers("RunInstances", 3, Loss::Cut);
    stage.provision(&plane, "gh-1", 3).await?;
    let runners = stage.runners().await?;
    ensure!(runners.len() == 3 && runners.iter().all(|runner| runner.provider_id.is_none()), "{runners:?}");
    ensure!(stage.ec2.alive() == 3, "EC2 made {}", stage.ec2.alive());

    let first = runners.first().context("no runner")?;
    plane.remove_runner(&Caller::Operator, &first.id, Removal::Force).await?;
    // Refresh is there before their agents are.
    for _ in 0..2 {
        stage.clock.turn(stage.pool.rules.limits.heartbeat);
        stage.refresh(&plane, SweepWish::IfDue).await?;
    }
    stage.comes_to_rest(&plane).await?;
    stage.must_add_up().await?;
    let claim = stage.provision(&plane, "gh-1", 3).await?;
    let running = claim.runners.iter().filter(|member| member.state == StateName::Running).count();
    ensure!(claim.state == "ready" && running == 3, "{claim:?}");
    Ok(())
}

/// A job that is root on one machine has the secret of its launch. It can name any machine; whose that is, EC2 says.
#[tokio::test]
async fn refuse_23_nobody_joins_in_the_place_of_a_sibling() -> Result<()> {
    let stage = slow_to_show().await?;
    let plane = stage.plane().await;
    stage.ec2.lose_answers("RunInstances", 3, Loss::Cut);
    stage.provision(&plane, "gh-1", 2).await?;
    let [own, sibling] =
        <[_; 2]>::try_from(stage.instances().await?).map_err(|all| anyhow::anyhow!("{all:?}"))?;
    let (mine, its) = (own.runner().context("a runner")?, sibling.runner().context("a runner")?);
    let secret = own.launch_secret().context("a secret")?;
    let join = async |runner: &RunnerId, machine: &str, token: &str| {
        let request = BootstrapRequest {
            runner: runner.clone(),
            secret: secret.clone(),
            token_sha256: token_sha256(token),
            machine_id: machine.to_owned(),
            boot_id: "boot".to_owned(),
        };
        plane.bootstrap(request).await
    };
    let kind = |outcome: Result<_, motorpool_control::Refused>| outcome.err().map(|refused| refused.kind);
    let before = stage.runners().await?;
    let unseen = join(&its, &own.id, "thief").await.err().context("it joined")?;
    ensure!(unseen.kind == RefusedKind::Unavailable && unseen.retry_after.is_some(), "{unseen:?}");
    stage.clock.turn(SHOWN_AFTER);
    ensure!(kind(join(&its, &own.id, "thief").await) == Some(RefusedKind::Forbidden), "with its own machine");
    ensure!(
        kind(join(&its, "i-0dead0dead0dead00", "thief").await) == Some(RefusedKind::Unavailable),
        "with nobody's"
    );
    ensure!(kind(join(&its, "laptop", "thief").await) == Some(RefusedKind::Forbidden), "with no instance");
    ensure!(stage.runners().await? == before, "something has come of it");
    join(&its, &sibling.id, "the sibling").await?;
    join(&mine, &own.id, "its own").await?;
    for (runner, machine) in [(&its, &sibling.id), (&mine, &own.id)] {
        let named = stage.store.runner(runner).await?.and_then(|runner| runner.provider_id);
        ensure!(named.as_ref() == Some(machine), "{runner} is {named:?}");
    }
    Ok(())
}

/// What is there is left out again, and what has ended is alive again. No record follows a listing there.
#[tokio::test]
async fn inv_01_16_a_listing_that_goes_back_takes_no_record_with_it() -> Result<()> {
    let mut lagged = Lagged::default();
    for seed in 0..8 {
        let mut replaced = cleaned(Usage::OnDemand, 4);
        replaced.rules.clean = Clean::Replace;
        let stage = Stage::lagging(replaced, seed, SHOWN_AFTER).await?;
        let plane = stage.plane().await;
        stage.provision(&plane, "gh-1", 2).await?;
        let launched: BTreeSet<RunnerId> = ids(&stage).await?;
        sweep_again_and_again(&stage, &plane).await?;
        ensure!(ids(&stage).await? == launched, "with seed {seed}: {:?}", stage.runners().await?);
        let claim = stage.provision(&plane, "gh-1", 2).await?;
        ensure!(claim.state == "ready" && claim.short == 0, "with seed {seed}: {claim:?}");
        stage.release(&plane, "gh-1").await?;
        sweep_again_and_again(&stage, &plane).await?;
        stage.comes_to_rest(&plane).await?;
        ensure!(ids(&stage).await?.is_empty(), "with seed {seed}: {:?}", stage.runners().await?);
        ensure!(
            stage.ec2.instances().len() == 2,
            "with seed {seed}: {} were made",
            stage.ec2.instances().len()
        );
        stage.must_add_up().await.with_context(|| format!("with seed {seed}"))?;
        lagged = lagged.and(stage.ec2.lagged());
    }
    ensure!(lagged.in_every_way(), "listings were not as they should be: {lagged:?}");
    Ok(())
}

async fn ids(stage: &Stage) -> Result<BTreeSet<RunnerId>> {
    Ok(stage.runners().await?.into_iter().map(|runner| runner.id).collect())
}

/// For longer than listings are behind, and several times at each moment.
async fn sweep_again_and_again(stage: &Stage, plane: &Control) -> Result<()> {
    for _ in 0..12 {
        stage.clock.turn(Duration::from_secs(10));
        stage.agents_work(plane).await?;
        for _ in 0..3 {
            stage.refresh(plane, SweepWish::Now).await?;
        }
    }
    Ok(())
}
