//! A job's two calls over HTTP on `serve`: its checkpoint is created, and finalized. Beside them as many raw row writes, in as many transactions of the same
//! durability. Each runner has one job, so that none waits for another to be cleaned.

use crate::caller::Caller;
use crate::clock::Stopwatch;
use crate::floor::RawSqlite;
use crate::pools;
use crate::report;
use crate::samples::{Samples, ms, per_second, ratio};
use anyhow::{Context, Result, anyhow, ensure};
use motorpool_domain::RunnerId;
use motorpool_tests::harness::api::Api;
use motorpool_tests::harness::seeded::token;
use serde_json::json;
use std::time::Duration;

/// What each of the two transactions writes: four items (checkpoint, runner, a log entry of each), when both are due, and where they stand in lists, the
/// runner in one and the checkpoint in two.
const ROWS: usize = 9;
/// Jobs of a measurement.
const JOBS: usize = 960;
const WARM_UP: usize = 20;
const ROUNDS: usize = 5;

/// What was measured of some jobs.
#[derive(Default)]
struct Jobs {
    creates: Samples,
    finalizes: Samples,
    /// Both calls of a job.
    both: Samples,
}

pub(crate) async fn run() -> Result<()> {
    for callers in [1, 64] {
        let (serve, runners) = pools::serve_with_jobs(WARM_UP + JOBS).await?;
        let api = serve.api();
        let (first, rest) = runners.split_at(WARM_UP);
        all_jobs(api, first, 1)?;
        let floor_dir = tempfile::tempdir()?;
        let raw = RawSqlite::open(floor_dir.path())?;
        let (mut ours, mut took) = (Jobs::default(), Duration::ZERO);
        let (mut floor, mut floor_took) = (Samples::default(), Duration::ZERO);
        // By turns, since a disk has its moods, and both must meet the same ones.
        for (round, runners) in rest.chunks(JOBS / ROUNDS).enumerate() {
            let (jobs, span) = all_jobs(api, runners, callers)?;
            ours.extend(jobs);
            took += span;
            let (samples, span) = raw.transactions(round, 2 * runners.len(), ROWS, callers)?;
            floor.extend(samples);
            floor_took += span;
        }
        let jobs = ours.both.len();
        report(&json!({
            "name": format!("checkpoint_{callers}"),
            "callers": callers,
            "jobs": jobs,
            "create_p50_ms": ms(ours.creates.p50()),
            "create_p99_ms": ms(ours.creates.percentile(0.99)),
            "finalize_p50_ms": ms(ours.finalizes.p50()),
            "finalize_p99_ms": ms(ours.finalizes.percentile(0.99)),
            "p50_ms": ms(ours.both.p50()),
            "p99_ms": ms(ours.both.percentile(0.99)),
            "per_second": per_second(jobs, took),
            "floor_p50_ms": ms(floor.p50()),
            "floor_per_second": per_second(floor.len(), floor_took),
            "aim": if callers == 1 { 3.0 } else { 1.0 },
            // As for claims: one caller waits for its answers; of many, what a job costs is what counts.
            "ratio": match callers {
                1 => ratio(ours.both.p50().as_secs_f64(), 2.0 * floor.p50().as_secs_f64()),
                _ => ratio(took.as_secs_f64() / jobs as f64, 2.0 * floor_took.as_secs_f64() / floor.len() as f64),
            },
        }));
    }
    Ok(())
}

/// A job on each of the runners, by so many callers at once: what each took, and all of them together.
fn all_jobs(api: &Api, runners: &[RunnerId], callers: usize) -> Result<(Jobs, Duration)> {
    let connected: Vec<Caller> = (0..callers).map(|_| Caller::connect(api)).collect::<Result<_>>()?;
    let watch = Stopwatch::start();
    let threads: Vec<_> = connected
        .into_iter()
        .enumerate()
        .map(|(number, caller)| {
            let mine: Vec<RunnerId> = runners.iter().skip(number).step_by(callers).cloned().collect();
            std::thread::spawn(move || jobs(caller, &mine))
        })
        .collect();
    let mut all = Jobs::default();
    for thread in threads {
        all.extend(thread.join().map_err(|_| anyhow!("a caller panicked"))??);
    }
    Ok((all, watch.elapsed()))
}

fn jobs(mut caller: Caller, runners: &[RunnerId]) -> Result<Jobs> {
    let mut jobs = Jobs::default();
    for (number, runner) in runners.iter().enumerate() {
        caller.becomes(token(runner));
        let watch = Stopwatch::start();
        let created = caller.post("checkpoint/create", &json!({"job_id": format!("{number}")}))?;
        let first = watch.elapsed();
        let created = created.expect(201)?;
        let name = created["name"].as_str().context("a checkpoint without a name")?;
        let ended = json!({"checkpoint_name": name, "status": "success"});
        let watch = Stopwatch::start();
        let answer = caller.post("checkpoint/finalize", &ended)?;
        let second = watch.elapsed();
        let answer = answer.expect(202)?;
        ensure!(answer["detail"] == "Finalize queued", "it was finalized before: {answer}");
        jobs.creates.add(first);
        jobs.finalizes.add(second);
        jobs.both.add(first + second);
    }
    Ok(jobs)
}

impl Jobs {
    fn extend(&mut self, other: Self) {
        let Self { creates, finalizes, both } = other;
        self.creates.extend(creates);
        self.finalizes.extend(finalizes);
        self.both.extend(both);
    }
}
