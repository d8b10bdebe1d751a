//! Checkpoints where the CI system hands out jobs by itself: it is paused before its machine is cleaned, asked about jobs that nobody ended, and
//! may be down. In memory, with a clock that the test turns.

mod crashes;
mod dead_letters;
mod direct;
mod interleaved;
mod on_sqs;
mod quarantine;
mod together;
mod unreadable;
mod vendors;
mod waits;
mod workshop;

use anyhow::{Context, Result, bail, ensure};
use motorpool_control::{Caller, RefusedKind, SweepWish};
use motorpool_domain::Threshold;
use motorpool_domain::checkpoint::{FinalizeSource, JobOutcome};
use motorpool_domain::ci::JobStatus;
use serde_json::json;
use workshop::{Workshop, in_ci};

#[tokio::test]
async fn inv_30_a_machine_is_cleaned_only_when_it_is_paused_and_its_job_was_seen_to_be_over() -> Result<()> {
    let shop = Workshop::open(json!({}), &["mac-1"]).await?;
    shop.ci.job("1", JobStatus::Running);
    let name = shop.create("mac-1", "1").await?.name;
    // The hook on the machine runs before the job is over, and knows only what it knows.
    shop.finalize("mac-1", &name, "success").await?;
    shop.works("mac-1").await?;
    ensure!(shop.ci.is_paused(&in_ci("mac-1")), "it is brought no more jobs");
    ensure!(shop.state("mac-1").await? == "releasing", "its job is not over");
    ensure!(shop.syncs("mac-1").await?.task.is_none(), "and nothing is done to it");
    // The job fails in the end: that counts, and not what the hook said.
    shop.ci.job("1", JobStatus::Failure);
    shop.turn(20);
    shop.refresh().await?;
    shop.works("mac-1").await?;
    ensure!(shop.state("mac-1").await? == "idle" && !shop.ci.is_paused(&in_ci("mac-1")));
    let ended = shop.checkpoint(&name).await?;
    ensure!(ended.state.as_str() == "reset", "{ended:?}");
    ensure!(ended.finalized.map(|it| it.status) == Some(JobOutcome::Failure), "{ended:?}");
    Ok(())
}

#[tokio::test]
async fn a_job_that_was_dispatched_in_the_moment_of_the_pause_is_not_reset_away() -> Result<()> {
    let shop = Workshop::open(json!({}), &["mac-1"]).await?;
    let name = shop.create("mac-1", "1").await?.name;
    shop.ci.busy(&in_ci("mac-1"), true);
    shop.finalize("mac-1", &name, "failure").await?;
    for _ in 0..40 {
        shop.works("mac-1").await?;
        ensure!(shop.state("mac-1").await? == "releasing", "another job is on it");
        shop.turn(20);
        shop.refresh().await?;
    }
    let refused = shop.create("mac-1", "2").await.err().context("one at a time")?;
    ensure!(refused.kind == RefusedKind::Conflict, "{refused:?}");
    shop.ci.busy(&in_ci("mac-1"), false);
    shop.turn(20);
    shop.refresh().await?;
    shop.works("mac-1").await?;
    ensure!(shop.state("mac-1").await? == "idle", "{:?}", shop.runner("mac-1").await?);
    Ok(())
}

#[tokio::test]
async fn fault_23_a_ci_system_that_is_down_for_ten_minutes_is_waited_for_and_nothing_is_lost() -> Result<()> {
    let shop = Workshop::open(json!({"releasing_minutes": 2}), &["mac-1"]).await?;
    let name = shop.create("mac-1", "1").await?.name;
    shop.ci.is_down(true);
    shop.finalize("mac-1", &name, "failure").await?;
    for _ in 0..20 {
        shop.works("mac-1").await?;
        ensure!(shop.state("mac-1").await? == "releasing", "{:?}", shop.runner("mac-1").await?);
        shop.turn(30);
        shop.refresh().await?;
    }
    shop.ci.is_down(false);
    shop.turn(30);
    shop.refresh().await?;
    let paused = shop.runner("mac-1").await?;
    let (Some(at), Some(Threshold(until))) = (paused.paused_at, paused.threshold) else {
        bail!("it is paused, and has a threshold: {paused:?}")
    };
    ensure!(at.until(until).as_secs() == 120, "its time begins when something can be done to it: {paused:?}");
    shop.works("mac-1").await?;
    ensure!(shop.state("mac-1").await? == "idle", "{:?}", shop.runner("mac-1").await?);
    ensure!(shop.checkpoint(&name).await?.state.as_str() == "reset");

    // It goes down again when the machine is clean: it is told as soon as it can be.
    shop.turn(6);
    let name = shop.create("mac-1", "2").await?.name;
    shop.finalize("mac-1", &name, "failure").await?;
    shop.control.attend_to_notices(std::time::Duration::ZERO).await?;
    shop.ci.is_down(true);
    shop.works("mac-1").await?;
    ensure!(shop.state("mac-1").await? == "idle" && shop.ci.is_paused(&in_ci("mac-1")));
    shop.ci.is_down(false);
    shop.turn(30);
    shop.refresh().await?;
    ensure!(!shop.ci.is_paused(&in_ci("mac-1")) && shop.runner("mac-1").await?.paused_at.is_none());
    Ok(())
}

#[tokio::test]
async fn the_poller_ends_what_no_hook_ended_and_not_before_its_time() -> Result<()> {
    let shop = Workshop::open(json!({}), &["mac-1"]).await?;
    let name = shop.create("mac-1", "1").await?.name;
    shop.ci.job("1", JobStatus::Success);
    shop.turn(119);
    shop.refresh().await?;
    ensure!(shop.state("mac-1").await? == "running", "a job that has just begun may not be listed yet");
    shop.turn(2);
    shop.refresh().await?;
    let queued = shop.checkpoint(&name).await?;
    ensure!(queued.finalized.map(|it| it.source) == Some(FinalizeSource::Poller), "{queued:?}");
    shop.works("mac-1").await?;
    ensure!(shop.checkpoint(&name).await?.state.as_str() == "deleted");
    Ok(())
}

#[tokio::test]
async fn a_checkpoint_that_nobody_ends_is_collected_at_its_time_though_its_job_may_run() -> Result<()> {
    let shop = Workshop::open(json!({}), &["mac-1"]).await?;
    let name = shop.create("mac-1", "1").await?.name;
    shop.ci.job("1", JobStatus::Running);
    shop.turn(1_790);
    shop.refresh().await?;
    ensure!(shop.state("mac-1").await? == "running");
    shop.turn(10);
    shop.refresh().await?;
    shop.works("mac-1").await?;
    let late = shop.finalize("mac-1", &name, "success").await?;
    ensure!(late.detail == "Already finalized", "{late:?}");
    let ended = shop.checkpoint(&name).await?;
    ensure!(ended.state.as_str() == "gc_reset" && ended.is_forgotten(), "{ended:?}");
    ensure!(shop.state("mac-1").await? == "idle" && shop.runner("mac-1").await?.epoch.0 == 3);
    Ok(())
}

#[tokio::test]
async fn a_machine_rests_five_seconds_between_two_jobs() -> Result<()> {
    let shop = Workshop::open(json!({}), &["mac-1"]).await?;
    let name = shop.create("mac-1", "1").await?.name;
    shop.finalize("mac-1", &name, "success").await?;
    shop.works("mac-1").await?;
    let refused = shop.create("mac-1", "2").await.err().context("it rests")?;
    ensure!(refused.kind == RefusedKind::TooManyRequests && refused.retry_after.is_some(), "{refused:?}");
    shop.turn(5);
    shop.create("mac-1", "2").await?;
    Ok(())
}

#[tokio::test]
async fn after_so_many_jobs_that_went_well_a_machine_is_reset_all_the_same() -> Result<()> {
    let shop = Workshop::open(json!({"reset_every_jobs": 3, "reset_every_hours": 2}), &["mac-1"]).await?;
    let mut proofs = Vec::new();
    for job in 1..=5 {
        // Before the last one the machine waits for longer than it may go without a reset.
        shop.turn(if job == 5 { 7_200 } else { 6 });
        let name = shop.create("mac-1", &job.to_string()).await?.name;
        shop.finalize("mac-1", &name, "success").await?;
        shop.works("mac-1").await?;
        let proof = shop.runner("mac-1").await?.proof.context("it is clean")?;
        proofs.push(proof.task.context("by a task")?.to_string());
    }
    ensure!(proofs == ["3-cleanup-1", "4-cleanup-1", "5-reset-1", "6-cleanup-1", "7-reset-1"], "{proofs:?}");
    Ok(())
}

#[tokio::test]
async fn an_old_machine_that_was_just_reset_is_only_cleaned_after_a_job_that_went_well() -> Result<()> {
    let shop = Workshop::open(json!({}), &["mac-1"]).await?;
    shop.turn(3 * 24 * 3_600);
    let mut proofs = Vec::new();
    for (job, status) in [("1", "failure"), ("2", "success")] {
        shop.turn(6);
        let name = shop.create("mac-1", job).await?.name;
        shop.finalize("mac-1", &name, status).await?;
        shop.works("mac-1").await?;
        let proof = shop.runner("mac-1").await?.proof.context("it is clean")?;
        proofs.push(proof.task.context("by a task")?.to_string());
    }
    ensure!(proofs == ["3-reset-1", "4-cleanup-1"], "{proofs:?}");
    Ok(())
}

#[tokio::test]
async fn a_machine_that_a_person_must_look_at_is_brought_no_jobs() -> Result<()> {
    let shop = Workshop::open(json!({"heartbeat_seconds": 10}), &["mac-1"]).await?;
    // The first pass begins to listen.
    shop.refresh().await?;
    for _ in 0..4 {
        shop.turn(20);
        shop.refresh().await?;
    }
    ensure!(shop.state("mac-1").await? == "quarantined", "{:?}", shop.runner("mac-1").await?);
    shop.control.attend_to_notices(std::time::Duration::ZERO).await?;
    ensure!(shop.ci.is_paused(&in_ci("mac-1")) && shop.runner("mac-1").await?.paused_at.is_some());
    Ok(())
}

#[tokio::test]
async fn what_was_told_a_ci_system_too_late_is_told_again_by_the_sweep() -> Result<()> {
    let shop = Workshop::open(json!({}), &["mac-1"]).await?;
    shop.ci.paused(&in_ci("mac-1"));
    shop.control.refresh(&Caller::Operator, SweepWish::Now).await?;
    ensure!(!shop.ci.is_paused(&in_ci("mac-1")), "it is idle, and was paused by a call that came late");
    Ok(())
}

#[tokio::test]
async fn an_idle_machine_is_neither_announced_nor_claimed_and_its_program_has_no_deadline() -> Result<()> {
    let shop = Workshop::open(json!({"idle_minutes": 1}), &["mac-1"]).await?;
    let answer = shop.syncs("mac-1").await?;
    ensure!(answer.threshold_in_ms.is_none() && answer.fence_in_ms.is_none(), "{answer:?}");
    for _ in 0..5 {
        shop.turn(45);
        shop.refresh().await?;
        ensure!(shop.runner("mac-1").await?.announced_at.is_none());
    }
    ensure!(shop.state("mac-1").await? == "idle");
    ensure!(shop.world.provision("gh-1", 1).await.is_err(), "no claim takes it");
    // A job that comes just then is not refused for the threshold of a machine that stays anyway.
    shop.turn(61);
    shop.create("mac-1", "1").await?;
    Ok(())
}
