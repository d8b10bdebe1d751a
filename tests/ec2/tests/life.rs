//! The whole life of runners on the fake EC2: cold, warm, expired in every state, interrupted during a job, short of capacity.

use anyhow::{Context, Result, ensure};
use motorpool_control::ports::backend::Backend;
use motorpool_control::{Caller, Control, SweepWish};
use motorpool_domain::pool::{Clean, Pool};
use motorpool_domain::runner::{Notice, Runner, RunnerState, StateName};
use motorpool_domain::spec::Usage;
use motorpool_ec2_tests::samples::{attempt, ec2_rules, launch_id, order, pool};
use motorpool_ec2_tests::stage::{Stage, launch_secret};
use motorpool_ec2_tests::{Loss, State};
use motorpool_wire::api::ClaimView;
use std::collections::BTreeSet;
use std::time::Duration;

fn cleaned(max: u32) -> Pool {
    let mut pool = pool("small", Usage::Spot, max, ec2_rules());
    pool.rules.clean = Clean::Cleanup;
    pool
}

async fn stage(pool: Pool) -> Result<(Stage, Control)> {
    let stage = Stage::new(pool).await?;
    let plane = stage.plane().await;
    Ok((stage, plane))
}

async fn ready(stage: &Stage, plane: &Control, workflow: &str, count: u32) -> Result<ClaimView> {
    stage.provision(plane, workflow, count).await?;
    for _ in 0..10 {
        stage.tick(plane).await?;
        let claim = stage.provision(plane, workflow, count).await?;
        if claim.state == "ready" && claim.short == 0 {
            return Ok(claim);
        }
    }
    anyhow::bail!("{workflow} did not become ready")
}

async fn only(stage: &Stage) -> Result<Runner> {
    let [runner] =
        <[Runner; 1]>::try_from(stage.runners().await?).map_err(|all| anyhow::anyhow!("{all:?}"))?;
    Ok(runner)
}

#[tokio::test]
async fn cold_then_released_then_warm_then_idle_for_too_long() -> Result<()> {
    let (stage, plane) = stage(cleaned(4)).await?;
    let cold = ready(&stage, &plane, "gh-1", 2).await?;
    ensure!(cold.runners.iter().all(|runner| !runner.warm), "{cold:?}");
    ensure!(stage.fake.calls().get("RunInstances") == Some(&1), "one call for the whole shortfall");
    let runner = stage.runners().await?.into_iter().next().context("no runner")?;
    ensure!(runner.zone.is_some() && runner.hourly.is_some(), "{runner:?}");
    ensure!(runner.offer.usage == Usage::Spot && runner.offer.instance_type != "ec2", "{runner:?}");
    stage.release(&plane, "gh-1").await?;
    stage.tick(&plane).await?;
    let warm = ready(&stage, &plane, "gh-2", 2).await?;
    ensure!(warm.runners.iter().all(|runner| runner.warm && runner.epoch.0 == 2), "{warm:?}");
    ensure!(stage.fake.calls().get("RunInstances") == Some(&1), "nothing was launched for it");
    stage.release(&plane, "gh-2").await?;
    stage.comes_to_rest(&plane).await?;
    stage.clock.turn(Duration::from_secs(601));
    stage.comes_to_rest(&plane).await?;
    ensure!(
        stage.fake.alive() == 0 && stage.runners().await?.is_empty(),
        "idle for too long, and still there"
    );
    stage.must_add_up().await
}

#[tokio::test]
async fn every_instance_is_tagged_for_its_claim_and_told_nothing_but_its_launch() -> Result<()> {
    let (stage, plane) = stage(cleaned(4)).await?;
    let claim = ready(&stage, &plane, "gh-77.2", 2).await?;
    for (instance, _) in stage.fake.instances() {
        let tag = |name: &str| instance.tags.get(name).map(String::as_str);
        ensure!(tag("motorpool:pool") == Some("small"), "{:?}", instance.tags);
        ensure!(tag("motorpool:claim") == Some(claim.claim.as_str()), "{:?}", instance.tags);
        ensure!(tag("motorpool:workflow") == Some("gh-77.2"), "{:?}", instance.tags);
        let runner = instance.runner().context("no runner")?;
        ensure!(tag("motorpool:runner") == Some(runner.as_str()), "{:?}", instance.tags);
        ensure!(launch_secret(&instance).is_some(), "no secret to join with");
    }
    Ok(())
}

#[tokio::test]
async fn expired_in_every_state_and_no_instance_stays() -> Result<()> {
    let hour = Duration::from_secs(3_600);
    // Created: it never boots, since no agent works.
    let (stage_, plane) = stage(cleaned(4)).await?;
    stage_.provision(&plane, "gh-1", 1).await?;
    stage_.release(&plane, "gh-1").await?;
    stage_.clock.turn(hour);
    stage_.refresh(&plane, SweepWish::IfDue).await?;
    ensure!(only(&stage_).await?.state.name() == StateName::Terminating);
    stage_.comes_to_rest(&plane).await?;
    ensure!(stage_.fake.alive() == 0);

    for state in [StateName::Running, StateName::Claimed, StateName::Releasing, StateName::Idle] {
        let (stage_, plane) = stage(cleaned(4)).await?;
        ready(&stage_, &plane, "gh-1", 1).await?;
        match state {
            StateName::Running => {}
            StateName::Releasing => {
                stage_.release(&plane, "gh-1").await?;
            }
            _ => {
                stage_.release(&plane, "gh-1").await?;
                stage_.tick(&plane).await?;
                ensure!(only(&stage_).await?.state == RunnerState::Idle);
                if state == StateName::Claimed {
                    stage_.provision(&plane, "gh-2", 1).await?;
                }
            }
        }
        ensure!(
            only(&stage_).await?.state.name() == state,
            "{:?} is not {state}",
            only(&stage_).await?.state
        );
        // Nobody is heard from any more, and its time passes.
        stage_.clock.turn(hour);
        stage_.refresh(&plane, SweepWish::IfDue).await?;
        let after = stage_.runners().await?;
        ensure!(
            after.iter().all(|runner| runner.state.name() != state),
            "still {state} after its time: {after:?}"
        );
        if state == StateName::Claimed {
            stage_.release(&plane, "gh-2").await?;
        }
        stage_.comes_to_rest(&plane).await?;
        stage_.clock.turn(hour);
        stage_.comes_to_rest(&plane).await?;
        ensure!(stage_.fake.alive() == 0, "{state}: {:?}", stage_.fake.instances());
        stage_.must_add_up().await?;
    }
    Ok(())
}

#[tokio::test]
async fn fault_12_an_interruption_during_a_job_brings_a_replacement_and_a_why() -> Result<()> {
    let (stage, plane) = stage(cleaned(4)).await?;
    let before = ready(&stage, &plane, "gh-1", 1).await?;
    let machine = only(&stage).await?.provider_id.context("no machine")?;
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
    stage.fake.interrupt(&machine);
    stage.comes_to_rest(&plane).await?;
    ensure!(stage.fake.alive() == 1, "the old one is gone, and the new one there");
    stage.must_add_up().await
}

#[tokio::test]
async fn fault_12_a_rebalance_notice_on_an_idle_runner_ends_it() -> Result<()> {
    let (stage, plane) = stage(cleaned(4)).await?;
    ready(&stage, &plane, "gh-1", 1).await?;
    stage.release(&plane, "gh-1").await?;
    stage.tick(&plane).await?;
    let idle = only(&stage).await?;
    ensure!(idle.state == RunnerState::Idle);
    stage.notify(&idle.provider_id.context("no machine")?, Notice::Rebalance);
    stage.comes_to_rest(&plane).await?;
    ensure!(stage.fake.alive() == 0);
    stage.must_add_up().await
}

#[tokio::test]
async fn fault_13_22_partial_launches_go_on_and_the_next_claim_walks_another_ladder() -> Result<()> {
    let (stage, plane) = stage(cleaned(20)).await?;
    stage.fake.set_capacity_of_all(None, Some(Usage::Spot), 0);
    for (rung, has) in stage.ladder().await?.iter().zip([1, 3]) {
        stage.has(rung, has);
    }
    let claim = ready(&stage, &plane, "gh-1", 4).await?;
    let launches = stage.fake.requests_of("RunInstances");
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
    let walked = stage.fake.requests_of("RunInstances").len();
    ensure!(
        waits.state == "pending" && waits.why.contains("the provider has nothing left that would do"),
        "{}",
        waits.why
    );
    let third = stage.provision(&plane, "gh-3", 1).await?;
    ensure!(third.state == "pending", "{third:?}");
    ensure!(stage.fake.requests_of("RunInstances").len() == walked, "the same ladder was walked again");
    // Then there is capacity again, and both are served.
    stage.fake.restore_capacity();
    stage.clock.turn(Duration::from_secs(200));
    for workflow in ["gh-2", "gh-3"] {
        ready(&stage, &plane, workflow, 1).await?;
    }
    ensure!(claim.runners.len() == 4);
    stage.comes_to_rest(&plane).await?;
    stage.must_add_up().await
}

#[tokio::test]
async fn fault_22_a_zone_without_addresses_and_a_quota_are_passed_over_as_a_whole() -> Result<()> {
    let mut rules = ec2_rules();
    rules.on_demand_fallback = true;
    let mut with_fallback = pool("small", Usage::Spot, 10, rules);
    with_fallback.rules.clean = Clean::Cleanup;
    let (stage, plane) = stage(with_fallback).await?;
    stage.fake.set_quota(Usage::Spot, 0);
    stage.fake.set_free_addresses("us-east-1a", 0);
    ready(&stage, &plane, "gh-1", 2).await?;
    for runner in stage.runners().await? {
        ensure!(runner.offer.usage == Usage::OnDemand, "{runner:?}");
        ensure!(runner.zone.as_deref() != Some("us-east-1a"), "{runner:?}");
    }
    let calls = stage.fake.requests_of("RunInstances").len();
    ensure!(calls <= 3, "a quota and a zone are one refusal each: {calls} calls");
    stage.must_add_up().await
}

#[tokio::test]
async fn fault_11_a_throttled_launch_waits_and_uses_up_nothing() -> Result<()> {
    let (stage, plane) = stage(cleaned(4)).await?;
    // Warm: what there is to have is known.
    ready(&stage, &plane, "gh-0", 1).await?;
    stage.fake.throttle_next(Some("RunInstances"), 12);
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

#[tokio::test]
async fn inv_16_a_launch_whose_answer_was_lost_is_found_again() -> Result<()> {
    for loss in [Loss::TimedOut, Loss::Cut, Loss::Garbled, Loss::ServerError] {
        let (stage, plane) = stage(cleaned(4)).await?;
        stage.fake.lose_answers("RunInstances", 1, loss);
        ready(&stage, &plane, "gh-1", 2).await?;
        stage.comes_to_rest(&plane).await?;
        stage.must_add_up().await.with_context(|| format!("{loss:?}"))?;
        ensure!(stage.fake.instances().len() == 2, "{loss:?}: more were made than asked for");
    }
    Ok(())
}

#[tokio::test]
async fn inv_16_what_is_of_nobody_ends_and_what_is_anothers_stays() -> Result<()> {
    let (stage, plane) = stage(cleaned(4)).await?;
    ready(&stage, &plane, "gh-1", 1).await?;
    let rung = stage.ladder().await?.into_iter().next().context("no rung")?;
    // Two launches that no record knows: one of this installation, one of another in the same account and of the same pool's name.
    let mut launched = Vec::new();
    for (installation, word) in [(stage.installation(), "lost"), ("ffffff".to_owned(), "foreign")] {
        let (launch, attempt) = (launch_id(word), attempt(1, rung.clone()));
        let machines =
            stage.fake.backend(&installation).await.launch(&order(&stage.pool, &launch, &attempt)).await?;
        launched.push(machines.into_iter().next().context("no machine")?.provider_id);
    }
    for _ in 0..3 {
        stage.refresh(&plane, SweepWish::Now).await?;
        stage.clock.turn(Duration::from_secs(60));
    }
    let state = |id: &str| {
        stage.fake.instances().into_iter().find(|(instance, _)| instance.id == id).map(|(_, state)| state)
    };
    let [lost, foreign] = <[String; 2]>::try_from(launched).map_err(|all| anyhow::anyhow!("{all:?}"))?;
    ensure!(state(&lost) == Some(State::Terminated), "{:?}", state(&lost));
    ensure!(state(&foreign) == Some(State::Running), "another installation's machine was ended");
    let own = only(&stage).await?.provider_id.context("no machine")?;
    ensure!(state(&own) == Some(State::Running), "its own was ended");
    Ok(())
}
