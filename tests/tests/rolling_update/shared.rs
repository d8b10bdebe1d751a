//! A ledger that two versions share: this one's control plane over it, and rows that the other wrote, which must stay as they are.

use anyhow::{Context, Result, ensure};
use motorpool_control::Caller;
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::tx::{Committed, Op, Row, Stored, Tx, When};
use motorpool_domain::record::{Path, Record};
use motorpool_domain::{RunnerId, Timestamp};
use motorpool_ledger::MemoryLedger;
use motorpool_ledger::sqlite::SqliteLedger;
use motorpool_queues::InProcessQueue;
use motorpool_tests::harness::world::World;
use motorpool_wire::api::ClaimView;
use serde_json::{Value, json};
use std::sync::Arc;
use tempfile::TempDir;

/// A world on each ledger that needs no server, in turn.
pub(crate) async fn on_each_ledger(story: impl AsyncFn(&World) -> Result<()>) -> Result<()> {
    let dir = TempDir::new()?;
    let memory: Arc<dyn Ledger> = Arc::new(MemoryLedger::default());
    let sqlite: Arc<dyn Ledger> = Arc::new(SqliteLedger::open(dir.path())?);
    for (name, ledger) in [("in memory", memory), ("SQLite", sqlite)] {
        let world = World::on(ledger, Arc::new(InProcessQueue::default()), json!({})).await?;
        story(&world).await.context(name)?;
    }
    Ok(())
}

/// A claim for one runner that runs.
pub(crate) async fn ready(world: &World, workflow: &str) -> Result<ClaimView> {
    let claim = world.provision(workflow, 1).await?;
    world.agents_work().await?;
    let claim = world.claim(&claim).await?;
    ensure!(claim.state == "ready", "{claim:?}");
    Ok(claim)
}

pub(crate) async fn release(world: &World, workflow: &str) -> Result<ClaimView> {
    let request = serde_json::from_value(json!({"workflow": workflow}))?;
    Ok(world.control.release(&Caller::Operator, request).await?)
}

pub(crate) fn only_runner(claim: &ClaimView) -> Result<RunnerId> {
    ensure!(claim.runners.len() == 1, "{claim:?}");
    Ok(claim.runners.first().context("its runner")?.runner.clone())
}

/// Rows that this version must leave as they are.
#[derive(Debug)]
pub(crate) struct LeftAlone {
    paths: Vec<Path>,
    before: Vec<Option<Stored>>,
    due: Vec<Path>,
}

impl LeftAlone {
    /// Written by another version.
    pub(crate) async fn put(ledger: &dyn Ledger, rows: Vec<Row>) -> Result<Self> {
        for row in &rows {
            commit(ledger, Op::Put { row: row.clone(), when: When::Absent }).await?;
        }
        Self::of(ledger, &rows).await
    }

    /// A record of ours, as a newer version writes it: with a field and a schema that this one does not know.
    pub(crate) async fn raise<R: Record>(ledger: &dyn Ledger, record: &R) -> Result<Self> {
        let row = newer(record)?;
        let was = record.version();
        commit(ledger, Op::Replace { row: row.clone(), was, counter: None }).await?;
        Self::of(ledger, &[row]).await
    }

    async fn of(ledger: &dyn Ledger, rows: &[Row]) -> Result<Self> {
        let paths: Vec<Path> = rows.iter().map(|row| row.path.clone()).collect();
        let before = ledger.get(&paths).await?;
        ensure!(before.iter().all(Option::is_some), "all are there: {before:?}");
        let due = rows.iter().filter(|row| row.due.is_some()).map(|row| row.path.clone()).collect();
        Ok(Self { paths, before, due })
    }

    /// Byte for byte, with all that stands beside the document; and as due as before.
    pub(crate) async fn as_before(&self, ledger: &dyn Ledger) -> Result<()> {
        for (before, after) in self.before.iter().zip(ledger.get(&self.paths).await?) {
            ensure!(*before == after, "it was {before:?}\nand is {after:?}");
        }
        let due = ledger.due(Timestamp::from_millis(u64::MAX / 2), 1_000).await?;
        let missing: Vec<&Path> = self.due.iter().filter(|path| !due.contains(path)).collect();
        ensure!(missing.is_empty(), "nobody finds {missing:?} any more");
        Ok(())
    }
}

/// In the place of what another version wrote last: so it is readable again.
pub(crate) async fn put_back<R: Record>(ledger: &dyn Ledger, record: &R) -> Result<()> {
    commit(ledger, Op::Replace { row: Row::of(record)?, was: record.version(), counter: None }).await
}

fn newer<R: Record>(record: &R) -> Result<Row> {
    let row = Row::of(record)?;
    let mut doc: Value = serde_json::from_str(&row.doc)?;
    doc["lease"] = json!({"run": "run-1", "nonce": "7f3a"});
    Ok(Row { schema: R::SCHEMA + 1, doc: doc.to_string(), ..row })
}

async fn commit(ledger: &dyn Ledger, op: Op) -> Result<()> {
    let committed = ledger.commit(&Tx::default().with(op)).await?;
    ensure!(committed == Committed::Done, "{committed:?}");
    Ok(())
}
