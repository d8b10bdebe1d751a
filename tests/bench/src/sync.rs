//! Heartbeats on `serve`: how many a second it takes, with ever more runners, and what it weighs. Each runner syncs once, since a second
//! sync within half an interval writes nothing.

use crate::clock::Stopwatch;
use crate::floor::RawSqlite;
use crate::pools;
use crate::report;
use crate::samples::{Samples, ms, per_second, ratio};
use anyhow::{Context, Result};
use motorpool_domain::RunnerId;
use motorpool_tests::api::Api;
use motorpool_tests::seeded::{BOOT_ID, token};
use serde_json::json;
use tokio::task::JoinSet;

const CALLERS: usize = 16;
const SYNCS: usize = 8_000;

pub(crate) async fn run() -> Result<()> {
    for runners in [100, 1_000, 10_000] {
        let (serve, ids) = pools::serve_with(runners).await?;
        let watch = Stopwatch::start();
        let mut running = JoinSet::new();
        for caller in 0..CALLERS {
            let mine: Vec<RunnerId> = ids.iter().skip(caller).step_by(CALLERS).cloned().collect();
            running.spawn(syncs(serve.api().clone(), mine, SYNCS / CALLERS));
        }
        let mut ours = Samples::default();
        while let Some(samples) = running.join_next().await {
            ours.extend(samples??);
        }
        let took = watch.elapsed();
        let memory_mb = resident_mb(serve.pid())?;
        let floor_dir = tempfile::tempdir()?;
        let (floor, floor_took) = RawSqlite::open(floor_dir.path())?.transactions(ours.len(), 1, CALLERS)?;
        report(&json!({
            "name": format!("sync_{runners}"),
            "runners": runners,
            "callers": CALLERS,
            "syncs": ours.len(),
            "p50_ms": ms(ours.p50()),
            "p99_ms": ms(ours.percentile(0.99)),
            "per_second": per_second(ours.len(), took),
            "memory_mb": memory_mb,
            "floor_per_second": per_second(floor.len(), floor_took),
            "ratio": ratio(
                took.as_secs_f64() / ours.len() as f64,
                floor_took.as_secs_f64() / floor.len() as f64,
            ),
        }));
    }
    Ok(())
}

async fn syncs(api: Api, runners: Vec<RunnerId>, count: usize) -> Result<Samples> {
    let mut samples = Samples::default();
    for runner in runners.iter().take(count) {
        let agent = api.as_who(Some(&token(runner)));
        let report = json!({
            "runner": runner, "epoch": 1, "boot_id": BOOT_ID, "agent_version": "bench",
            "registered": null, "results": [], "wait_ms": 0,
        });
        let watch = Stopwatch::start();
        agent.post("agent/sync", report).await?.expect(200)?;
        samples.add(watch.elapsed());
    }
    Ok(samples)
}

/// What the kernel counts as resident.
fn resident_mb(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("serve's status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kb: u64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS is no number")?;
    Ok(kb / 1_024)
}
