//! The messages of the protocol, case by case: their names, their words and the codes that the same calls have over HTTP.

use crate::shop::{Shop, created, name};
use anyhow::{Result, ensure};
use motorpool_tests::fakes::channel_agent::{ChannelAgent, Shows};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn create_status_finalize_and_ping() -> Result<()> {
    let shop = Shop::open()?;
    let (mut machine, mut agent) = shop.machine("macs", "mac-01").await?;
    let pong = agent.ask("ping", json!({})).await?;
    ensure!(pong["status"] == "ok" && pong["data"] == json!({"pong": true}), "{pong}");

    let made = agent.ok("create", json!({"job_id": "12345", "caller": "ci-runner-7"})).await?;
    ensure!(made["caller"] == "ci-runner-7", "{made}");
    let checkpoint = name(&made)?;
    ensure!(checkpoint.starts_with("job-12345-") && made["runner_id"] == "mac-01", "{made}");
    ensure!(made["job_id"] == "12345" && made["state"] == "created", "{made}");
    ensure!(made["created_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{made}");
    ensure!(agent.ok("create", json!({"job_id": "12345"})).await? == made, "the same job again");
    let (code, detail) = agent.refused("create", json!({"job_id": "2"})).await?;
    ensure!(code == 409 && detail.contains("active checkpoint already exists"), "{detail}");
    ensure!(shop.api().runner("mac-01").await?["state"] == "running");

    let shown = agent.ok("status", json!({"checkpoint_name": checkpoint})).await?;
    ensure!(shown == made, "{shown}");
    let unknown = json!({"checkpoint_name": "job-9-1739451000-a1b2c3d4"});
    ensure!(agent.refused("status", unknown.clone()).await?.0 == 404);
    let mut ended = unknown;
    ended["status"] = json!("success");
    ensure!(agent.refused("finalize", ended).await?.0 == 404);

    let end = json!({"checkpoint_name": checkpoint, "status": "failure"});
    let queued = agent.ok("finalize", end.clone()).await?;
    ensure!(queued == json!({"detail": "Finalize queued", "checkpoint_name": checkpoint}), "{queued}");
    let again = agent.ok("finalize", end).await?;
    ensure!(again["detail"] == "Already finalized" && again["state"] == "finalize_queued", "{again}");
    let shown = agent.ok("status", json!({"checkpoint_name": checkpoint})).await?;
    ensure!(shown["finalize_source"] == "agent" && shown["finalize_status"] == "failure", "{shown}");

    machine.work_until("idle").await?;
    let (code, detail) = agent.refused("create", json!({"job_id": "3"})).await?;
    ensure!(code == 429 && detail.contains("cooldown"), "{code} {detail}");
    created(&mut agent, "3").await?;
    Ok(())
}

/// It may say who noticed, and is believed as far as over HTTP.
#[tokio::test(flavor = "multi_thread")]
async fn who_noticed_the_end_may_be_said() -> Result<()> {
    let shop = Shop::open()?;
    let (_, mut agent) = shop.machine("macs", "mac-01").await?;
    let checkpoint = name(&created(&mut agent, "1").await?)?;
    let end = |source: &str| json!({"checkpoint_name": checkpoint, "status": "success", "source": source});
    for source in ["webhook", "gc"] {
        ensure!(agent.refused("finalize", end(source)).await?.0 == 400, "{source}");
    }
    agent.ok("finalize", end("hook")).await?;
    let shown = agent.ok("status", json!({"checkpoint_name": checkpoint})).await?;
    ensure!(shown["finalize_source"] == "hook", "{shown}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_may_be_shown_in_the_header() -> Result<()> {
    let shop = Shop::open()?;
    let (machine, first) = shop.machine("macs", "mac-01").await?;
    let header = Shows::InHeader { token: &machine.token };
    let mut second = ChannelAgent::connect(shop.api(), header, shop.path()).await?;
    ensure!(second.ok("ping", Value::Null).await? == json!({"pong": true}));
    // One connection a runner: the new one takes the place of the last.
    ensure!(first.ended().await? == Some(4409));
    ensure!(second.ok("ping", Value::Null).await? == json!({"pong": true}));
    shop.connected("mac-01", true).await?;
    drop(second);
    shop.connected("mac-01", false).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_serve_that_stops_says_so() -> Result<()> {
    let mut shop = Shop::open()?;
    let (_, agent) = shop.machine("macs", "mac-01").await?;
    ensure!(shop.serve.stop()? == Some(0), "{}", shop.serve.log());
    ensure!(agent.ended().await? == Some(1001));
    Ok(())
}
