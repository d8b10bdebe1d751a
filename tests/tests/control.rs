//! The use cases over the in-memory ledger with a turned clock: what a crash, a refusal or a lost message leaves behind, heals.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use motorpool_control::Caller;
use motorpool_control::ports::queue::QueueName;
use motorpool_control::store::{ClaimWrite, Page, Written};
use motorpool_domain::runner::{RunnerState, StateName};
use motorpool_domain::{Owner, RunnerId, samples};
use motorpool_tests::fakes::machines::Mood;
use motorpool_tests::harness::world::{World, first_member, members, pool};
use motorpool_wire::api::ProvisionRequest;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_refused_launch_gives_its_slot_back_and_the_claim_says_why_and_tries_again_later() -> Result<()> {
    let world = World::new(json!({})).await?;
    world.machines.mood(Mood::Refuses("no capacity anywhere".to_owned()));
    let claim = world.provision("gh-1", 2).await?;
    let claim = world.claim(&claim).await?;
    ensure!(claim.why.contains("no capacity anywhere"), "{}", claim.why);
    ensure!(world.used().await? == 0, "slots are back");
    let asked = world.machines.launches();
    world.claim(&claim).await?;
    ensure!(world.machines.launches() == asked, "the provider is left alone for a while");
    world.machines.mood(Mood::Willing);
    world.clock.turn(Duration::from_secs(20));
    world.refresh().await?;
    world.agents_work().await?;
    ensure!(world.claim(&claim).await?.state == "ready");
    Ok(())
}

#[tokio::test]
async fn inv_15_a_launch_whose_answer_was_lost_is_asked_for_again_and_makes_one_machine() -> Result<()> {
    let world = World::new(json!({})).await?;
    world.machines.mood(Mood::Mute);
    let claim = world.provision("gh-1", 1).await?;
    let runner = world.runner(&first_member(&claim)?).await?;
    ensure!(matches!(runner.state, RunnerState::Created { launched_at: None, .. }));
    world.machines.mood(Mood::Willing);
    world.clock.turn(Duration::from_secs(16));
    world.refresh().await?;
    ensure!(world.machines.there() == [runner.id.clone()], "one machine");
    let runner = world.runner(&runner.id).await?;
    ensure!(matches!(runner.state, RunnerState::Created { launched_at: Some(_), .. }), "{runner:?}");
    Ok(())
}

#[tokio::test]
async fn fault_03_a_crash_between_a_claims_end_and_letting_go_is_healed_by_refresh() -> Result<()> {
    let world = World::new(json!({})).await?;
    let claim = world.ready("gh-1", 2).await?;
    let record = world.store.claim(&claim.claim).await?.context("the claim")?;
    let now = motorpool_control::ports::clock::Clock::now(world.clock.as_ref());
    let ended = record.released("released, and then the power went", now);
    let entry = samples::entry(now, "released");
    let write = ClaimWrite { before: &record, after: &ended, entry: &entry };
    ensure!(world.store.write_claim(write).await? == Written::Done);
    for id in members(&claim) {
        ensure!(world.runner(&id).await?.state.name() == StateName::Running);
    }
    world.refresh().await?;
    world.agents_work().await?;
    for id in members(&claim) {
        let runner = world.runner(&id).await?;
        ensure!(
            runner.state == RunnerState::Idle && runner.epoch.0 == 2 && runner.proof.is_some(),
            "{runner:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn inv_10_an_idle_runner_whose_message_was_lost_is_announced_again_by_the_sweep() -> Result<()> {
    let world = World::new(json!({"idle_minutes": 60})).await?;
    let first = world.ready("gh-1", 1).await?;
    world.release("gh-1").await?;
    world.agents_work().await?;
    let queue = QueueName::Idle(pool()?);
    let lost = world.queue.receive(&queue, 10, Duration::ZERO, Duration::from_secs(3600)).await?;
    ensure!(lost.len() == 1);
    world.queue.delete(&queue, &lost.first().context("the message")?.receipt).await?;
    ensure!(world.sweep().await?.announced == 0, "it was announced a moment ago");
    world.clock.turn(Duration::from_secs(301));
    world.agents_work().await?;
    ensure!(world.sweep().await?.announced == 1);
    let second = world.provision("gh-2", 1).await?;
    ensure!(members(&second) == members(&first) && second.runners.iter().all(|member| member.warm));
    Ok(())
}

#[tokio::test]
async fn inv_08_messages_twice_wrong_and_old_are_only_hints() -> Result<()> {
    let world = World::new(json!({})).await?;
    let first = world.ready("gh-1", 1).await?;
    world.release("gh-1").await?;
    world.agents_work().await?;
    let queue = QueueName::Idle(pool()?);
    let message = world.queue.receive(&queue, 10, Duration::ZERO, Duration::ZERO).await?;
    let body = message.first().context("the message")?.body.clone();
    for copy in [
        body.clone(),
        body.clone(),
        "no notice at all".to_owned(),
        body.replace("\"epoch\":2", "\"epoch\":1"),
    ] {
        world.queue.send(&queue, copy).await?;
    }
    let second = world.provision("gh-2", 2).await?;
    let warm: Vec<&RunnerId> = second.runners.iter().filter(|m| m.warm).map(|m| &m.runner).collect();
    ensure!(warm == [&first_member(&first)?], "one of the two is the idle one, once: {second:?}");
    ensure!(world.used().await? == 2);
    ensure!(
        world.queue.receive(&queue, 10, Duration::ZERO, Duration::ZERO).await?.is_empty(),
        "no message is left"
    );
    Ok(())
}

#[tokio::test]
async fn a_silent_idle_runner_is_passed_over_by_a_claim_and_reaped_by_refresh() -> Result<()> {
    let world = World::new(json!({"idle_minutes": 60})).await?;
    let first = world.ready("gh-1", 1).await?;
    world.release("gh-1").await?;
    world.agents_work().await?;
    world.refresh().await?;
    world.clock.turn(Duration::from_secs(61));
    let second = world.provision("gh-2", 1).await?;
    ensure!(members(&second) != members(&first), "it was not given out");
    ensure!(
        world.runner(&first_member(&first)?).await?.state == RunnerState::Idle,
        "and reads alone do not kill"
    );
    ensure!(world.refresh().await?.reaped == 1);
    ensure!(world.runner(&first_member(&first)?).await?.state.name() == StateName::Terminated);
    Ok(())
}

#[tokio::test]
async fn a_ready_claim_that_loses_a_runner_stays_ready_is_short_and_is_refilled_within_its_time() -> Result<()>
{
    let world = World::new(json!({})).await?;
    let claim = world.ready("gh-1", 2).await?;
    let until = world.store.claim(&claim.claim).await?.context("the claim")?.threshold;
    let dead = first_member(&claim)?;
    world.clock.turn(Duration::from_secs(61));
    world.refresh().await?;
    for id in members(&claim).into_iter().filter(|id| *id != dead) {
        world.agent_syncs(&id).await?;
    }
    world.machines.die(&dead);
    world.clock.turn(Duration::from_secs(61));
    world.refresh().await?;
    ensure!(world.runner(&dead).await?.state.name() == StateName::Terminated);
    let now = world.claim(&claim).await?;
    ensure!(now.state == "ready" && !members(&now).contains(&dead) && now.runners.len() == 2, "{now:?}");
    world.agents_work().await?;
    let record = world.store.claim(&claim.claim).await?.context("the claim")?;
    ensure!(record.threshold == until, "its time is not extended");
    for id in members(&now) {
        ensure!(world.runner(&id).await?.threshold == until, "and its runners have the same");
    }
    ensure!(world.used().await? == 2);
    Ok(())
}

#[tokio::test]
async fn inv_16_a_machine_without_a_record_and_a_record_without_a_machine_end_with_the_sweep() -> Result<()> {
    let world = World::new(json!({})).await?;
    let claim = world.ready("gh-1", 1).await?;
    let stray = RunnerId::parse("r-stray")?;
    world.machines.stray(stray.clone());
    world.machines.die(&first_member(&claim)?);
    world.sweep().await?;
    ensure!(!world.machines.there().contains(&stray));
    ensure!(world.runner(&first_member(&claim)?).await?.state.name() == StateName::Terminated);
    let now = world.claim(&claim).await?;
    ensure!(now.runners.len() == 1 && members(&now) != members(&claim), "refilled: {now:?}");
    Ok(())
}

#[tokio::test]
async fn fault_20_most_heartbeats_missing_at_once_reaps_nobody_and_says_so() -> Result<()> {
    let world = World::new(json!({"min_idle": 6, "idle_minutes": 60})).await?;
    world.refresh().await?;
    world.agents_work().await?;
    world.clock.turn(Duration::from_secs(100));
    let report = world.refresh().await?;
    ensure!(!report.braked && report.reaped == 0, "nobody listened meanwhile: {report:?}");
    let mut braked = false;
    for _ in 0..4 {
        world.clock.turn(Duration::from_secs(30));
        let report = world.refresh().await?;
        ensure!(report.reaped == 0, "{report:?}");
        braked |= report.braked;
    }
    ensure!(braked, "the brake held, and was told");
    let listed = world.store.list_runners(&pool()?, Some(StateName::Idle), Page::first(10)).await?;
    ensure!(listed.items.len() == 6, "all are still there");
    Ok(())
}

#[tokio::test]
async fn a_claim_that_waits_too_long_fails_says_why_and_gives_back_what_it_had() -> Result<()> {
    let world = World::new(json!({"max": 1, "wait_minutes": 5})).await?;
    let held = world.ready("gh-1", 1).await?;
    let waiting = world.provision("gh-2", 1).await?;
    ensure!(waiting.why.contains("maximum"), "{}", waiting.why);
    world.clock.turn(Duration::from_secs(301));
    world.agents_work().await?;
    world.refresh().await?;
    let failed = world.claim(&waiting).await?;
    ensure!(failed.state == "failed" && failed.why.contains("maximum"), "{failed:?}");
    ensure!(world.claim(&held).await?.state == "ready");
    let again = world.provision("gh-2", 1).await?;
    ensure!(again.claim != waiting.claim, "an ended claim's key starts a new one");
    Ok(())
}

#[tokio::test]
async fn keep_is_proven_at_once_and_replace_never_comes_back() -> Result<()> {
    let world = World::new(json!({"clean": "keep"})).await?;
    let claim = world.ready("gh-1", 1).await?;
    world.release("gh-1").await?;
    world.agents_work().await?;
    let runner = world.runner(&first_member(&claim)?).await?;
    ensure!(runner.state == RunnerState::Idle && runner.epoch.0 == 2, "{runner:?}");

    let world = World::new(json!({"clean": "replace"})).await?;
    let claim = world.ready("gh-1", 1).await?;
    world.release("gh-1").await?;
    world.agents_work().await?;
    ensure!(world.runner(&first_member(&claim)?).await?.state.name() == StateName::Terminated);
    ensure!(world.used().await? == 0);
    Ok(())
}

#[tokio::test]
async fn refuse_09_a_teams_pages_name_no_other_teams_claims() -> Result<()> {
    let world = World::new(json!({"max": 1})).await?;
    let (one, other) = (Caller::Team(Owner::parse("one")?), Caller::Team(Owner::parse("other")?));
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for number in 0..9 {
        let request: ProvisionRequest =
            serde_json::from_value(json!({"workflow": format!("gh-{number}"), "pool": "small"}))?;
        let mine = number % 3 == 1;
        let claim = world.control.provision(if mine { &one } else { &other }, request).await?.claim;
        if mine {
            own.push(claim)
        } else {
            others.push(claim)
        }
        world.clock.turn(Duration::from_secs(1));
    }
    let mut listed = Vec::new();
    let mut page = Page::first(2);
    loop {
        let shown = world.control.list_claims(&one, &pool()?, page).await?;
        listed.extend(shown.claims.iter().map(|claim| claim.claim.clone()));
        let Some(next) = shown.next else { break };
        let told = String::from_utf8(URL_SAFE_NO_PAD.decode(&next)?)?;
        ensure!(!others.iter().any(|claim| told.contains(claim.as_str())), "{told}");
        page = Page { at_most: 2, after: Some(next) };
    }
    ensure!(listed == own, "{listed:?} are listed, {own:?} are there");
    Ok(())
}
