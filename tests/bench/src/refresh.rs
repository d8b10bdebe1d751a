//! Refresh's due pass with ten due, of ever more records: its calls and its time should not grow with them. The floor is our own pass
//! over the fewest.

use crate::clock::Stopwatch;
use crate::report;
use crate::samples::{Samples, ms, ratio};
use anyhow::{Result, ensure};
use motorpool_ledger::sqlite::SqliteLedger;
use motorpool_queues::InProcessQueue;
use motorpool_tests::fakes::counted::{Calls, Counted};
use motorpool_tests::harness::seeded;
use motorpool_tests::harness::world::{World, pool};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const DUE: usize = 10;
/// So many that the fewest records are all due once.
const PASSES: usize = 10;

pub(crate) async fn run() -> Result<()> {
    let mut ledgers = Vec::new();
    for records in [100, 1_000, 10_000, 100_000] {
        ledgers.push(Records::new(records).await?);
    }
    // By turns, since a disk has its moods, and all must meet the same ones.
    for _ in 0..PASSES {
        for ledger in &mut ledgers {
            ledger.pass().await?;
        }
    }
    let floor = ledgers.first().map_or(1.0, |fewest| fewest.samples.p50().as_secs_f64());
    for Records { records, samples, calls, .. } in &ledgers {
        report(&json!({
            "name": format!("refresh_{records}"),
            "records": records,
            "due": DUE,
            "calls": calls.values().sum::<u32>(),
            "calls_by_name": calls,
            "p50_ms": ms(samples.p50()),
            "p99_ms": ms(samples.percentile(0.99)),
            "ratio": ratio(samples.p50().as_secs_f64(), floor),
        }));
    }
    Ok(())
}

/// A ledger in a file with so many records, of which ten more have been idle for too long at each pass.
struct Records {
    records: usize,
    world: World,
    counted: Counted,
    samples: Samples,
    /// Of the last pass.
    calls: Calls,
    _dir: TempDir,
}

impl Records {
    async fn new(records: usize) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let counted = Counted::new(Arc::new(SqliteLedger::open(dir.path())?));
        let settings = json!({"max": 1_000, "heartbeat_seconds": 3600});
        let world =
            World::on(Arc::new(counted.clone()), Arc::new(InProcessQueue::default()), settings).await?;
        world.refresh().await?;
        let now = world.now();
        let idle = |number: usize| match number / DUE {
            pass if pass < PASSES => Duration::from_secs(10 * (1 + pass as u64)),
            _ => Duration::from_secs(36_000),
        };
        let runners = (0..records).map(|number| seeded::idle(&pool()?, number, false, idle(number), now));
        let runners = runners.collect::<Result<Vec<_>>>()?;
        seeded::write(&world.store, &runners, now).await?;
        Ok(Self { records, world, counted, samples: Samples::default(), calls: Calls::new(), _dir: dir })
    }

    async fn pass(&mut self) -> Result<()> {
        self.world.clock.turn(Duration::from_secs(10));
        self.counted.take();
        let watch = Stopwatch::start();
        let report = self.world.refresh().await?;
        self.samples.add(watch.elapsed());
        self.calls = self.counted.take();
        ensure!(usize::try_from(report.reaped) == Ok(DUE) && !report.swept, "{report:?}");
        Ok(())
    }
}
