//! What waits for a CI system: people are told of whatever waits too long, one machine that waits holds up no other, and a job that ran into the end of
//! another one shortens the wait.

use crate::workshop::{Workshop, in_ci};
use anyhow::{Context, Result, ensure};
use motorpool_control::store::{CheckpointWrite, CheckpointWritten, RunnerWrite, WithRunner, Written};
use motorpool_control::{Caller, Page, RefusedKind, WhichAlerts};
use motorpool_domain::checkpoint::{FinalizeSource, JobOutcome, forgotten};
use motorpool_domain::ci::JobStatus;
use motorpool_domain::runner::{Runner, RunnerState};
use motorpool_domain::{Actor, AuditEntry, CheckpointName};
use motorpool_tests::harness::world::pool;
use serde_json::json;
use std::time::Duration;

/// Each incident so far: what it is of, and whether it is open or over.
async fn incidents(shop: &Workshop) -> Result<Vec<String>> {
    let page = shop.control.list_alerts(&Caller::Operator, WhichAlerts::All, Page::first(100)).await?;
    let said = |alert: motorpool_wire::api::AlertView| {
        format!("{} {} {}", alert.incident, alert.subject.unwrap_or_default(), alert.state)
    };
    Ok(page.alerts.into_iter().map(said).collect())
}

/// Refresh comes in time, for so long.
async fn passes(shop: &Workshop, seconds: u64) -> Result<()> {
    for _ in 0..seconds / 30 {
        shop.turn(30);
        shop.refresh().await?;
    }
    Ok(())
}

fn stale(name: &CheckpointName, state: &str) -> String {
    format!("stale_checkpoint {name} {state}")
}

#[tokio::test]
async fn a_checkpoint_whose_machine_waits_for_its_ci_system_long_after_its_time_is_told_of() -> Result<()> {
    let shop = Workshop::open(json!({"releasing_minutes": 2}), &["mac-1"]).await?;
    shop.refresh().await?;
    let name = shop.create("mac-1", "1").await?.name;
    shop.finalize("mac-1", &name, "success").await?;
    shop.ci.is_down(true);
    passes(&shop, 1_890).await?;
    ensure!(incidents(&shop).await?.is_empty(), "it is not late yet: {:?}", incidents(&shop).await?);
    passes(&shop, 600).await?;
    ensure!(shop.state("mac-1").await? == "releasing", "nothing is done to it");
    ensure!(incidents(&shop).await? == [stale(&name, "open")], "{:?}", incidents(&shop).await?);

    shop.ci.is_down(false);
    passes(&shop, 30).await?;
    shop.works("mac-1").await?;
    ensure!(shop.state("mac-1").await? == "idle" && !shop.checkpoint(&name).await?.state.is_active());
    ensure!(incidents(&shop).await? == [stale(&name, "over")], "{:?}", incidents(&shop).await?);
    Ok(())
}

/// Cut off between the two writes: that its time is over is known, and nobody was told.
#[tokio::test]
async fn fault_03_a_forgotten_checkpoint_is_told_of_though_its_finder_was_cut_off() -> Result<()> {
    let shop = Workshop::open(json!({}), &["mac-1"]).await?;
    shop.refresh().await?;
    let name = shop.create("mac-1", "1").await?.name;
    passes(&shop, 1_770).await?;
    shop.turn(30);
    let (before, runner) = (shop.checkpoint(&name).await?, shop.runner("mac-1").await?);
    let rules = shop.world.store.pool(&pool()?).await?.context("its pool")?.pool.rules;
    let after = forgotten(&before, &runner, &rules, shop.world.now()).context("its time is over")?;
    let entry = AuditEntry::of(shop.world.now(), Actor::Refresh, "forgotten", "nobody said anything");
    let write = CheckpointWrite { before: &before, after: &after, entry: &entry };
    let written = shop.world.store.finalize_checkpoint(write, WithRunner::Whatever).await?;
    ensure!(written == CheckpointWritten::Done);
    ensure!(incidents(&shop).await?.is_empty());
    shop.refresh().await?;
    ensure!(incidents(&shop).await? == [stale(&name, "open")], "{:?}", incidents(&shop).await?);
    shop.works("mac-1").await?;
    ensure!(shop.checkpoint(&name).await?.state.as_str() == "gc_reset");
    ensure!(incidents(&shop).await? == [stale(&name, "over")], "{:?}", incidents(&shop).await?);
    Ok(())
}

#[tokio::test]
async fn machines_that_join_and_wait_for_their_ci_system_are_one_incident_of_their_pool() -> Result<()> {
    let mut shop = Workshop::open(json!({"heartbeat_seconds": 30}), &[]).await?;
    shop.refresh().await?;
    shop.ci.is_down(true);
    for machine in ["mac-1", "mac-2"] {
        shop.join(machine).await?;
    }
    for _ in 0..22 {
        both_work(&shop).await?;
        passes(&shop, 30).await?;
    }
    let awaited = |state: &str| format!("ci_system_awaited small {state}");
    ensure!(shop.state("mac-1").await? == "resetting", "nothing is done to it");
    ensure!(incidents(&shop).await? == [awaited("open")], "{:?}", incidents(&shop).await?);

    shop.ci.is_down(false);
    for _ in 0..12 {
        both_work(&shop).await?;
        passes(&shop, 30).await?;
    }
    ensure!(shop.state("mac-1").await? == "idle" && shop.state("mac-2").await? == "idle");
    ensure!(incidents(&shop).await? == [awaited("over")], "{:?}", incidents(&shop).await?);
    Ok(())
}

async fn both_work(shop: &Workshop) -> Result<()> {
    shop.works("mac-1").await?;
    shop.works("mac-2").await
}

/// With tokio's clock held, a time-out is over as soon as nobody gets any further.
#[tokio::test(start_paused = true)]
async fn a_machine_about_which_the_ci_system_says_nothing_holds_up_no_other() -> Result<()> {
    let shop = Workshop::open(json!({}), &["mac-1", "mac-2"]).await?;
    for machine in ["mac-1", "mac-2"] {
        let name = shop.create(machine, machine).await?.name;
        shop.finalize(machine, &name, "failure").await?;
    }
    shop.ci.hangs(&in_ci("mac-1"), true);
    let other = async {
        shop.ci.has_paused(&in_ci("mac-2")).await;
        let waits = !shop.ci.is_paused(&in_ci("mac-1"));
        shop.ci.hangs(&in_ci("mac-1"), false);
        waits
    };
    let both = async { tokio::join!(shop.control.attend_to_notices(Duration::ZERO), other) };
    let (attended, waits) =
        tokio::time::timeout(Duration::from_secs(60), both).await.context("mac-2 waits for mac-1")?;
    ensure!(attended? >= 2 && waits, "both were told of in one batch");
    ensure!(shop.ci.is_paused(&in_ci("mac-1")));
    Ok(())
}

#[tokio::test]
async fn a_job_that_finds_another_on_its_machine_has_the_ci_system_asked_at_once() -> Result<()> {
    let shop = Workshop::open(json!({}), &["mac-1"]).await?;
    let name = shop.create("mac-1", "1").await?.name;
    shop.ci.job("1", JobStatus::Success);
    shop.turn(20);
    let refused = shop.create("mac-1", "2").await.err().context("the first is not known to be over")?;
    ensure!(refused.kind == RefusedKind::Conflict, "{refused:?}");
    shop.works("mac-1").await?;
    let ended = shop.checkpoint(&name).await?;
    ensure!(ended.state.as_str() == "deleted", "{ended:?}");
    ensure!(ended.finalized.map(|it| it.source) == Some(FinalizeSource::Poller), "{ended:?}");
    shop.turn(6);
    shop.create("mac-1", "3").await?;
    Ok(())
}

/// Else a job could have the CI system asked as often as it likes.
#[tokio::test]
async fn however_many_jobs_are_refused_the_ci_system_is_asked_no_more_often_than_it_is_polled() -> Result<()>
{
    let shop = Workshop::open(json!({}), &["mac-1"]).await?;
    let name = shop.create("mac-1", "1").await?.name;
    shop.ci.job("1", JobStatus::Running);
    let others = async |seconds: u64| {
        for second in 0..seconds {
            let refused = shop.create("mac-1", &format!("other-{second}")).await;
            ensure!(refused.is_err_and(|refused| refused.kind == RefusedKind::Conflict));
            shop.control.attend_to_notices(Duration::ZERO).await?;
            shop.turn(1);
        }
        anyhow::Ok(())
    };
    others(20).await?;
    ensure!(shop.ci.asked_about_jobs() == 1, "{}", shop.ci.asked_about_jobs());
    // From then on it is polled, as if the time for that had come.
    for polls in 2..4 {
        shop.refresh().await?;
        ensure!(shop.ci.asked_about_jobs() == polls, "{} and not {polls}", shop.ci.asked_about_jobs());
        others(20).await?;
    }
    ensure!(shop.state("mac-1").await? == "running" && shop.checkpoint(&name).await?.finalized.is_none());
    Ok(())
}

#[tokio::test]
async fn that_a_machine_was_taken_from_its_job_is_said_by_nobody_and_nobody_is_told_of_it() -> Result<()> {
    let shop = Workshop::open(json!({}), &["mac-1"]).await?;
    let name = shop.create("mac-1", "1").await?.name;
    let before = shop.runner("mac-1").await?;
    let state = RunnerState::Quarantined { why: "its token was copied".to_owned() };
    let after = Runner { state, threshold: None, rev: before.rev + 1, ..before.clone() };
    let entry = AuditEntry::of(shop.world.now(), Actor::Control, "transition", "its token was copied");
    let write = RunnerWrite { before: &before, after: &after, look_at: None, entry: &entry };
    ensure!(shop.world.store.write_runner(write).await? == Written::Done);
    shop.control.attend_to(&before.id).await?;
    let left = shop.checkpoint(&name).await?;
    let finalized = left.finalized.context("its job had no end")?;
    ensure!((finalized.status, finalized.source) == (JobOutcome::Canceled, FinalizeSource::Gc), "{left:?}");
    ensure!(left.state.as_str() == "finalize_queued" && !left.is_forgotten(), "{left:?}");
    // Of the machine they are told, and not of its job.
    ensure!(incidents(&shop).await? == ["runner_quarantined mac-1 open"], "{:?}", incidents(&shop).await?);
    Ok(())
}
