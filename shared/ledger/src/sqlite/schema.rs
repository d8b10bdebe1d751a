//! The tables of a ledger's file, and how a file is known to be one.

use rusqlite::Connection;

/// `PRAGMA application_id`: what makes a database a ledger of ours ("Motp").
pub(super) const APPLICATION_ID: u32 = 0x4d6f_7470;
/// `PRAGMA user_version`: of these tables. A file of another version is refused.
pub(super) const VERSION: u32 = 1;

/// `record` is a table by number, with an index by key: without the number, SQLite puts a document of more than a kilobyte on pages of its own,
/// and each transaction writes up to half as many pages again. `place` and `record.places` say the same: the one for whoever reads a list, the other for
/// whoever moves the row. Nothing is indexed by `expires`: what is expired is found by walking, which costs no write.
const TABLES: &str = "
    CREATE TABLE record (
        id INTEGER PRIMARY KEY,
        pk TEXT NOT NULL,
        sk TEXT NOT NULL,
        state TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        rev INTEGER NOT NULL,
        counter INTEGER NOT NULL,
        due INTEGER,
        expires INTEGER,
        schema INTEGER NOT NULL,
        places TEXT,
        doc TEXT NOT NULL,
        UNIQUE (pk, sk)
    ) STRICT;
    CREATE INDEX due ON record (due) WHERE due IS NOT NULL;
    CREATE TABLE place (
        list TEXT NOT NULL,
        sort TEXT NOT NULL,
        pk TEXT NOT NULL,
        sk TEXT NOT NULL,
        PRIMARY KEY (list, sort, pk, sk)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE mark (
        record INTEGER NOT NULL,
        name TEXT NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (record, name)
    ) STRICT, WITHOUT ROWID;";

/// Makes an empty database a ledger, in one transaction.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "BEGIN; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; {TABLES} COMMIT;"
    ))
}

/// What a database says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) application_id: u32,
    pub(super) version: u32,
}

impl Identity {
    /// From the first bytes of a database file; nothing if it is none. What a log beside it has not yet written back
    /// is not in it.
    pub(super) fn in_header(header: &[u8]) -> Option<Self> {
        let word = |at: usize| header.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
        let is_database = header.starts_with(b"SQLite format 3\0");
        is_database.then_some(())?;
        Some(Self { application_id: word(68)?, version: word(60)? })
    }

    pub(super) fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let word = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
        Ok(Self {
            application_id: word("application_id")?.cast_unsigned(),
            version: word("user_version")?.cast_unsigned(),
        })
    }
}
