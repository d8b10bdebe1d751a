//! Whose file it is, which files it takes and which it refuses, and when it is given back.

use crate::records::{found, path, put, row};
use anyhow::{Context, Result, ensure};
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::tx::Committed;
use motorpool_ledger::sqlite::{SqliteError, SqliteLedger};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[tokio::test]
async fn one_process_owns_it_and_nobody_else_reads_it() -> Result<()> {
    let parent = tempfile::tempdir()?;
    let dir = parent.path().join("not/there");
    let ledger = SqliteLedger::open(&dir)?;
    ledger.commit(&put(row("runner", "r-1"))).await?;

    let mode = |path: &Path| Ok::<_, anyhow::Error>(path.metadata()?.permissions().mode() & 0o777);
    assert_eq!(mode(&dir)?, 0o700);
    let mut names = Vec::new();
    for entry in dir.read_dir()? {
        let path = entry?.path();
        assert_eq!(mode(&path)?, 0o600, "{}", path.display());
        names.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    assert_eq!(names, ["ledger.db", "ledger.db-shm", "ledger.db-wal", "ledger.lock"]);

    let refused = refusal(&dir)?;
    assert!(matches!(refused, SqliteError::Locked { .. }), "{refused:?}");
    assert!(refused.to_string().contains("ledger.lock"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn the_last_handle_gives_it_back() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let first = SqliteLedger::open(dir.path())?;
    let second = first.clone();
    first.commit(&put(row("runner", "r-1"))).await?;
    drop(first);
    assert!(matches!(refusal(dir.path())?, SqliteError::Locked { .. }));
    second.commit(&put(row("runner", "r-2"))).await?;
    assert!(found(&second, path("runner", "r-1")).await?.is_some());
    drop(second);

    // All is in the one file then.
    let names: Vec<_> = contents(dir.path())?.into_keys().collect();
    assert_eq!(names, ["ledger.db", "ledger.lock"]);
    let again = SqliteLedger::open(dir.path())?;
    for id in ["r-1", "r-2"] {
        assert!(found(&again, path("runner", id)).await?.is_some(), "{id}");
    }
    again.ping().await?;
    Ok(())
}

/// What an engine that stood here before left: a database in the same place, with tables of its own.
#[test]
fn an_older_ledger_is_refused_and_left_as_it_is() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let older = Connection::open(dir.path().join("ledger.db"))?;
    older.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    older
        .execute_batch("CREATE TABLE items (pk TEXT, item BLOB); INSERT INTO items VALUES ('r-1', x'00')")?;
    // As a killed process leaves it: with its log.
    older.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    drop(older);
    refused_untouched(dir.path(), |refused| {
        matches!(refused, SqliteError::Foreign { .. })
            && refused.to_string().contains("Move it away")
            && refused.to_string().contains("the version that made it")
    })
}

#[test]
fn what_is_no_database_is_refused_and_left_as_it_is() -> Result<()> {
    let dir = tempfile::tempdir()?;
    fs::write(dir.path().join("ledger.db"), "a shopping list")?;
    refused_untouched(dir.path(), |refused| matches!(refused, SqliteError::Foreign { .. }))
}

#[test]
fn a_newer_ledger_is_refused_and_left_as_it_is() -> Result<()> {
    let dir = tempfile::tempdir()?;
    drop(SqliteLedger::open(dir.path())?);
    let newer = Connection::open(dir.path().join("ledger.db"))?;
    newer.pragma_update(None, "user_version", 7)?;
    drop(newer);
    refused_untouched(dir.path(), |refused| {
        matches!(refused, SqliteError::Version { found: 7, .. }) && refused.to_string().contains("format 7")
    })
}

/// A newer version was killed before it wrote its log back: the file itself still says that it is of this one.
#[test]
fn a_newer_ledger_is_known_by_its_log_too() -> Result<()> {
    let dir = tempfile::tempdir()?;
    drop(SqliteLedger::open(dir.path())?);
    let file = dir.path().join("ledger.db");
    let newer = Connection::open(&file)?;
    newer.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    newer.pragma_update(None, "user_version", 7)?;
    drop(newer);
    let (database, log) = (fs::read(&file)?, fs::read(dir.path().join("ledger.db-wal"))?);
    assert!(matches!(refusal(dir.path())?, SqliteError::Version { found: 7, .. }));
    assert_eq!(fs::read(&file)?, database);
    assert_eq!(fs::read(dir.path().join("ledger.db-wal"))?, log);
    Ok(())
}

/// SQLite would read it into the next database of that name.
#[test]
fn a_log_without_its_ledger_is_refused() -> Result<()> {
    let dir = tempfile::tempdir()?;
    fs::write(dir.path().join("ledger.db-wal"), "of another")?;
    refused_untouched(dir.path(), |refused| {
        matches!(refused, SqliteError::LeftBehind { .. }) && refused.to_string().contains("ledger.db-wal")
    })
}

#[tokio::test]
async fn a_start_that_was_cut_off_is_done_over() -> Result<()> {
    let dir = tempfile::tempdir()?;
    fs::write(dir.path().join("ledger.db"), "")?;
    fs::write(dir.path().join("ledger.db.new"), "half of")?;
    fs::write(dir.path().join("ledger.db.new-journal"), "half of")?;
    let ledger = SqliteLedger::open(dir.path())?;
    ensure!(ledger.commit(&put(row("runner", "r-1"))).await? == Committed::Done);
    Ok(())
}

#[test]
fn a_file_that_others_can_read_is_closed_to_them() -> Result<()> {
    let dir = tempfile::tempdir()?;
    drop(SqliteLedger::open(dir.path())?);
    let file = dir.path().join("ledger.db");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
    let _ledger = SqliteLedger::open(dir.path())?;
    assert_eq!(file.metadata()?.permissions().mode() & 0o777, 0o600);
    Ok(())
}

fn refused_untouched(dir: &Path, as_said: impl Fn(&SqliteError) -> bool) -> Result<()> {
    let mut before = contents(dir)?;
    let refused = refusal(dir)?;
    assert!(as_said(&refused), "{refused}");
    before.insert("ledger.lock".to_owned(), Vec::new());
    assert!(contents(dir)? == before, "something was changed");
    Ok(())
}

fn refusal(dir: &Path) -> Result<SqliteError> {
    SqliteLedger::open(dir).err().context("it was opened")
}

fn contents(dir: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut contents = BTreeMap::new();
    for entry in dir.read_dir()? {
        let entry = entry?;
        contents.insert(entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?);
    }
    Ok(contents)
}
