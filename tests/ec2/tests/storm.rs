//! `max` = 50, 500 provisions of mixed sizes at once, EC2 throttles half of its calls, and its listings lag: all are served, as
//! docs/benchmarks.md tells.

use anyhow::{Context, Result, ensure};
use motorpool_control::{Caller, Control, SweepWish};
use motorpool_domain::pool::{Clean, Pool};
use motorpool_domain::runner::StateName;
use motorpool_domain::spec::Usage;
use motorpool_domain::{ClaimId, Epoch, RunnerId};
use motorpool_ec2_tests::FakeEc2;
use motorpool_ec2_tests::samples::{ec2_rules, pool};
use motorpool_ec2_tests::stage::Stage;
use motorpool_wire::api::ClaimView;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const CLAIMS: u32 = 500;
const MAX: u32 = 50;
const SEED: u64 = 7;
/// Of a thousand calls.
const THROTTLED: u64 = 500;
/// The furthest that a listing is behind.
const BEHIND: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_17_fault_11_five_hundred_at_once_with_half_of_the_calls_throttled() -> Result<()> {
    let stage = Arc::new(Stage::new(patient_pool()).await?);
    stage.ec2.throttle(SEED, THROTTLED);
    stage.ec2.lag(SEED, BEHIND);
    let plane = Arc::new(stage.plane().await);
    let open = all_ask_at_once(&stage, &plane).await?;
    let served = all_are_served(&stage, &plane, open).await?;
    ensure!(served == CLAIMS, "{served} of {CLAIMS} claims were served");
    throttling_fired(&stage.ec2)?;
    stage.ec2.throttle(SEED, 0);
    stage.comes_to_rest(&plane).await?;
    stage.must_add_up().await?;
    let calls = stage.ec2.calls();
    let all: u32 = calls.values().sum();
    let made = stage.ec2.instances().len();
    println!(
        "{served} served; {made} instances, at most {} at once; {all} EC2 calls: {calls:?}; {:?}",
        stage.ec2.most_alive(),
        stage.ec2.lagged()
    );
    ensure!(stage.ec2.most_alive() <= usize::try_from(MAX)?);
    // Calls follow the instances, not the claims that wait: in all there are fewer than one for each claim.
    let launches = calls.get("RunInstances").copied().context("no launch")?;
    ensure!(all < CLAIMS, "{all} calls for {made} instances");
    ensure!(launches <= 4 * u32::try_from(made)? + 40, "{launches} launches for {made} instances");
    Ok(())
}

fn patient_pool() -> Pool {
    let mut small = pool("small", Usage::Spot, MAX, ec2_rules());
    small.rules.clean = Clean::Cleanup;
    // Who waits longest waits for nine others to be done.
    small.rules.limits.wait = Duration::from_secs(4 * 3_600);
    small
}

fn size(claim: u32) -> u32 {
    [1, 1, 2, 1, 3, 5, 1, 2][usize::try_from(claim % 8).unwrap_or_default()]
}

/// A claim that was accepted, and how many runners it asked for.
struct Accepted {
    workflow: String,
    count: u32,
}

async fn all_ask_at_once(stage: &Arc<Stage>, plane: &Arc<Control>) -> Result<BTreeMap<ClaimId, Accepted>> {
    let mut asking = JoinSet::new();
    for claim in 0..CLAIMS {
        let (stage, plane) = (Arc::clone(stage), Arc::clone(plane));
        asking.spawn(async move {
            let (workflow, count) = (format!("gh-{claim}"), size(claim));
            // A caller that is told that too many ask at once asks again, as the command line does.
            loop {
                match stage.provision(&plane, &workflow, count).await {
                    Ok(view) => return Ok::<_, anyhow::Error>((view.claim, Accepted { workflow, count })),
                    Err(refused) if refused.hint.contains("again") => tokio::task::yield_now().await,
                    Err(refused) => return Err(refused.into()),
                }
            }
        });
    }
    let mut open = BTreeMap::new();
    while let Some(asked) = asking.join_next().await {
        let (claim, accepted) = asked??;
        open.insert(claim, accepted);
    }
    ensure!(open.len() == usize::try_from(CLAIMS)?, "{} claims for {CLAIMS} workflows", open.len());
    Ok(open)
}

/// A sweep, when the first machines are there. One whose listing is throttled too often has seen nothing, and is made again.
async fn a_listing_leaves_machines_out(stage: &Stage, plane: &Control) -> Result<()> {
    const ENOUGH: usize = 20;
    for _ in 0..ENOUGH {
        stage.refresh(plane, SweepWish::Now).await?;
        if stage.ec2.lagged().hidden > 0 {
            return Ok(());
        }
    }
    anyhow::bail!("no listing lagged: {:?}", stage.ec2.lagged())
}

/// Each claim that is ready has done its work when the next half a minute is over. How many were ready and then released.
async fn all_are_served(
    stage: &Stage,
    plane: &Control,
    mut open: BTreeMap<ClaimId, Accepted>,
) -> Result<u32> {
    const ENOUGH: usize = 2_000;
    let (mut served, mut used) = (0, BTreeSet::new());
    for _ in 0..ENOUGH {
        stage.tick(plane).await?;
        if stage.ec2.alive() > 0 && stage.ec2.lagged().hidden == 0 {
            a_listing_leaves_machines_out(stage, plane).await?;
        }
        let mut still = BTreeMap::new();
        for (claim, accepted) in open {
            let view = plane.view_claim(&Caller::Operator, &claim).await?;
            match view.state.as_str() {
                "ready" => {
                    has_what_it_asked_for(&view, accepted.count, &mut used)?;
                    let released = stage.release(plane, &accepted.workflow).await?;
                    ensure!(released.claim == claim && released.state == "released", "{released:?}");
                    served += 1;
                }
                "pending" => {
                    ensure!(!view.why.is_empty(), "{claim} waits, and does not say why");
                    still.insert(claim, accepted);
                }
                ended => anyhow::bail!("{claim} is {ended}, and was never served: {}", view.why),
            }
        }
        open = still;
        if open.is_empty() {
            return Ok(served);
        }
    }
    anyhow::bail!("{} claims still wait: {:?}", open.len(), open.keys())
}

/// `used` are the runners that ready claims had so far, each with its epoch: in an epoch, only one claim uses a runner.
fn has_what_it_asked_for(view: &ClaimView, count: u32, used: &mut BTreeSet<(RunnerId, Epoch)>) -> Result<()> {
    let running = view.runners.iter().filter(|member| member.state == StateName::Running).count();
    ensure!(view.short == 0 && running == usize::try_from(count)?, "ready without its {count}: {view:?}");
    for member in &view.runners {
        let first = used.insert((member.runner.clone(), member.epoch));
        ensure!(first, "another claim had {} in this epoch: {view:?}", member.runner);
    }
    Ok(())
}

/// Whether a call is throttled follows from the seed and its number, so the share is about what was asked for.
fn throttling_fired(ec2: &FakeEc2) -> Result<()> {
    let (all, throttled) = (ec2.requests().len(), ec2.throttled());
    let per_mille = throttled * 1_000 / all.max(1);
    ensure!((400..=600).contains(&per_mille), "{throttled} of {all} calls were throttled");
    Ok(())
}
