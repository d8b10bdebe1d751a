//! A disk that takes no more (fault 24): a clear error for all who share the commit (fault 26), nothing by half, and no restart needed once there is
//! room.

use crate::records::{begin_pairs, found, path, put, row, whole_pairs, write_pair};
use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::tx::{Row, Tx};
use motorpool_ledger::sqlite::{EngineError, SqliteError, SqliteLedger, backup};
use rusqlite::Connection;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A file system of its own, as large as this, in a mount namespace of the child's own.
const DISK: &str = "mount -t tmpfs -o size=1m tmpfs \"$LEDGER_DIR\" && exec \"$0\" \"$@\"";
/// A limit on the size of files, which needs no rights: what is beyond it fails as a broken disk does.
const LIMIT: &str = "trap '' XFSZ; ulimit -S -f 512; exec \"$0\" \"$@\"";

#[test]
fn fault_24_a_full_disk_is_an_error_and_recovered_from() -> Result<()> {
    let namespace: &[&str] = match [&["-m"][..], &["-m", "-r"]].into_iter().find(|flags| can_unshare(flags)) {
        Some(flags) => flags,
        None => {
            eprintln!("not shown here: this host gives nobody a mount namespace");
            return Ok(());
        }
    };
    let mut command = Command::new("unshare");
    command.args(namespace).args(["sh", "-c", DISK]);
    run(command, "full_disk::fills_the_disk")
}

#[test]
fn fault_24_a_disk_that_fails_is_an_error_and_recovered_from() -> Result<()> {
    let mut command = Command::new("sh");
    command.args(["-c", LIMIT]);
    run(command, "full_disk::reaches_the_limit")
}

#[tokio::test]
#[ignore = "the child of a test above"]
async fn fills_the_disk() -> Result<()> {
    let Some(dir) = std::env::var_os("LEDGER_DIR") else { return Ok(()) };
    let dir = Path::new(&dir);
    // Something else fills the disk, too, and can be deleted.
    let ballast = dir.join("ballast");
    fs::write(&ballast, vec![0; 512 << 10])?;
    let make_room = || Ok(fs::remove_file(&ballast)?);
    survive(&dir.join("ledger"), "is full", make_room).await?;

    // Nor is there room for a copy, and then nothing of it is left.
    let ledger = SqliteLedger::open(&dir.join("ledger"))?;
    let before = whole_pairs(&ledger).await?;
    fill(&ballast);
    let copy = dir.join("copy.db");
    let refused = backup(&dir.join("ledger/ledger.db"), &copy).err().context("it was copied")?;
    assert!(matches!(&refused, SqliteError::Copy { source, .. } if is_full(source)), "{refused:?}");
    assert!(!copy.exists() && !dir.join("copy.db.part").exists());
    drop(ledger);

    // Nor for a start.
    fill(&ballast);
    let refused = SqliteLedger::open(&dir.join("ledger")).err().context("it was opened")?;
    assert!(matches!(&refused, SqliteError::Open { source, .. } if is_full(source)), "{refused:?}");
    fs::remove_file(&ballast)?;
    assert_eq!(whole_pairs(&SqliteLedger::open(&dir.join("ledger"))?).await?, before);
    Ok(())
}

#[tokio::test]
#[ignore = "the child of a test above"]
async fn reaches_the_limit() -> Result<()> {
    let Some(dir) = std::env::var_os("LEDGER_DIR") else { return Ok(()) };
    let make_room = || {
        let maximum = getrlimit(Resource::Fsize).maximum;
        Ok(setrlimit(Resource::Fsize, Rlimit { current: maximum, maximum })?)
    };
    survive(Path::new(&dir), "can't be read or written", make_room).await
}

async fn survive(dir: &Path, said: &str, make_room: impl FnOnce() -> Result<()>) -> Result<()> {
    let ledger = SqliteLedger::open(dir)?;
    begin_pairs(&ledger).await?;
    let mut acknowledged = Vec::new();
    let refused = loop {
        let id = format!("alone-{}", acknowledged.len());
        match write_pair(&ledger, &id).await {
            Ok(()) => acknowledged.push(id),
            Err(refused) => break refused,
        }
        ensure!(acknowledged.len() < 10_000, "the disk takes everything");
    };
    assert!(format!("{refused:#}").contains(said), "{refused:#}");

    // They all wait for another's hold on the file, and then share a commit that fails.
    let holder = Connection::open(dir.join("ledger.db"))?;
    holder.execute_batch("BEGIN IMMEDIATE")?;
    let large: Vec<_> = (0..64).map(|of| put_large(&format!("{of}"))).collect();
    let mut callers = Box::pin(join_all(large.iter().map(|tx| ledger.commit(tx))));
    assert!(futures_util::poll!(&mut callers).is_pending());
    holder.execute_batch("ROLLBACK")?;
    drop(holder);
    for answer in callers.await {
        let refused = anyhow::Error::from(answer.err().context("it was committed")?);
        assert!(format!("{refused:#}").contains(said), "{refused:#}");
    }
    for of in 0..64 {
        assert_eq!(found(&ledger, path("large", &format!("{of}"))).await?, None);
    }
    // What was written can still be read.
    assert_eq!(whole_pairs(&ledger).await?.len(), acknowledged.len());

    make_room()?;
    for turn in 0..20 {
        let id = format!("after-{turn}");
        write_pair(&ledger, &id).await?;
        acknowledged.push(id);
    }
    drop(ledger);
    let there = whole_pairs(&SqliteLedger::open(dir)?).await?;
    assert_eq!(there, acknowledged.into_iter().collect());
    Ok(())
}

/// Larger than the disk: no room that the log finds by being written back is enough for one of them.
fn put_large(id: &str) -> Tx {
    let doc = format!("{{\"text\":\"{}\"}}", "d".repeat(1 << 20));
    put(Row { doc, ..row("large", id) })
}

fn is_full(error: &EngineError) -> bool {
    matches!(error, EngineError::DiskFull { .. })
}

/// Until nothing more goes in.
fn fill(file: &Path) {
    let append = || fs::OpenOptions::new().append(true).create(true).open(file)?.write_all(&[0; 512]);
    while append().is_ok() {}
}

/// This very program under the command, with one of its tests.
fn run(mut command: Command, test: &str) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let output = command
        .arg(std::env::current_exe()?)
        .args(["--exact", "--ignored", "--nocapture", test])
        .env("LEDGER_DIR", dir.path())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn can_unshare(flags: &[&str]) -> bool {
    let mounts = "mount -t tmpfs -o size=1m tmpfs /tmp";
    let tried = Command::new("unshare").args(flags).args(["sh", "-c", mounts]).output();
    tried.is_ok_and(|tried| tried.status.success())
}
