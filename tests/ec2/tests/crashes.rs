//! Fault 3: a control plane is cut off before, between and after each write and each EC2 call of provision, release and refresh, at every
//! one of them in turn. Whoever comes after it heals by refresh alone.

use anyhow::{Context, Result, ensure};
use motorpool_control::{Control, SweepWish};
use motorpool_domain::pool::Clean;
use motorpool_domain::spec::Usage;
use motorpool_ec2_tests::samples::{ec2_rules, pool};
use motorpool_ec2_tests::stage::Stage;
use motorpool_ec2_tests::{Loss, State};
use std::collections::BTreeSet;
use std::time::Duration;

/// One step of a story. A step that is cut off is done again by the next plane: callers repeat, and so do schedules.
#[derive(Debug, Clone, Copy)]
enum Step {
    Provision(&'static str, u32),
    Release(&'static str),
    /// Half a minute, with agents at work and a pass of refresh.
    Tick,
    Sweep,
    /// The first machine that runs dies.
    OneDies,
    /// Nothing is claimed for so long.
    Idle(Duration),
    /// The answer to the next launch is lost.
    LoseAnswer,
}

use Step::{Idle, LoseAnswer, OneDies, Provision, Release, Sweep, Tick};

/// The first rung has two, the second has none; then there is more.
async fn scarce(stage: &Stage) -> Result<()> {
    let ladder = stage.ladder().await?;
    for (rung, has) in ladder.iter().zip([2, 0]) {
        stage.has(rung, has);
    }
    Ok(())
}

async fn take(stage: &Stage, plane: &Control, step: Step) -> Result<()> {
    match step {
        Provision(workflow, count) => {
            stage.provision(plane, workflow, count).await?;
        }
        Release(workflow) => {
            stage.release(plane, workflow).await?;
        }
        Tick => stage.tick(plane).await?,
        Sweep => {
            stage.refresh(plane, SweepWish::Now).await?;
        }
        OneDies => {
            let running = stage.ec2.instances().into_iter().find(|(_, state)| *state == State::Running);
            if let Some((instance, _)) = running {
                stage.ec2.die(&instance.id);
            }
        }
        Idle(span) => {
            stage.clock.turn(span);
            stage.refresh(plane, SweepWish::IfDue).await?;
        }
        LoseAnswer => stage.ec2.lose_answers("RunInstances", 1, Loss::TimedOut),
    }
    Ok(())
}

/// The story with a cut at this point, if it is ever reached; what was passed, and where it was cut.
async fn told(clean: Clean, story: &[Step], cut_at: Option<usize>) -> Result<Vec<String>> {
    let mut small = pool("small", Usage::Spot, 4, ec2_rules());
    small.rules.clean = clean;
    let stage = Stage::new(small).await?;
    scarce(&stage).await?;
    stage.cuts.cut_at(cut_at);
    let mut plane = stage.plane().await;
    for step in story {
        if stage.cuts.run(take(&stage, &plane, *step)).await.transpose()?.is_none() {
            plane = stage.plane().await;
            take(&stage, &plane, *step).await?;
        }
    }
    // What comes after the story is left to come to rest in peace.
    let passed = stage.cuts.passed();
    stage.cuts.cut_at(None);
    stage.comes_to_rest(&plane).await?;
    stage.must_add_up().await?;
    Ok(passed)
}

async fn at_every_point(clean: Clean, story: &[Step]) -> Result<()> {
    let whole = told(clean, story, None).await.context("without a cut")?;
    let kinds: BTreeSet<&String> = whole.iter().collect();
    println!("{} points: {kinds:?}", whole.len());
    for needed in [
        "RunInstances",
        "TerminateInstances",
        "write_launch_intents",
        "write_runner",
        "write_runners",
        "write_claim",
        "note_shortage",
    ] {
        for side in ["before", "after"] {
            ensure!(kinds.contains(&format!("{side} {needed}")), "the story never passes {side} {needed}");
        }
    }
    for point in 0..whole.len() {
        let what = whole.get(point).cloned().unwrap_or_default();
        told(clean, story, Some(point)).await.with_context(|| format!("cut off at {point}, {what}"))?;
    }
    Ok(())
}

/// Cold, in parts over two rungs; ready; released and replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_14_15_16_17_fault_03_cut_off_anywhere_while_machines_are_replaced() -> Result<()> {
    let story = [
        Provision("gh-1", 3),
        Tick,
        Tick,
        Release("gh-1"),
        Tick,
        Tick,
        Tick,
        Provision("gh-2", 2),
        Tick,
        Tick,
    ];
    at_every_point(Clean::Replace, &story).await
}

/// Cold, released and cleaned, warm, and then too long idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_14_15_16_17_fault_03_cut_off_anywhere_while_machines_are_used_again() -> Result<()> {
    let story = [
        Provision("gh-1", 3),
        Tick,
        Tick,
        Release("gh-1"),
        Tick,
        Provision("gh-2", 1),
        Tick,
        Release("gh-2"),
        Tick,
        Idle(Duration::from_secs(600)),
        Tick,
        Tick,
    ];
    at_every_point(Clean::Cleanup, &story).await
}

/// A launch whose answer is lost, a machine that dies under its job, and sweeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_14_15_16_17_fault_03_cut_off_anywhere_while_answers_are_lost_and_machines_die() -> Result<()> {
    let story = [
        LoseAnswer,
        Provision("gh-1", 3),
        Tick,
        Tick,
        OneDies,
        Sweep,
        Tick,
        Tick,
        Release("gh-1"),
        Tick,
        Tick,
        Tick,
    ];
    at_every_point(Clean::Replace, &story).await
}
