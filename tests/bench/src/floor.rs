//! The floor: raw SQLite, in a file of its own on the same disk, with the durability that the embedded ledger has.

use crate::clock::Stopwatch;
use crate::samples::Samples;
use anyhow::{Context, Result};
use rusqlite::{Connection, params};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct RawSqlite {
    connection: Arc<Mutex<Connection>>,
}

/// About as long as a record of ours.
const ROW: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
                   0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
                   0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
                   0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
                   0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

impl RawSqlite {
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let connection = Connection::open(dir.join("floor.db")).context("the floor's database")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch("CREATE TABLE rows (pk TEXT, sk TEXT, doc TEXT, PRIMARY KEY (pk, sk))")?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    /// `count` transactions of `rows` new rows each, by so many threads at once: what each took, and all of them together.
    pub(crate) fn transactions(
        &self,
        round: usize,
        count: usize,
        rows: usize,
        callers: usize,
    ) -> Result<(Samples, Duration)> {
        let watch = Stopwatch::start();
        let threads: Vec<_> = (0..callers)
            .map(|caller| {
                let connection = Arc::clone(&self.connection);
                std::thread::spawn(move || some(&connection, round, caller, count / callers, rows))
            })
            .collect();
        let mut all = Samples::default();
        for thread in threads {
            all.extend(thread.join().map_err(|_| anyhow::anyhow!("a writer of the floor panicked"))??);
        }
        Ok((all, watch.elapsed()))
    }
}

fn some(
    connection: &Mutex<Connection>,
    round: usize,
    caller: usize,
    count: usize,
    rows: usize,
) -> Result<Samples> {
    let mut samples = Samples::default();
    for number in 0..count {
        let watch = Stopwatch::start();
        let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = connection.transaction()?;
        for row in 0..rows {
            let mut put = transaction.prepare_cached("INSERT OR REPLACE INTO rows VALUES (?1, ?2, ?3)")?;
            put.execute(params![format!("{round}-{caller}-{number}"), format!("{row}"), ROW])?;
        }
        transaction.commit()?;
        drop(connection);
        samples.add(watch.elapsed());
    }
    Ok(samples)
}
