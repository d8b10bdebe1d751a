//! What an operator is told who plans or defines a pool on EC2: what is wrong with it, before anything is launched.

use anyhow::{Context, Result, ensure};
use motorpool_control::{Caller, RefusedKind};
use motorpool_domain::PoolName;
use motorpool_domain::spec::Usage;
use motorpool_ec2_tests::fake::catalogue::{IMAGE, SECURITY_GROUP, SUBNETS, WINDOWS_IMAGE};
use motorpool_ec2_tests::samples::{ec2_rules, pool};
use motorpool_ec2_tests::stage::Stage;
use motorpool_wire::pool_settings::PoolSettings;
use serde_json::json;

fn settings(image: &str, cpu: u32, max: u32) -> Result<PoolSettings> {
    Ok(serde_json::from_value(json!({
        "backend": "ec2", "clean": "replace", "max": max, "cpu": cpu, "memory_mb": 4_096,
        "ec2": {"image": image, "subnets": SUBNETS, "security_groups": [SECURITY_GROUP]},
    }))?)
}

async fn stage() -> Result<(Stage, PoolName)> {
    Ok((Stage::new(pool("small", Usage::Spot, 5, ec2_rules())).await?, PoolName::parse("own")?))
}

#[tokio::test]
async fn a_pool_that_could_never_launch_is_planned_without_rungs_and_not_taken() -> Result<()> {
    let (stage, name) = stage().await?;
    let control = stage.plane().await;
    let sound = control.plan_pool(&Caller::Operator, name.clone(), settings(IMAGE, 2, 5)?).await?;
    ensure!(sound.problems.is_empty() && !sound.rungs.is_empty(), "{sound:?}");
    for (wrong, told) in
        [(settings(WINDOWS_IMAGE, 2, 5)?, "is Windows"), (settings(IMAGE, 999, 5)?, "cpu: is 999")]
    {
        let plan = control.plan_pool(&Caller::Operator, name.clone(), wrong.clone()).await?;
        ensure!(plan.rungs.is_empty() && plan.problems.len() == 1, "{plan:?}");
        ensure!(plan.problems[0].contains(told), "{plan:?}");
        let refused =
            control.put_pool(&Caller::Operator, name.clone(), wrong).await.err().context("taken")?;
        ensure!(refused.kind == RefusedKind::InvalidRequest && refused.message.contains(told), "{refused:?}");
    }
    ensure!(stage.store.pool(&name).await?.is_none(), "it was defined all the same");
    Ok(())
}

#[tokio::test]
async fn a_pool_can_be_defined_while_ec2_is_away_with_a_word_on_that() -> Result<()> {
    let (stage, name) = stage().await?;
    let control = stage.plane().await;
    stage.ec2.fail_next("DescribeImages", 9, "Unavailable", 503);
    let refused = control.plan_pool(&Caller::Operator, name.clone(), settings(IMAGE, 2, 5)?).await;
    let refused = refused.err().context("a plan without EC2")?;
    ensure!(refused.message.contains("EC2 answered DescribeImages with Unavailable"), "{refused:?}");
    let taken = control.put_pool(&Caller::Operator, name.clone(), settings(IMAGE, 2, 5)?).await?;
    let warned = taken
        .warnings
        .iter()
        .any(|told| told.contains("could not be checked") && told.contains("Unavailable"));
    ensure!(warned, "{taken:?}");
    ensure!(stage.store.pool(&name).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_already_does_not_stop_another_change() -> Result<()> {
    let (stage, name) = stage().await?;
    let control = stage.plane().await;
    stage.ec2.fail_next("DescribeImages", 3, "Unavailable", 503);
    control.put_pool(&Caller::Operator, name.clone(), settings(WINDOWS_IMAGE, 2, 5)?).await?;
    let smaller = control.put_pool(&Caller::Operator, name.clone(), settings(WINDOWS_IMAGE, 2, 1)?).await?;
    ensure!(
        smaller.max == 1 && smaller.warnings.iter().any(|told| told.contains("is Windows")),
        "{smaller:?}"
    );
    let other = control.put_pool(&Caller::Operator, name, settings(WINDOWS_IMAGE, 4, 1)?).await;
    ensure!(other.is_err(), "its machines are others, and can't be launched either");
    Ok(())
}
