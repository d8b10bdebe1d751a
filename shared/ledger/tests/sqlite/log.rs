//! The log (WAL) does not grow without bound, and shrinks again after a reader has kept it.

use crate::records::{put, row};
use anyhow::{Result, ensure};
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::tx::{Committed, Row};
use motorpool_ledger::sqlite::SqliteLedger;
use rusqlite::Connection;
use std::path::Path;

const MIB: u64 = 1 << 20;

#[tokio::test]
async fn the_log_is_bounded_and_begins_anew_once_nobody_reads_it() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ledger = SqliteLedger::open(dir.path())?;
    write(&ledger, "first", 40).await?;
    let bound = log_bytes(dir.path())?;
    ensure!(bound < 20 * MIB, "{bound}");

    // A reader that takes long, such as a copy, needs what the log had then.
    let reader = Connection::open(dir.path().join("ledger.db"))?;
    reader.execute_batch("BEGIN; SELECT count(*) FROM record")?;
    write(&ledger, "second", 40).await?;
    ensure!(log_bytes(dir.path())? > 40 * MIB, "the reader did not keep it");
    reader.execute_batch("COMMIT")?;
    write(&ledger, "third", 40).await?;
    let after = log_bytes(dir.path())?;
    ensure!(after < 28 * MIB, "{after}");
    Ok(())
}

/// So many MiB.
async fn write(ledger: &SqliteLedger, turn: &str, mebibytes: usize) -> Result<()> {
    for of in 0..mebibytes {
        let doc = format!("{{\"text\":\"{}\"}}", "d".repeat(1 << 20));
        let large = Row { doc, ..row("large", &format!("{turn}-{of}")) };
        ensure!(ledger.commit(&put(large)).await? == Committed::Done);
    }
    Ok(())
}

fn log_bytes(dir: &Path) -> Result<u64> {
    Ok(dir.join("ledger.db-wal").metadata()?.len())
}
