//! Fault 3: a control plane is cut off before, between and after each write and each EC2 call of provision, release and refresh, at every
//! one of them in turn. Whoever comes after it heals by refresh alone, and every claim comes to its end.

use anyhow::{Context, Result, ensure};
use motorpool_control::{Caller, Control, SweepWish};
use motorpool_domain::pool::Clean;
use motorpool_domain::runner::StateName;
use motorpool_domain::spec::Usage;
use motorpool_domain::{ClaimId, Workflow};
use motorpool_ec2_tests::samples::{ec2_rules, pool};
use motorpool_ec2_tests::stage::Stage;
use motorpool_ec2_tests::{Lagged, Loss, State};
use motorpool_wire::api::ClaimView;
use std::collections::{BTreeMap, BTreeSet};
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

/// What a caller hears of its claim, if the step is a caller's.
async fn take(stage: &Stage, plane: &Control, step: Step) -> Result<Option<ClaimView>> {
    match step {
        Provision(workflow, count) => return Ok(Some(stage.provision(plane, workflow, count).await?)),
        Release(workflow) => return Ok(Some(stage.release(plane, workflow).await?)),
        Tick => stage.tick(plane).await?,
        Sweep => {
            stage.refresh(plane, SweepWish::Now).await?;
        }
        OneDies => {
            let running = stage.ec2.instances().into_iter().find(|(_, state)| *state == State::Running);
            let (instance, _) = running.context("no machine runs that could die")?;
            stage.ec2.die(&instance.id);
        }
        Idle(span) => {
            stage.clock.turn(span);
            stage.refresh(plane, SweepWish::IfDue).await?;
        }
        LoseAnswer => stage.ec2.lose_answers("RunInstances", 1, Loss::TimedOut),
    }
    Ok(None)
}

/// What must have become of a workflow's claim, once everything has come to rest.
#[derive(Debug, Clone, Copy)]
enum End {
    /// With so many runners.
    Ready(u32),
    Released,
}

fn ends(story: &[Step]) -> BTreeMap<&'static str, End> {
    let mut ends = BTreeMap::new();
    for step in story {
        match step {
            Provision(workflow, count) => drop(ends.insert(*workflow, End::Ready(*count))),
            Release(workflow) => drop(ends.insert(*workflow, End::Released)),
            Tick | Sweep | OneDies | Idle(_) | LoseAnswer => {}
        }
    }
    ends
}

/// Each claim that a caller was told of has come to its end, and there is no other.
async fn claims_ended(
    stage: &Stage,
    plane: &Control,
    story: &[Step],
    accepted: &BTreeMap<Workflow, ClaimId>,
) -> Result<()> {
    let claims = stage.claims(plane).await?;
    let runners = stage.runners().await?;
    let known: BTreeMap<Workflow, ClaimId> =
        claims.iter().map(|claim| (claim.workflow.clone(), claim.claim.clone())).collect();
    ensure!(known == *accepted && claims.len() == known.len(), "{claims:?}, and told of {accepted:?}");
    for (workflow, end) in ends(story) {
        let claim = claims.iter().find(|claim| claim.workflow.as_str() == workflow);
        let claim = claim.with_context(|| format!("{workflow} has no claim"))?;
        let held = runners.iter().filter(|runner| runner.held_by(&claim.claim));
        let (state, count) = match end {
            End::Ready(count) => ("ready", count),
            End::Released => ("released", 0),
        };
        ensure!(claim.state == state && claim.short == 0, "{workflow} should be {state}: {claim:?}");
        let running = held.clone().filter(|runner| runner.state.name() == StateName::Running).count();
        let count = usize::try_from(count)?;
        ensure!(
            running == count && held.count() == count,
            "{workflow} should have {count} runners: {claim:?}, {runners:?}"
        );
    }
    Ok(())
}

/// How listings are: true, or behind by up to [`BEHIND`], by a seed.
#[derive(Debug, Clone, Copy)]
enum Listings {
    True,
    Lag { seed: u64 },
}

/// Longer than it takes to boot, to shut down, or until refresh comes again; and not so long that what is not shown counts as gone.
const BEHIND: Duration = Duration::from_secs(90);
/// How many seeds each story is told with.
const LAGS: u64 = 2;

struct Told {
    /// Every point that was passed.
    passed: Vec<String>,
    lagged: Lagged,
}

/// The story with a cut at this point, which must be reached.
async fn told(clean: Clean, story: &[Step], listings: Listings, cut_at: Option<usize>) -> Result<Told> {
    let mut small = pool("small", Usage::Spot, 4, ec2_rules());
    small.rules.clean = clean;
    let stage = match listings {
        Listings::True => Stage::new(small).await?,
        Listings::Lag { seed } => Stage::lagging(small, seed, BEHIND).await?,
    };
    scarce(&stage).await?;
    stage.cuts.cut_at(cut_at);
    let mut plane = stage.plane().await;
    let (mut cuts, mut accepted) = (0, BTreeMap::new());
    for step in story {
        let heard = match stage.cuts.run(take(&stage, &plane, *step)).await {
            Some(heard) => heard?,
            None => {
                cuts += 1;
                plane = stage.plane().await;
                take(&stage, &plane, *step).await?
            }
        };
        if let Some(ClaimView { workflow, claim, .. }) = heard {
            let before = accepted.insert(workflow, claim.clone());
            ensure!(before.is_none_or(|before| before == claim), "{step:?} was answered with another claim");
        }
    }
    let passed = stage.cuts.passed();
    ensure!(cuts == usize::from(cut_at.is_some()), "{cuts} cuts in {} points", passed.len());
    let to_lose = story.iter().filter(|step| matches!(step, LoseAnswer)).count();
    let lost = stage.ec2.requests().iter().filter(|request| request.outcome == "lost").count();
    ensure!(lost == to_lose, "{lost} of {to_lose} answers were lost");
    // What comes after the story is left to come to rest in peace.
    stage.cuts.cut_at(None);
    stage.comes_to_rest(&plane).await?;
    stage.must_add_up().await?;
    claims_ended(&stage, &plane, story, &accepted).await?;
    if cut_at.is_none() {
        for claim in accepted.values() {
            let why = plane.why(&Caller::Operator, claim).await?;
            let served = why.history.iter().any(|entry| entry.what == "became ready");
            ensure!(served, "undisturbed, and never ready: {why:?}");
        }
    }
    Ok(Told { passed, lagged: stage.ec2.lagged() })
}

async fn at_every_point(clean: Clean, story: &[Step]) -> Result<()> {
    at_every_point_with(clean, story, Listings::True).await?;
    for seed in 0..LAGS {
        let listings = Listings::Lag { seed };
        let lagged =
            at_every_point_with(clean, story, listings).await.with_context(|| format!("{listings:?}"))?;
        println!("{lagged:?} with seed {seed}");
        ensure!(lagged.in_every_way(), "listings were not as they should be with seed {seed}: {lagged:?}");
    }
    Ok(())
}

/// How often listings lagged, in all.
async fn at_every_point_with(clean: Clean, story: &[Step], listings: Listings) -> Result<Lagged> {
    let Told { passed: whole, mut lagged } =
        told(clean, story, listings, None).await.context("without a cut")?;
    let kinds: BTreeSet<&String> = whole.iter().collect();
    println!("{} points: {kinds:?}", whole.len());
    for needed in [
        "RunInstances",
        "TerminateInstances",
        "a commit of pool, runner, claim",
        "a commit of runner",
        "a commit of runner, token, pool",
        "a commit of claim",
        "a commit of claim, runner",
        "a commit of pool/shortage",
    ] {
        for side in ["before", "after"] {
            ensure!(kinds.contains(&format!("{side} {needed}")), "the story never passes {side} {needed}");
        }
    }
    for (point, what) in whole.iter().enumerate() {
        let cut = async {
            let told = told(clean, story, listings, Some(point)).await?;
            // The same way as without the cut, so that it was cut where it says.
            let same = told.passed.get(..=point) == whole.get(..=point);
            ensure!(same, "it came there by another way: {:?}", told.passed);
            Ok(told.lagged)
        };
        lagged = lagged.and(cut.await.with_context(|| format!("cut off at {point}, {what}"))?);
    }
    Ok(lagged)
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
