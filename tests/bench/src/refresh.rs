//! Refresh's due pass with ten due, of ever more records: its calls and its time should not grow with them. The floor is our own pass
//! over the fewest.

use crate::clock::Stopwatch;
use crate::report;
use crate::samples::{Samples, ms, ratio};
use anyhow::{Result, ensure};
use motorpool_control::ports::ledger::Ledger;
use motorpool_ledger::DynamoLedger;
use motorpool_ledger::create_table_on_aws;
use motorpool_ledger::embedded::EmbeddedEngine;
use motorpool_queues::InProcessQueue;
use motorpool_tests::counting::Counting;
use motorpool_tests::seeded;
use motorpool_tests::world::{World, pool};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const DUE: usize = 10;
const PASSES: usize = 20;

pub(crate) async fn run() -> Result<()> {
    let mut fewest = None;
    for records in [100, 1_000, 10_000, 100_000] {
        let (samples, calls) = passes(records).await?;
        let p50 = samples.p50().as_secs_f64();
        let floor = *fewest.get_or_insert(p50);
        report(&json!({
            "name": format!("refresh_{records}"),
            "records": records,
            "due": DUE,
            "calls": calls.values().sum::<u32>(),
            "calls_by_name": calls,
            "p50_ms": ms(samples.p50()),
            "p99_ms": ms(samples.percentile(0.99)),
            "ratio": ratio(p50, floor),
        }));
    }
    Ok(())
}

/// Passes in each of which ten more have been idle for too long, and what the last of them called.
async fn passes(records: usize) -> Result<(Samples, BTreeMap<String, u32>)> {
    let dir = tempfile::tempdir()?;
    let engine = EmbeddedEngine::open(dir.path())?;
    let counting = Counting::new(engine.http_client());
    let config = motorpool_aws::emulated("http://embedded.invalid").await;
    let config = config.into_builder().http_client(counting.clone()).build();
    create_table_on_aws(&config, "motorpool").await?;
    let ledger: Arc<dyn Ledger> = Arc::new(DynamoLedger::on_aws(&config, "motorpool"));
    let settings = json!({"max": 1_000, "heartbeat_seconds": 3600});
    let world = World::on(Arc::clone(&ledger), Arc::new(InProcessQueue::default()), settings).await?;
    world.refresh().await?;
    let now = world.now();
    let idle = |number: usize| match number / DUE {
        pass if pass < PASSES => Duration::from_secs(10 * (1 + pass as u64)),
        _ => Duration::from_secs(36_000),
    };
    let count = records.max(DUE * PASSES);
    let runners = (0..count).map(|number| seeded::idle(&pool()?, number, false, idle(number), now));
    let runners = runners.collect::<Result<Vec<_>>>()?;
    seeded::write(&ledger, &runners, now).await?;
    let (mut samples, mut calls) = (Samples::default(), BTreeMap::new());
    for _ in 0..PASSES {
        world.clock.turn(Duration::from_secs(10));
        counting.take();
        let watch = Stopwatch::start();
        let report = world.refresh().await?;
        samples.add(watch.elapsed());
        calls = counting.take();
        ensure!(usize::try_from(report.reaped) == Ok(DUE) && !report.swept, "{report:?}");
    }
    Ok((samples, calls))
}
