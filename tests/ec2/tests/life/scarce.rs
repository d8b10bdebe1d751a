//! What needs the fake's powers: shortages, quotas, throttling, answers that are lost on their way.

use crate::{Grounds, cleaned, open, ready};
use anyhow::{Context, Result, ensure};
use motorpool_domain::pool::Clean;
use motorpool_domain::spec::Usage;
use motorpool_ec2_tests::samples::{ec2_rules, pool};
use motorpool_ec2_tests::{FakeEc2, Loss};
use std::collections::BTreeSet;
use std::time::Duration;

pub(crate) async fn one_call_is_made_for_the_whole_shortfall(
    grounds: &impl Grounds<Ec2 = FakeEc2>,
) -> Result<()> {
    let (stage, plane) = open(grounds, cleaned(Usage::Spot, 4)).await?;
    ready(&stage, &plane, "gh-1", 3).await?;
    ensure!(stage.ec2.calls().get("RunInstances") == Some(&1), "{:?}", stage.ec2.calls());
    Ok(())
}

pub(crate) async fn fault_13_22_partial_launches_go_on_and_the_next_claim_walks_another_ladder(
    grounds: &impl Grounds<Ec2 = FakeEc2>,
) -> Result<()> {
    let (stage, plane) = open(grounds, cleaned(Usage::Spot, 20)).await?;
    stage.ec2.set_capacity_of_all(None, Some(Usage::Spot), 0);
    for (rung, has) in stage.ladder().await?.iter().zip([1, 3]) {
        stage.has(rung, has);
    }
    let claim = ready(&stage, &plane, "gh-1", 4).await?;
    let launches = stage.ec2.requests_of("RunInstances");
    ensure!(launches.len() == 2, "one rung gave one, the next gave three: {}", launches.len());
    let places: BTreeSet<(Option<String>, String)> =
        stage.runners().await?.into_iter().map(|runner| (runner.zone, runner.offer.instance_type)).collect();
    ensure!(places.len() == 2, "{places:?}");
    // Nothing is left: the next claim asks for what is not known to be empty, and says why it waits.
    let mut waits = stage.provision(&plane, "gh-2", 1).await?;
    ensure!(waits.why.contains("nothing to give so far"), "{}", waits.why);
    // One request tries a few rungs, and refresh the rest of them.
    for _ in 0..10 {
        if waits.short > 0 {
            break;
        }
        stage.tick(&plane).await?;
        waits = stage.provision(&plane, "gh-2", 1).await?;
    }
    let walked = stage.ec2.requests_of("RunInstances").len();
    ensure!(
        waits.state == "pending" && waits.why.contains("the provider has nothing left that would do"),
        "{}",
        waits.why
    );
    let third = stage.provision(&plane, "gh-3", 1).await?;
    ensure!(third.state == "pending", "{third:?}");
    ensure!(stage.ec2.requests_of("RunInstances").len() == walked, "the same ladder was walked again");
    // Then there is capacity again, and both are served.
    stage.ec2.restore_capacity();
    stage.clock.turn(Duration::from_secs(200));
    for workflow in ["gh-2", "gh-3"] {
        ready(&stage, &plane, workflow, 1).await?;
    }
    ensure!(claim.runners.len() == 4);
    stage.comes_to_rest(&plane).await?;
    stage.must_add_up().await
}

pub(crate) async fn fault_22_a_zone_without_addresses_and_a_quota_are_passed_over_as_a_whole(
    grounds: &impl Grounds<Ec2 = FakeEc2>,
) -> Result<()> {
    let mut rules = ec2_rules();
    rules.on_demand_fallback = true;
    let mut with_fallback = pool("small", Usage::Spot, 10, rules);
    with_fallback.rules.clean = Clean::Cleanup;
    let (stage, plane) = open(grounds, with_fallback).await?;
    stage.ec2.set_quota(Usage::Spot, 0);
    stage.ec2.set_free_addresses("us-east-1a", 0);
    ready(&stage, &plane, "gh-1", 2).await?;
    for runner in stage.runners().await? {
        ensure!(runner.offer.usage == Usage::OnDemand, "{runner:?}");
        ensure!(runner.zone.as_deref() != Some("us-east-1a"), "{runner:?}");
    }
    let calls = stage.ec2.requests_of("RunInstances").len();
    ensure!(calls <= 3, "a quota and a zone are one refusal each: {calls} calls");
    stage.must_add_up().await
}

pub(crate) async fn fault_11_a_throttled_launch_waits_and_uses_up_nothing(
    grounds: &impl Grounds<Ec2 = FakeEc2>,
) -> Result<()> {
    let (stage, plane) = open(grounds, cleaned(Usage::Spot, 4)).await?;
    // Warm: what there is to have is known.
    ready(&stage, &plane, "gh-0", 1).await?;
    stage.ec2.throttle_next(Some("RunInstances"), 12);
    let claim = stage.provision(&plane, "gh-1", 1).await?;
    ensure!(claim.state == "pending" && claim.runners.len() == 1, "{claim:?}");
    let ours = claim.runners.first().context("no runner")?.runner.clone();
    let ready = ready(&stage, &plane, "gh-1", 1).await?;
    ensure!(
        ready.runners.iter().all(|runner| runner.runner == ours),
        "the same intent came through: {ready:?}"
    );
    stage.must_add_up().await
}

pub(crate) async fn inv_16_a_launch_whose_answer_was_lost_is_found_again(
    grounds: &impl Grounds<Ec2 = FakeEc2>,
) -> Result<()> {
    for loss in [Loss::TimedOut, Loss::Cut, Loss::Garbled, Loss::ServerError] {
        let (stage, plane) = open(grounds, cleaned(Usage::Spot, 4)).await?;
        stage.ec2.lose_answers("RunInstances", 1, loss);
        ready(&stage, &plane, "gh-1", 2).await?;
        stage.comes_to_rest(&plane).await?;
        stage.must_add_up().await.with_context(|| format!("{loss:?}"))?;
        ensure!(stage.ec2.instances().len() == 2, "{loss:?}: more were made than asked for");
    }
    Ok(())
}
