//! When the log (WAL) is written back into the database, so that it can begin anew and does not grow without bound. Done between commits, when
//! the callers have their answers: a write-back is nothing that they wait for, and if it fails, theirs did not.

use super::error::EngineError;
use rusqlite::Connection;
use rusqlite::hooks::Wal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// So many pages (4 KiB each) the log has before it is written back. With fewer, the pages that every transaction changes are written back more
/// often: with a quarter of this, 64 callers had about a quarter fewer commits.
const MOST_PAGES: i64 = 4000;

/// When it begins anew, a log that is longer is cut to this: some reader had kept it from doing so before.
pub(super) const LONGEST_RESTING_BYTES: i64 = 6000 * 4096;

#[derive(Debug)]
pub(super) struct Log {
    /// How many pages it has, as SQLite says after each commit. Asking by a `PRAGMA`, which is parsed anew each time, would cost as much as a small
    /// commit.
    pages: Arc<AtomicI64>,
    /// Written back from so many pages on: more than [`MOST_PAGES`] while a reader, such as a copy that takes long, keeps the log from beginning
    /// anew.
    from_pages: i64,
    failed: bool,
}

impl Log {
    /// The log of the connection that writes.
    pub(super) fn watch(connection: &mut Connection) -> rusqlite::Result<Self> {
        let pages = Arc::new(AtomicI64::new(0));
        let told = Arc::clone(&pages);
        connection.wal_hook(Some(move |_: &mut Wal, count: i32| {
            told.store(i64::from(count), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { pages, from_pages: MOST_PAGES, failed: false })
    }

    /// It is to be written back after the next commit.
    pub(super) fn is_long(&mut self) -> bool {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < MOST_PAGES {
            self.from_pages = MOST_PAGES;
        }
        pages >= self.from_pages
    }

    /// If it is long; and after a commit that failed, for then what was written back can make room for the next.
    pub(super) fn write_back(&mut self, connection: &Connection, file: &Path, after_failure: bool) {
        match self.attempt(connection, after_failure) {
            Ok(()) => self.failed = false,
            // Nothing is lost: the log has it all. Said once, for it is tried again with every commit.
            Err(source) if !self.failed => {
                self.failed = true;
                let error = EngineError::of(file, source);
                tracing::warn!(%error, "the ledger's log could not be written back; it will be tried again");
            }
            Err(_) => {}
        }
    }

    fn attempt(&mut self, connection: &Connection, after_failure: bool) -> rusqlite::Result<()> {
        if !self.is_long() && !after_failure {
            return Ok(());
        }
        // Waits for nobody.
        let Pages { in_log, written_back } = checkpoint(connection)?;
        self.from_pages = if written_back < in_log { in_log + MOST_PAGES } else { MOST_PAGES };
        Ok(())
    }
}

struct Pages {
    in_log: i64,
    written_back: i64,
}

fn checkpoint(connection: &Connection) -> rusqlite::Result<Pages> {
    let pages = |row: &rusqlite::Row<'_>| Ok(Pages { in_log: row.get(1)?, written_back: row.get(2)? });
    connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?.query_row([], pages)
}
