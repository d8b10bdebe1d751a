//! What may be deleted, deleted: by a bounded walk over all rows that goes on where it stopped. It needs no index, so that keeping a row for
//! thirty days costs no write more than keeping it for ever.

use super::columns::{self, RowKey};
use super::{SqliteLedger, apply};
use motorpool_control::ports::ledger::LedgerError;
use motorpool_domain::Timestamp;
use rusqlite::Connection;
use std::sync::atomic::Ordering;

/// What one call of [`SqliteLedger::sweep_expired`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    pub looked_at: usize,
    pub deleted: usize,
    /// The walk came to its end: the next call begins anew.
    pub ended: bool,
}

const WALK: &str = "SELECT id, expires <= ?1, pk, sk FROM record WHERE id > ?2 ORDER BY id LIMIT ?3";

impl SqliteLedger {
    /// Looks at so many rows, from where the last call stopped, and deletes those that may be deleted at `now`. A failed call is done over by the
    /// next.
    pub async fn sweep_expired(&self, now: Timestamp, at_most_rows: usize) -> Result<Swept, LedgerError> {
        let attempted = || "delete what is no longer kept".to_owned();
        let now = columns::instant(now);
        let from = self.shared.swept_to.load(Ordering::Relaxed);
        let Walked { looked_at, to, expired } =
            self.read(at_most_rows, attempted, |connection| walk(connection, now, from, at_most_rows))?;
        let mut deleted = 0;
        if !expired.is_empty() {
            let delete = move |connection: &Connection| delete_all(connection, &expired, now);
            deleted = self.write(attempted, delete).await?;
        }
        let ended = looked_at < at_most_rows;
        self.shared.swept_to.store(if ended { 0 } else { to }, Ordering::Relaxed);
        Ok(Swept { looked_at, deleted, ended })
    }
}

struct Walked {
    looked_at: usize,
    /// The number of the last row.
    to: i64,
    expired: Vec<RowKey>,
}

fn walk(connection: &Connection, now: i64, from: i64, at_most_rows: usize) -> rusqlite::Result<Walked> {
    let mut statement = connection.prepare_cached(WALK)?;
    let mut rows = statement.query([now, from, columns::limit(at_most_rows)])?;
    let mut walked = Walked { looked_at: 0, to: from, expired: Vec::new() };
    while let Some(row) = rows.next()? {
        walked.looked_at += 1;
        walked.to = row.get(0)?;
        if row.get::<_, Option<bool>>(1)?.unwrap_or_default() {
            walked.expired.push(RowKey { pk: row.get(2)?, sk: row.get(3)? });
        }
    }
    Ok(walked)
}

/// How many of these were still expired.
fn delete_all(connection: &Connection, expired: &[RowKey], now: i64) -> rusqlite::Result<usize> {
    let mut deleted = 0;
    for key in expired {
        deleted += usize::from(apply::delete_expired(connection, key, now)?);
    }
    Ok(deleted)
}
