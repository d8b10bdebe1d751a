//! The whole life of a machine whose agent speaks nothing but this protocol: what an agent would say in a sync, the control plane says for it.

use crate::shop::{Shop, created, name};
use anyhow::{Result, ensure};
use motorpool_tests::harness::story::audit;
use motorpool_tests::harness::wait::until;
use serde_json::json;
use std::fs;

#[tokio::test(flavor = "multi_thread")]
async fn each_job_starts_clean_whatever_the_last_one_left() -> Result<()> {
    let shop = Shop::open()?;
    let token = shop.machine_with_fixed_token("macs", "mac-01").await?;
    let mut agent = shop.connect("mac-01", &token).await?;
    // It is reset when it joins: nobody knows what is on it.
    shop.target.runner_in("mac-01", "idle").await?;
    ensure!(shop.told() == ["reset", "ready"], "{:?}", shop.told());

    for (job, status, state, step) in [
        ("1", "failure", "reset", "reset"),
        ("2", "success", "deleted", "cleanup"),
        ("3", "canceled", "reset", "reset"),
    ] {
        let checkpoint = name(&created(&mut agent, job).await?)?;
        ensure!(shop.api().runner("mac-01").await?["state"] == "running");
        fs::write(shop.path().join(format!("dirt-{job}")), "left by a job")?;
        let told = shop.told().len();
        let end = json!({"checkpoint_name": checkpoint, "status": status, "source": "agent"});
        ensure!(agent.ok("finalize", end).await?["detail"] == "Finalize queued");
        let shown = until("the checkpoint comes to its end", async || {
            let shown = shop.api().runner("mac-01").await?;
            Ok((shown["state"] == "idle").then_some(shown))
        })
        .await?;
        ensure!(shown["proof"] == format!("its {step} succeeded"), "{shown}");
        ensure!(shop.told().get(told..) == Some(&[step.to_owned(), "ready".to_owned()]), "{:?}", shop.told());
        ensure!(!shop.path().join(format!("dirt-{job}")).exists(), "job {job} left its dirt");
        let shown = agent.ok("status", json!({"checkpoint_name": checkpoint})).await?;
        ensure!(shown["state"] == state && shown["finalize_source"] == "agent", "{shown}");
        // Its token is what it was: it could not have changed it.
        agent.ok("ping", json!({})).await?;
    }
    Ok(())
}

/// A script that fails is tried again, and then a person is asked. An agent that was away goes on where it was.
#[tokio::test(flavor = "multi_thread")]
async fn inv_13_a_machine_that_can_not_be_cleaned_takes_no_job() -> Result<()> {
    let shop = Shop::open()?;
    let settings = json!({
        "backend": "bare_metal", "dispatch": "hook", "clean": "reset", "heartbeat_seconds": 1,
        "reset_cmd": "echo reset >> told; test -e mended || { echo 'the disk is full' >&2; exit 7; }",
    });
    shop.api().put("pools/broken", settings).await?.expect(200)?;
    let token = shop.machine_with_fixed_token("broken", "mac-01").await?;
    let agent = shop.connect("mac-01", &token).await?;
    let seen = shop.target.runner_in("mac-01", "quarantined").await?;
    ensure!(seen["why"].as_str().is_some_and(|why| why.contains("3 attempts")), "{seen}");
    ensure!(shop.told() == ["reset", "reset", "reset"], "{:?}", shop.told());
    let told = audit(shop.api(), "mac-01").await?;
    let says_why = |entry: &serde_json::Value| {
        entry["why"].to_string().contains("it ended with exit code 7: the disk is full")
    };
    ensure!(told.iter().any(says_why), "{told:?}");

    drop(agent);
    shop.connected("mac-01", false).await?;
    fs::write(shop.path().join("mended"), "")?;
    shop.api().post("runners/mac-01/release", json!({})).await?.expect(202)?;
    let mut agent = shop.connect("mac-01", &token).await?;
    shop.target.runner_in("mac-01", "idle").await?;
    created(&mut agent, "1").await?;
    Ok(())
}
