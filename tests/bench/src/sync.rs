//! Heartbeats on `serve`: how many a second it takes, with ever more runners, and what it weighs. Each runner syncs once, since a second
//! sync within half an interval writes nothing.

use crate::clock::Stopwatch;
use crate::floor::RawSqlite;
use crate::memory::{Resident, resident_mb};
use crate::pools;
use crate::report;
use crate::samples::{Samples, ms, per_second, ratio};
use anyhow::Result;
use motorpool_domain::RunnerId;
use motorpool_tests::harness::api::Api;
use motorpool_tests::harness::seeded::{BOOT_ID, token};
use serde_json::json;
use std::time::Duration;
use tokio::task::JoinSet;

const CALLERS: usize = 16;
const SYNCS: usize = 8_000;
const ROUNDS: usize = 5;

pub(crate) async fn run() -> Result<()> {
    for runners in [100, 1_000, 10_000] {
        let (serve, ids) = pools::serve_with(runners).await?;
        let floor_dir = tempfile::tempdir()?;
        let raw = RawSqlite::open(floor_dir.path())?;
        let (mut ours, mut took) = (Samples::default(), Duration::ZERO);
        let (mut floor, mut floor_took) = (Samples::default(), Duration::ZERO);
        let ids: Vec<RunnerId> = ids.into_iter().take(SYNCS).collect();
        // By turns, since a disk has its moods, and both must meet the same ones.
        for (round, some) in ids.chunks(ids.len().div_ceil(ROUNDS)).enumerate() {
            let (samples, span) = all_syncs(serve.api(), some).await?;
            ours.extend(samples);
            took += span;
            let (samples, span) = raw.transactions(round, some.len(), 1, CALLERS)?;
            floor.extend(samples);
            floor_took += span;
        }
        let memory_mb = resident_mb(serve.pid(), Resident::Now)?;
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

/// One round of all callers: what each sync took, and all of them together.
async fn all_syncs(api: &Api, runners: &[RunnerId]) -> Result<(Samples, Duration)> {
    let watch = Stopwatch::start();
    let mut running = JoinSet::new();
    for caller in 0..CALLERS {
        let mine: Vec<RunnerId> = runners.iter().skip(caller).step_by(CALLERS).cloned().collect();
        running.spawn(syncs(api.clone(), mine));
    }
    let mut all = Samples::default();
    while let Some(samples) = running.join_next().await {
        all.extend(samples??);
    }
    Ok((all, watch.elapsed()))
}

async fn syncs(api: Api, runners: Vec<RunnerId>) -> Result<Samples> {
    let mut samples = Samples::default();
    for runner in &runners {
        let agent = api.as_who(Some(&token(runner)));
        let report = json!({
            "runner": runner, "epoch": 1, "boot_id": BOOT_ID, "protocol": 3, "agent_version": "bench",
            "registered": null, "results": [], "wait_ms": 0,
        });
        let watch = Stopwatch::start();
        agent.post("agent/sync", report).await?.expect(200)?;
        samples.add(watch.elapsed());
    }
    Ok(samples)
}
