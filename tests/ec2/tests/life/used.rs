//! Provisioned cold, given back, provisioned warm; and what is written on an instance.

use crate::{Grounds, cleaned, open, ready};
use anyhow::{Context, Result, ensure};
use motorpool_domain::spec::Usage;
use motorpool_ec2_tests::ground::{Ground, Seen};
use std::collections::BTreeSet;
use std::time::Duration;

pub(crate) async fn cold_then_released_then_warm_then_idle_for_too_long(
    grounds: &impl Grounds,
) -> Result<()> {
    let (stage, plane) = open(grounds, cleaned(Usage::Spot, 4)).await?;
    let cold = ready(&stage, &plane, "gh-1", 2).await?;
    ensure!(cold.runners.iter().all(|runner| !runner.warm), "{cold:?}");
    let launched = ids(&stage.instances().await?);
    ensure!(launched.len() == 2, "{launched:?}");
    let runner = stage.runners().await?.into_iter().next().context("no runner")?;
    ensure!(runner.zone.is_some() && runner.hourly.is_some(), "{runner:?}");
    ensure!(runner.offer.usage == Usage::Spot && runner.offer.instance_type != "ec2", "{runner:?}");
    stage.release(&plane, "gh-1").await?;
    stage.tick(&plane).await?;
    let warm = ready(&stage, &plane, "gh-2", 2).await?;
    ensure!(warm.runners.iter().all(|runner| runner.warm && runner.epoch.0 == 2), "{warm:?}");
    ensure!(ids(&stage.instances().await?) == launched, "something was launched for it");
    ensure!(stage.alive().await?.len() == 2, "they are the same machines");
    stage.release(&plane, "gh-2").await?;
    stage.comes_to_rest(&plane).await?;
    stage.clock.turn(Duration::from_secs(601));
    stage.comes_to_rest(&plane).await?;
    let (alive, runners) = (stage.alive().await?, stage.runners().await?);
    ensure!(alive.is_empty() && runners.is_empty(), "idle for too long, and still there: {runners:?}");
    stage.must_add_up().await
}

fn ids(instances: &[Seen]) -> BTreeSet<String> {
    instances.iter().map(|instance| instance.id.clone()).collect()
}

pub(crate) async fn every_instance_is_tagged_for_its_claim_and_told_nothing_but_its_launch(
    grounds: &impl Grounds,
) -> Result<()> {
    let (stage, plane) = open(grounds, cleaned(Usage::Spot, 4)).await?;
    let claim = ready(&stage, &plane, "gh-77.2", 2).await?;
    let instances = stage.instances().await?;
    ensure!(instances.len() == 2, "{instances:?}");
    for instance in instances {
        let tag = |name: &str| instance.tags.get(name).map(String::as_str);
        ensure!(tag("motorpool:installation") == Some(&stage.installation()), "{:?}", instance.tags);
        ensure!(tag("motorpool:pool") == Some(stage.pool.name.as_str()), "{:?}", instance.tags);
        ensure!(tag("motorpool:claim") == Some(claim.claim.as_str()), "{:?}", instance.tags);
        ensure!(tag("motorpool:workflow") == Some("gh-77.2"), "{:?}", instance.tags);
        let runner = instance.runner().context("no runner")?;
        // It is for people, and told to EC2 only once: where that did not know the instance yet, it has none.
        let unknown = tag("motorpool:runner").is_none() && !stage.ec2.behind().is_zero();
        ensure!(unknown || tag("motorpool:runner") == Some(runner.as_str()), "{:?}", instance.tags);
        ensure!(instance.launch_secret().is_some(), "no secret to join with");
    }
    Ok(())
}
