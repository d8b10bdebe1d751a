//! Many who say at once that a job has ended: it has one effect.

use crate::workshop::Workshop;
use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use motorpool_control::{Caller, Control, JobWord, Parts};
use motorpool_domain::checkpoint::{CompletedJob, JobOutcome};
use motorpool_domain::ci::{CiSystem, JobStatus};
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn inv_11_fault_06_hook_webhook_and_poller_at_one_instant_are_one_reset() -> Result<()> {
    for round in 0..20 {
        let shop = Workshop::open(json!({}), &["mac-1"]).await?;
        let other = Arc::new(Control::new(Parts { ci: shop.systems(), ..shop.world.parts() }));
        let name = shop.create("mac-1", "1").await?.name;
        shop.turn(130);
        let job = CompletedJob {
            id: "1".parse()?,
            projects: Vec::new(),
            attempt: None,
            runners: Vec::new(),
            ended_at: None,
            status: JobOutcome::Failure,
        };
        // Another system's job of that number is another job.
        ensure!(other.job_completed(CiSystem::GitHub, &job).await? == JobWord::Unknown);
        shop.ci.job("1", JobStatus::Failure);
        let hook = async { shop.finalize("mac-1", &name, "failure").await.map(drop) };
        let webhook = async {
            tokio::task::yield_now().await;
            Ok(other.job_completed(CiSystem::GitLab, &job).await.map(drop)?)
        };
        let poller = async {
            for _ in 0..round % 4 {
                tokio::task::yield_now().await;
            }
            Ok(other.refresh(&Caller::Operator, motorpool_control::SweepWish::IfDue).await.map(drop)?)
        };
        let (one, two, three): (Result<()>, Result<()>, Result<()>) = tokio::join!(hook, webhook, poller);
        for said in [one, two, three] {
            said?;
        }
        let workers =
            [&shop.control, &other].map(|control| control.attend_to_notices(std::time::Duration::ZERO));
        for attended in join_all(workers).await {
            attended?;
        }
        shop.works("mac-1").await?;
        ensure!(shop.releases("mac-1").await? == 1 && shop.runner("mac-1").await?.epoch.0 == 3);
        ensure!(shop.checkpoint(&name).await?.state.as_str() == "reset");
    }
    Ok(())
}

#[tokio::test]
async fn two_hundred_runners_that_finalize_at_once_all_end_and_none_twice() -> Result<()> {
    let machines: Vec<String> = (1..=200).map(|number| format!("mac-{number}")).collect();
    let names: Vec<&str> = machines.iter().map(String::as_str).collect();
    let shop = Workshop::open(json!({}), &names).await?;
    let created = join_all(names.iter().map(|machine| shop.create(machine, machine))).await;
    let created: Vec<_> = created.into_iter().collect::<Result<_, _>>()?;
    let ends = created.iter().zip(&names).flat_map(|(checkpoint, machine)| {
        ["failure", "failure"].map(|status| shop.finalize(machine, &checkpoint.name, status))
    });
    let answers = join_all(ends).await.into_iter().collect::<Result<Vec<_>>>()?;
    let queued = answers.iter().filter(|answer| answer.detail == "Finalize queued").count();
    ensure!(queued == 200, "each is queued once: {queued}");
    for (checkpoint, machine) in created.iter().zip(&names) {
        shop.works(machine).await?;
        let ended = shop.checkpoint(&checkpoint.name).await.context("it is kept")?;
        ensure!(ended.state.as_str() == "reset" && shop.releases(machine).await? == 1, "{ended:?}");
    }
    Ok(())
}
