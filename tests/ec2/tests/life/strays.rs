//! Instances that no record names, and records that name no instance.

use crate::{Grounds, cleaned, machine, only, open, ready};
use anyhow::{Context, Result, ensure};
use motorpool_control::SweepWish;
use motorpool_control::ports::backend::Backend;
use motorpool_domain::spec::Usage;
use motorpool_ec2_tests::State;
use motorpool_ec2_tests::ground::Ground;
use motorpool_ec2_tests::samples::{attempt, launch_id, order};
use motorpool_ec2_tests::stage::Stage;
use std::time::Duration;

pub(crate) async fn inv_16_what_is_of_nobody_ends_and_what_is_anothers_stays(
    grounds: &impl Grounds,
) -> Result<()> {
    let (stage, plane) = open(grounds, cleaned(Usage::OnDemand, 4)).await?;
    ready(&stage, &plane, "gh-1", 1).await?;
    let own = machine(&stage).await?;
    let rung = stage.ladder().await?.into_iter().next().context("no rung")?;
    // Two launches that no record knows: one of this installation, one of another in the same account and of the same pool's name.
    let mut launched = Vec::new();
    for (installation, word) in [(stage.installation(), "lost"), ("ffffff".to_owned(), "foreign")] {
        let (launch, attempt) = (launch_id(word), attempt(1, rung.clone()));
        let backend = stage.ec2.backend_for(&installation).await;
        let machines = backend.launch(&order(&stage.pool, &launch, &attempt)).await?;
        launched.push(machines.into_iter().next().context("no machine")?.provider_id);
    }
    for _ in 0..3 {
        stage.refresh(&plane, SweepWish::Now).await?;
        stage.clock.turn(Duration::from_secs(60));
    }
    let [lost, foreign] = <[String; 2]>::try_from(launched).map_err(|all| anyhow::anyhow!("{all:?}"))?;
    ensure!(stage.ec2.state_of(&lost).await? == State::Terminated, "a machine without a record stays");
    ensure!(
        stage.ec2.state_of(&foreign).await? == State::Running,
        "another installation's machine was ended"
    );
    ensure!(stage.ec2.state_of(&own).await? == State::Running, "its own was ended");
    ensure!(machine(&stage).await? == own);
    Ok(())
}

/// A stage whose control plane was cut off when EC2 had made the machine of gh-1, and nobody had noted it.
async fn cut_off_after_the_launch<P: Grounds>(grounds: &P) -> Result<Stage<P::Ec2>> {
    let point = |passed: &[String]| passed.iter().position(|point| point == "before a commit of runner");
    // Where that is, a stage tells that is not cut off.
    let (rehearsed, plane) = open(grounds, cleaned(Usage::OnDemand, 4)).await?;
    rehearsed.cuts.cut_at(None);
    rehearsed.provision(&plane, "gh-1", 1).await?;
    let noted = point(&rehearsed.cuts.passed()).context("the launch is never noted")?;

    let (stage, plane) = open(grounds, cleaned(Usage::OnDemand, 4)).await?;
    stage.cuts.cut_at(Some(noted));
    let cut = stage.cuts.run(stage.provision(&plane, "gh-1", 1)).await;
    ensure!(cut.is_none(), "it was not cut off: {cut:?}");
    stage.cuts.cut_at(None);
    let runner = only(&stage).await?;
    ensure!(runner.provider_id.is_none(), "it was noted: {runner:?}");
    let made = stage.alive().await?;
    ensure!(made.len() == 1 && made.iter().all(|it| it.runner().as_ref() == Some(&runner.id)), "{made:?}");
    Ok(stage)
}

pub(crate) async fn inv_16_a_launch_whose_answer_was_lost_ends_by_its_tags_when_its_time_is_over(
    grounds: &impl Grounds,
) -> Result<()> {
    let stage = cut_off_after_the_launch(grounds).await?;
    let plane = stage.plane().await;
    stage.release(&plane, "gh-1").await?;
    // No control plane was there while its time passed, and its agent never came.
    stage.clock.turn(stage.pool.rules.limits.created);
    stage.nobody_is_heard(&plane, stage.pool.rules.limits.terminating * 2).await?;
    ensure!(stage.alive().await?.is_empty(), "{:?}", stage.alive().await?);
    ensure!(stage.runners().await?.is_empty(), "{:?}", stage.runners().await?);
    ensure!(stage.instances().await?.len() == 1, "nobody wants it, and it was launched again");
    stage.must_add_up().await
}

/// EC2 knows the second call by its token, and makes nothing. Where it does not know, as after days, there are two machines: the one that the
/// record names stays.
pub(crate) async fn inv_16_a_launch_that_is_asked_for_again_leaves_one_machine(
    grounds: &impl Grounds,
) -> Result<()> {
    let stage = cut_off_after_the_launch(grounds).await?;
    let plane = stage.plane().await;
    // Refresh is there before the machine's agent.
    stage.clock.turn(stage.pool.rules.limits.heartbeat);
    stage.refresh(&plane, SweepWish::IfDue).await?;
    let named = machine(&stage).await?;
    let made = stage.instances().await?.len();
    ensure!(made == if knows_tokens(&stage) { 1 } else { 2 }, "{made} machines were made");
    stage.refresh(&plane, SweepWish::Now).await?;
    let left = stage.alive().await?;
    ensure!(left.len() == 1 && left.iter().all(|instance| instance.id == named), "{left:?}");
    ready(&stage, &plane, "gh-1", 1).await?;
    ensure!(machine(&stage).await? == named);
    stage.must_add_up().await
}

fn knows_tokens<G: Ground>(_: &Stage<G>) -> bool {
    G::KNOWS_TOKENS
}
