//! The log of a record: entries under its key, each written in the transaction that it tells of, or noted alone. Newest first.

use super::Store;
use super::listing::{self, Listed, Page};
use crate::ports::ledger::{Children, LedgerError, Order};
use crate::ports::tx::{Row, Stored, Tx};
use motorpool_domain::record::{Key, Path, Record, Version, padded};
use motorpool_domain::{AuditEntry, Timestamp};
use std::time::Duration;

/// Of an entry's form. A field that is only added needs no new one: an entry is never written again, so nobody who does not know it loses it.
const SCHEMA: u32 = 1;

/// What the name of every entry begins with.
pub(super) const LOG: &str = "log#";

impl Store {
    pub async fn audit(&self, subject: &Key, page: Page) -> Result<Listed<AuditEntry>, LedgerError> {
        let behind = listing::log_position(&page)?;
        // Both ends are included, so that the last page's entry comes once more.
        let more = usize::from(behind.is_some());
        let high = behind.clone().unwrap_or_else(|| format!("{LOG}~"));
        let children = Children { of: subject.clone(), low: LOG.to_owned(), high, order: Order::Falling };
        let mut found = self.ledger.children(&children, listing::to_read(&page) + more).await?;
        found.retain(|stored| behind.is_none() || stored.path.child != behind);
        let name = |stored: &Stored| stored.path.child.clone().unwrap_or_default();
        let Listed { items, next } = listing::cut(found, &page, name);
        Ok(Listed { items: items.iter().filter_map(read_or_skip).collect(), next })
    }

    /// An entry that belongs to no write of a record. It is known by what it says: noted twice, by a retry, it is there once.
    pub async fn note(&self, subject: &Key, entry: &AuditEntry) -> Result<(), LedgerError> {
        let AuditEntry { at, who, what, from, to, why, result: _, duration_ms: _ } = entry;
        let said = format!("{who:?}\n{what:?}\n{from:?}\n{to:?}\n{why:?}");
        let name = format!("{LOG}{}#note-{:016x}", padded(*at), stable_hash(&said));
        self.commit(&Tx::default().logged(entry_row(subject, name, entry)?)).await?;
        Ok(())
    }
}

/// The entry of the write that makes `record` what it is.
pub(super) fn of<R: Record>(record: &R, entry: &AuditEntry) -> Result<Row, LedgerError> {
    let Version { epoch, rev, .. } = record.version();
    let name = format!("{LOG}{}#{epoch:010}.{rev:010}", padded(entry.at));
    entry_row(&record.path().key, name, entry)
}

fn entry_row(subject: &Key, name: String, entry: &AuditEntry) -> Result<Row, LedgerError> {
    let doc =
        serde_json::to_string(entry).map_err(|error| LedgerError::failed("write a log entry", error))?;
    Ok(Row {
        path: Path::child(subject.clone(), name),
        version: Version::default(),
        schema: SCHEMA,
        doc,
        due: None,
        places: Vec::new(),
        lists: 0,
        kept_until: Some(kept_until(entry.at)),
    })
}

fn read_or_skip(stored: &Stored) -> Option<AuditEntry> {
    if stored.schema > SCHEMA {
        tracing::warn!(target: "alert", entry = %stored.path, "a log entry is of a newer version, and is not shown");
        return None;
    }
    let read = serde_json::from_str(&stored.doc);
    read.inspect_err(
        |error| tracing::warn!(target: "alert", entry = %stored.path, %error, "a log entry can't be read"),
    )
    .ok()
}

fn kept_until(at: Timestamp) -> Timestamp {
    const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
    at.after(KEPT)
}

/// FNV-1a: the same on every machine and in every version, unlike the standard library's.
fn stable_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
