//! Machines with a fixed token, which no agent speaks for: jobs come and go by the calls of their hooks alone, silence says nothing, and their CI system
//! is waited for as for any other.

use super::workshop::{Workshop, in_ci};
use anyhow::{Context, Result, ensure};
use motorpool_control::{Caller, RefusedKind, SweepWish};
use motorpool_domain::ci::JobStatus;
use motorpool_domain::record::Key;
use motorpool_domain::{CheckpointName, RunnerId};
use motorpool_tests::harness::world::POOL;
use serde_json::{Value, json};
use std::time::Duration;

const MACHINE: &str = "mac-1";

/// A pool whose machines nobody need touch, with one of them and its token.
async fn keeping(more: Value) -> Result<(Workshop, String)> {
    let mut settings = json!({"clean": "keep", "heartbeat_seconds": 15});
    if let (Value::Object(settings), Value::Object(more)) = (&mut settings, more) {
        settings.extend(more);
    }
    let shop = Workshop::open(settings, &[]).await?;
    let token = register(&shop).await?;
    Ok((shop, token))
}

async fn register(shop: &Workshop) -> Result<String> {
    let request =
        json!({"runner_id": MACHINE, "pool": POOL, "ci_runner": in_ci(MACHINE), "credential": "token"});
    let registered =
        shop.control.register_runner(&Caller::Operator, serde_json::from_value(request)?).await?;
    registered.token.context("a token")
}

async fn create(shop: &Workshop, token: &str, job: &str) -> Result<CheckpointName> {
    let request = serde_json::from_value(json!({"job_id": job}))?;
    Ok(shop.control.create_checkpoint(token, request).await?.name)
}

async fn finalize(shop: &Workshop, token: &str, name: &CheckpointName) -> Result<()> {
    let request = serde_json::from_value(json!({"checkpoint_name": name, "status": "success"}))?;
    shop.control.finalize_checkpoint(token, &request).await?;
    Ok(())
}

/// Whoever attends to runners, until there is nothing to do.
async fn attended(shop: &Workshop) -> Result<()> {
    while shop.control.attend_to_notices(Duration::ZERO).await? > 0 {}
    Ok(())
}

#[tokio::test]
async fn its_ci_system_is_paused_before_it_is_given_back_and_after_that_brings_it_jobs() -> Result<()> {
    let (shop, token) = keeping(json!({})).await?;
    attended(&shop).await?;
    ensure!(shop.state(MACHINE).await? == "idle" && !shop.ci.is_paused(&in_ci(MACHINE)));
    shop.ci.job("1", JobStatus::Running);
    let name = create(&shop, &token, "1").await?;
    finalize(&shop, &token, &name).await?;
    for _ in 0..3 {
        attended(&shop).await?;
        ensure!(shop.control.readiness(&token).await?.state == "releasing", "its job is not over");
        ensure!(shop.ci.is_paused(&in_ci(MACHINE)));
        shop.turn(20);
        shop.refresh().await?;
    }
    shop.ci.job("1", JobStatus::Success);
    shop.turn(20);
    shop.refresh().await?;
    attended(&shop).await?;
    ensure!(shop.state(MACHINE).await? == "idle", "{:?}", shop.runner(MACHINE).await?);
    ensure!(!shop.ci.is_paused(&in_ci(MACHINE)));
    ensure!(shop.checkpoint(&name).await?.state.as_str() == "deleted");
    shop.turn(20);
    create(&shop, &token, "2").await?;
    Ok(())
}

/// The end of its job comes by a webhook or by nobody; no call of its own follows, and it is idle all the same.
#[tokio::test]
async fn fault_28_a_runner_that_makes_no_further_call_is_idle_when_its_job_is_known_to_be_over() -> Result<()>
{
    let (shop, token) = keeping(json!({})).await?;
    attended(&shop).await?;
    shop.ci.job("1", JobStatus::Running);
    let name = create(&shop, &token, "1").await?;
    shop.ci.job("1", JobStatus::Failure);
    for _ in 0..12 {
        shop.turn(30);
        shop.refresh().await?;
        attended(&shop).await?;
    }
    ensure!(shop.state(MACHINE).await? == "idle", "{:?}", shop.runner(MACHINE).await?);
    ensure!(shop.checkpoint(&name).await?.state.as_str() == "reset");
    Ok(())
}

#[tokio::test]
async fn it_is_idle_for_days_without_a_word_and_holds_up_no_brake() -> Result<()> {
    let (shop, token) = keeping(json!({})).await?;
    shop.control.readiness(&token).await?;
    for _ in 0..48 {
        shop.turn(3_600);
        let report = shop.control.refresh(&Caller::Operator, SweepWish::Now).await?;
        attended(&shop).await?;
        ensure!(shop.state(MACHINE).await? == "idle" && !report.braked, "{:?}", shop.runner(MACHINE).await?);
    }
    create(&shop, &token, "1").await?;
    Ok(())
}

/// Where something must be run on its machine and nobody comes to do it, it does not wait forever.
#[tokio::test]
async fn a_machine_that_waits_for_hands_in_vain_is_given_up() -> Result<()> {
    let (shop, token) = keeping(json!({"clean": "reset"})).await?;
    attended(&shop).await?;
    ensure!(shop.control.readiness(&token).await?.state == "created");
    shop.turn(3_600);
    shop.refresh().await?;
    ensure!(shop.state(MACHINE).await? == "terminated", "{:?}", shop.runner(MACHINE).await?);
    let refused = shop.control.readiness(&token).await.err().context("its token is void")?;
    ensure!(refused.kind == RefusedKind::Unauthorized, "{refused:?}");
    ensure!(register(&shop).await? != token, "it may come back");
    Ok(())
}

/// Its CI system was told under the old name: before anything else is done, it is told under the new one.
#[tokio::test]
async fn a_machine_that_is_renamed_while_it_is_paused_is_paused_again() -> Result<()> {
    let (shop, token) = keeping(json!({})).await?;
    attended(&shop).await?;
    shop.ci.job("1", JobStatus::Running);
    let name = create(&shop, &token, "1").await?;
    let id = RunnerId::parse(MACHINE)?;
    let renamed = serde_json::from_value(json!({"ci_runner": "ci-other"}))?;
    let refused = shop.control.update_runner(&Caller::Operator, &id, &renamed).await.err();
    let refused = refused.context("its job's end would be told under the old name")?;
    ensure!(refused.kind == RefusedKind::Conflict, "{refused:?}");
    finalize(&shop, &token, &name).await?;
    attended(&shop).await?;
    ensure!(shop.ci.is_paused(&in_ci(MACHINE)) && shop.state(MACHINE).await? == "releasing");
    shop.control.update_runner(&Caller::Operator, &id, &renamed).await?;
    ensure!(shop.runner(MACHINE).await?.paused_at.is_none());
    attended(&shop).await?;
    ensure!(shop.ci.is_paused("ci-other"), "under its new name");
    shop.ci.job("1", JobStatus::Success);
    shop.turn(20);
    shop.refresh().await?;
    attended(&shop).await?;
    ensure!(shop.state(MACHINE).await? == "idle" && !shop.ci.is_paused("ci-other"));
    let log = shop.world.store.audit(&Key::from(&id), motorpool_control::Page::first(200)).await?;
    ensure!(log.items.iter().any(|entry| entry.what == "changed" && entry.why.contains("ci_runner")));
    Ok(())
}
