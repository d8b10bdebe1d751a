//! fault_20: when most heartbeats vanish at once, or the control plane itself was away, nobody is reaped for silence.

use anyhow::{Context, Result, ensure};
use motorpool_tests::harness::api::Api;
use motorpool_tests::harness::serve::Serve;
use motorpool_tests::harness::story::{idle, refreshed_until, state};
use motorpool_tests::harness::wait::until;
use rustix::process::Signal;

/// Refresh comes by hand alone: between two passes of the ticker lies an hour.
const POOL: &str = "refresh_seconds = 3600\nsweep_seconds = 86400\n\
                    [pools.p]\nbackend = \"local\"\nheartbeat_seconds = 2\nidle_seconds = 600\nmax = 6\n";

/// Long past the four heartbeats after which a runner is silent.
const SILENT_MS: u64 = 10_000;

async fn all_idle(api: &Api, runners: &[String]) -> Result<()> {
    for runner in runners {
        ensure!(state(api, runner).await? == "idle", "{}", api.runner(runner).await?);
    }
    Ok(())
}

async fn seen_ms_ago(api: &Api, runner: &str) -> Result<u64> {
    Ok(api.runner(runner).await?["seen_ms_ago"].as_u64().unwrap_or(u64::MAX))
}

async fn all_silent(api: &Api, runners: &[String]) -> Result<Option<()>> {
    for runner in runners {
        if seen_ms_ago(api, runner).await? < SILENT_MS {
            return Ok(None);
        }
    }
    Ok(Some(()))
}

async fn all_heard(api: &Api, runners: &[String]) -> Result<Option<()>> {
    for runner in runners {
        if seen_ms_ago(api, runner).await? > 4_000 {
            return Ok(None);
        }
    }
    Ok(Some(()))
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_20_when_all_fall_silent_together_the_brake_holds_until_they_are_heard() -> Result<()> {
    let serve = Serve::start(POOL)?;
    let api = serve.api();
    let runners = idle(api, "p", 6).await?;
    for runner in &runners {
        serve.signal_agent(runner, Signal::STOP)?;
    }
    // One pass after another: none of them may find a first few, and take them for dead.
    refreshed_until(api, "all are silent", async || all_silent(api, &runners).await).await?;
    all_idle(api, &runners).await?;
    let report = until("a pass looks at them again", async || {
        let report = api.refresh().await?;
        Ok((report["braked"] == true).then_some(report))
    })
    .await?;
    ensure!(report["reaped"] == 0, "{report}");
    all_idle(api, &runners).await?;
    ensure!(serve.log().contains("most heartbeats are missing at once"), "nobody was alerted");

    // They come back one by one, and the last has as much time for it as the first.
    for (nth, runner) in runners.iter().enumerate() {
        serve.signal_agent(runner, Signal::CONT)?;
        let heard = async || all_heard(api, &runners[..=nth]).await;
        refreshed_until(api, "another is heard again", heard).await?;
    }
    refreshed_until(api, "all are heard again", async || all_heard(api, &runners).await).await?;
    all_idle(api, &runners).await?;
    let report = api.refresh().await?;
    ensure!(report["braked"] == false && report["reaped"] == 0, "{report}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_brake_does_not_hold_for_one_that_died_alone() -> Result<()> {
    let serve = Serve::start(POOL)?;
    let api = serve.api();
    let runners = idle(api, "p", 6).await?;
    let (dead, others) = runners.split_first().context("no runner")?;
    serve.signal_agent(dead, Signal::STOP)?;
    refreshed_until(api, "the silent one is reaped", async || {
        Ok((state(api, dead).await? == "terminated").then_some(()))
    })
    .await?;
    all_idle(api, others).await
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_20_nobody_is_reaped_for_the_time_in_which_serve_was_away() -> Result<()> {
    let mut serve = Serve::start(POOL)?;
    // Too few for the brake.
    let runners = idle(serve.api(), "p", 2).await?;
    serve.api().refresh().await?;
    serve.kill()?;
    // Time itself is what this is about: by then both have missed all their heartbeats.
    tokio::time::sleep(std::time::Duration::from_millis(SILENT_MS)).await;
    serve.start_again()?;
    let api = serve.api();
    api.refresh().await?;
    all_idle(api, &runners).await?;
    refreshed_until(api, "both are heard again", async || all_heard(api, &runners).await).await?;
    all_idle(api, &runners).await
}
