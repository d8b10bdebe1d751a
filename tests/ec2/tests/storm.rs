//! `max` = 50, 500 provisions of mixed sizes at once, and EC2 throttles half of its calls.

use anyhow::{Context, Result, ensure};
use motorpool_control::Caller;
use motorpool_domain::ClaimId;
use motorpool_domain::pool::Clean;
use motorpool_domain::spec::Usage;
use motorpool_ec2_tests::samples::{ec2_rules, pool};
use motorpool_ec2_tests::stage::Stage;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

const CLAIMS: u32 = 500;
const MAX: u32 = 50;

fn size(claim: u32) -> u32 {
    [1, 1, 2, 1, 3, 5, 1, 2][usize::try_from(claim % 8).unwrap_or_default()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_17_fault_11_five_hundred_at_once_with_half_of_the_calls_throttled() -> Result<()> {
    let mut small = pool("small", Usage::Spot, MAX, ec2_rules());
    small.rules.clean = Clean::Cleanup;
    // Who waits longest waits for nine others to be done.
    small.rules.limits.wait = std::time::Duration::from_secs(4 * 3_600);
    let stage = Arc::new(Stage::new(small).await?);
    stage.ec2.throttle(7, 500);
    let plane = Arc::new(stage.plane().await);
    let mut asking = JoinSet::new();
    for claim in 0..CLAIMS {
        let (stage, plane) = (Arc::clone(&stage), Arc::clone(&plane));
        asking.spawn(async move {
            let workflow = format!("gh-{claim}");
            // A caller that is told that too many ask at once asks again, as the command line does.
            loop {
                match stage.provision(&plane, &workflow, size(claim)).await {
                    Ok(view) => return Ok::<_, anyhow::Error>((workflow, view.claim)),
                    Err(refused) if refused.hint.contains("again") => tokio::task::yield_now().await,
                    Err(refused) => return Err(refused.into()),
                }
            }
        });
    }
    let mut open: BTreeMap<String, ClaimId> = BTreeMap::new();
    while let Some(asked) = asking.join_next().await {
        let (workflow, claim) = asked??;
        open.insert(workflow, claim);
    }
    ensure!(open.len() == usize::try_from(CLAIMS)?);
    let (mut served, mut failed) = (0, 0);
    // Each claim that is ready has done its work when the next half a minute is over.
    for _ in 0..2_000 {
        stage.tick(&plane).await?;
        let mut still = BTreeMap::new();
        for (workflow, claim) in open {
            let view = plane.view_claim(&Caller::Operator, &claim).await?;
            match view.state.as_str() {
                "ready" => {
                    served += 1;
                    stage.release(&plane, &workflow).await?;
                }
                "pending" => {
                    ensure!(!view.why.is_empty(), "{claim} waits, and does not say why");
                    still.insert(workflow, claim);
                }
                _ => {
                    ensure!(!view.why.is_empty(), "{claim} ended, and does not say why");
                    failed += 1;
                }
            }
        }
        open = still;
        if open.is_empty() {
            break;
        }
    }
    ensure!(open.is_empty(), "{} claims were neither served nor told why: {open:?}", open.len());
    stage.ec2.throttle(7, 0);
    stage.comes_to_rest(&plane).await?;
    stage.must_add_up().await?;
    let calls = stage.ec2.calls();
    let all: u32 = calls.values().sum();
    let made = stage.ec2.instances().len();
    println!(
        "{served} served, {failed} told why they were not; {made} instances, at most {} at once; {all} EC2 calls: {calls:?}",
        stage.ec2.most_alive()
    );
    ensure!(stage.ec2.most_alive() <= usize::try_from(MAX)?);
    // Calls follow the instances, not the claims that wait: in all there are fewer than one for each claim.
    let launches = calls.get("RunInstances").copied().context("no launch")?;
    ensure!(all < CLAIMS, "{all} calls for {made} instances");
    ensure!(launches <= 4 * u32::try_from(made)? + 40, "{launches} launches for {made} instances");
    Ok(())
}
