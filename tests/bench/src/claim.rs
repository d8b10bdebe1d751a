//! A warm claim over HTTP on `serve`, beside as many raw row writes in one transaction with the same durability.

use crate::caller::Caller;
use crate::clock::Stopwatch;
use crate::floor::RawSqlite;
use crate::pools;
use crate::report;
use crate::samples::{Samples, ms, per_second, ratio};
use anyhow::{Result, anyhow, ensure};
use motorpool_tests::harness::api::Api;
use serde_json::json;
use std::time::Duration;

/// What the one transaction of a warm claim writes: six items (the runner, the claim, its key, three log entries), when two of them are due, and
/// where they stand in lists, the runner in one and the claim in two.
const ROWS: usize = 11;
/// Claims of a measurement; each takes one idle runner.
const CLAIMS: usize = 960;
const ROUNDS: usize = 5;

pub(crate) async fn run() -> Result<()> {
    for callers in [1, 8, 64] {
        let (serve, _) = pools::serve_with(pools::POOL_MAX).await?;
        let api = serve.api();
        warm_up(api).await?;
        let floor_dir = tempfile::tempdir()?;
        let raw = RawSqlite::open(floor_dir.path())?;
        let (mut ours, mut took) = (Samples::default(), Duration::ZERO);
        let (mut floor, mut floor_took) = (Samples::default(), Duration::ZERO);
        // By turns, since a disk has its moods, and both must meet the same ones.
        for round in 0..ROUNDS {
            let (samples, span) = all_claims(api, round, callers)?;
            ours.extend(samples);
            took += span;
            let (samples, span) = raw.transactions(round, CLAIMS / ROUNDS, ROWS, callers)?;
            floor.extend(samples);
            floor_took += span;
        }
        let cost = took.as_secs_f64() / ours.len() as f64;
        let floor_cost = floor_took.as_secs_f64() / floor.len() as f64;
        report(&json!({
            "name": format!("claim_{callers}"),
            "callers": callers,
            "claims": ours.len(),
            "p50_ms": ms(ours.p50()),
            "p99_ms": ms(ours.percentile(0.99)),
            "per_second": per_second(ours.len(), took),
            "floor_p50_ms": ms(floor.p50()),
            "floor_p99_ms": ms(floor.percentile(0.99)),
            "floor_per_second": per_second(floor.len(), floor_took),
            "aim": if callers == 1 { 2.5 } else { 1.0 },
            // One caller waits for its answer; many share the machine, so that what a claim costs is what counts.
            "ratio": match callers {
                1 => ratio(ours.p50().as_secs_f64(), floor.p50().as_secs_f64()),
                _ => ratio(cost, floor_cost),
            },
        }));
    }
    Ok(())
}

/// Connections, caches and the first page of everything.
async fn warm_up(api: &Api) -> Result<()> {
    for number in 0..20 {
        api.post("claim", json!({"workflow": format!("warm-{number}"), "pool": pools::name(0)}))
            .await?
            .expect(200)?;
    }
    Ok(())
}

/// One round of all callers: what each claim took, and all of them together.
fn all_claims(api: &Api, round: usize, callers: usize) -> Result<(Samples, Duration)> {
    let connected: Vec<Caller> = (0..callers).map(|_| Caller::connect(api)).collect::<Result<_>>()?;
    let watch = Stopwatch::start();
    let threads: Vec<_> = connected
        .into_iter()
        .enumerate()
        .map(|(number, caller)| {
            std::thread::spawn(move || claims(caller, round, number, CLAIMS / ROUNDS / callers))
        })
        .collect();
    let mut all = Samples::default();
    for thread in threads {
        all.extend(thread.join().map_err(|_| anyhow!("a caller panicked"))??);
    }
    Ok((all, watch.elapsed()))
}

fn claims(mut caller: Caller, round: usize, number: usize, count: usize) -> Result<Samples> {
    let mut samples = Samples::default();
    for claim in 0..count {
        let body = json!({"workflow": format!("gh-{round}-{number}-{claim}"), "pool": pools::name(0)});
        let watch = Stopwatch::start();
        let answer = caller.post("provision", &body)?;
        samples.add(watch.elapsed());
        let claim = answer.expect(202)?;
        ensure!(claim["runners"][0]["warm"] == true, "it was not warm: {claim}");
    }
    Ok(samples)
}
