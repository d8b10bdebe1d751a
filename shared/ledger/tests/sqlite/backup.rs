//! A copy of a ledger that is being written, made by another process.

use crate::records::{begin_pairs, found, path, put, row, whole_pairs, write_pair};
use anyhow::{Context, Result, ensure};
use motorpool_control::ports::ledger::{Ledger, Touch};
use motorpool_ledger::sqlite::{SqliteError, SqliteLedger, backup};
use rusqlite::Connection;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::process::Command;
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_under_load_is_whole_and_can_be_started_from() -> Result<()> {
    let (dir, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let ledger = SqliteLedger::open(dir.path())?;
    begin_pairs(&ledger).await?;
    for of in 0..50 {
        write_pair(&ledger, &format!("before-{of:02}")).await?;
    }
    let enough = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let (ledger, enough) = (ledger.clone(), Arc::clone(&enough));
        callers.spawn(async move {
            let mut turn = 0;
            while !enough.load(Ordering::Relaxed) {
                write_pair(&ledger, &format!("{caller}-{turn}")).await?;
                turn += 1;
            }
            anyhow::Ok(turn)
        });
    }
    for copy in 0..3 {
        let to = elsewhere.path().join(format!("{copy}/ledger.db"));
        std::fs::create_dir(to.parent().context("no directory")?)?;
        copied_by_another_process(&dir.path().join("ledger.db"), &to).await?;
        assert_eq!(to.metadata()?.permissions().mode() & 0o777, 0o600);
    }
    enough.store(true, Ordering::Relaxed);
    while let Some(caller) = callers.join_next().await {
        ensure!(caller?? > 0, "a caller did nothing meanwhile");
    }

    let mut sizes = Vec::new();
    for copy in 0..3 {
        let started = SqliteLedger::open(&elsewhere.path().join(copy.to_string()))?;
        let there = whole_pairs(&started).await?;
        ensure!((0..50).all(|of| there.contains(&format!("before-{of:02}"))), "something is missing");
        write_pair(&started, "goes on").await?;
        sizes.push(there.len());
        let beside = elsewhere.path().join(format!("{copy}/ledger.db.part"));
        assert!(!beside.exists());
    }
    assert!(sizes.is_sorted(), "{sizes:?}");
    Ok(())
}

#[tokio::test]
async fn a_closed_ledger_is_copied_with_its_marks_and_counters() -> Result<()> {
    let (dir, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let ledger = SqliteLedger::open(dir.path())?;
    begin_pairs(&ledger).await?;
    write_pair(&ledger, "one").await?;
    let marks = vec![("seen".to_owned(), 7)];
    ledger.touch(&Touch { path: path("left", "one"), epoch: 1, unless: String::new(), marks }).await?;
    drop(ledger);
    backup(&dir.path().join("ledger.db"), &elsewhere.path().join("ledger.db"))?;
    for started in [elsewhere.path(), dir.path()] {
        let ledger = SqliteLedger::open(started)?;
        assert_eq!(whole_pairs(&ledger).await?.len(), 1);
        let left = found(&ledger, path("left", "one")).await?.context("it is gone")?;
        assert_eq!(left.beside.marks.get("seen"), Some(&7));
    }
    Ok(())
}

#[tokio::test]
async fn a_copy_replaces_nothing() -> Result<()> {
    let (dir, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let _ledger = SqliteLedger::open(dir.path())?;
    let to = elsewhere.path().join("there");
    std::fs::write(&to, "precious")?;
    let refused = backup(&dir.path().join("ledger.db"), &to);
    assert!(matches!(refused, Err(SqliteError::Exists { .. })), "{refused:?}");
    assert_eq!(std::fs::read(&to)?, b"precious");
    assert_eq!(elsewhere.path().read_dir()?.count(), 1);
    Ok(())
}

#[tokio::test]
async fn what_a_cut_off_copy_left_is_written_anew() -> Result<()> {
    let (dir, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let ledger = SqliteLedger::open(dir.path())?;
    ledger.commit(&put(row("runner", "r-1"))).await?;
    std::fs::write(elsewhere.path().join("ledger.db.part"), "half of a copy")?;
    backup(&dir.path().join("ledger.db"), &elsewhere.path().join("ledger.db"))?;
    let started = SqliteLedger::open(elsewhere.path())?;
    assert!(found(&started, path("runner", "r-1")).await?.is_some());
    Ok(())
}

#[test]
fn what_is_no_ledger_is_not_copied() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (other, to) = (dir.path().join("other.db"), dir.path().join("copy.db"));
    let refused = backup(&other, &to);
    assert!(matches!(refused, Err(SqliteError::Open { .. })), "{refused:?}");
    std::fs::write(
        &other,
        "a shopping list, and long enough to have a header that could be one: ".repeat(9),
    )?;
    let refused = backup(&other, &to);
    assert!(matches!(refused, Err(SqliteError::Foreign { .. })), "{refused:?}");
    std::fs::remove_file(&other)?;
    Connection::open(&other)?.execute_batch("CREATE TABLE items (pk TEXT)")?;
    let refused = backup(&other, &to);
    assert!(matches!(refused, Err(SqliteError::Foreign { .. })), "{refused:?}");
    assert!(!to.exists());
    Ok(())
}

async fn copied_by_another_process(ledger: &Path, to: &Path) -> Result<()> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--exact", "--ignored", "--nocapture", "backup::copies_a_ledger"])
        .envs([("LEDGER_FILE", ledger), ("LEDGER_COPY", to)])
        .output()
        .await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

#[test]
#[ignore = "the child of a test above"]
fn copies_a_ledger() -> Result<()> {
    let Some(ledger) = std::env::var_os("LEDGER_FILE") else { return Ok(()) };
    let to = std::env::var_os("LEDGER_COPY").context("where to?")?;
    Ok(backup(Path::new(&ledger), Path::new(&to))?)
}
