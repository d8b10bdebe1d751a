//! Readers: connections that only read, beside the writer and never waiting for it. A read is done on the thread that asks, for it takes
//! microseconds; each sees what was committed when it began.

use super::columns::{self, RowKey};
use motorpool_control::ports::ledger::{Children, Order, Placed, Span};
use motorpool_control::ports::tx::Stored;
use motorpool_domain::Timestamp;
use motorpool_domain::record::{Beside, Path};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::sync::{Condvar, Mutex, PoisonError};

#[derive(Debug)]
pub(super) struct Readers {
    free: Mutex<Vec<Connection>>,
    given_back: Condvar,
}

impl Readers {
    pub(super) fn new(connections: Vec<Connection>) -> Self {
        Self { free: Mutex::new(connections), given_back: Condvar::new() }
    }

    /// Reads on a free connection.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let taken = Taken { connection: Some(self.take()), from: self };
        taken.connection.as_ref().map_or(Err(rusqlite::Error::InvalidQuery), read)
    }

    fn take(&self) -> Connection {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match free.pop() {
                Some(connection) => return connection,
                None => free = self.given_back.wait(free).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// A connection that is given back however the read ends.
struct Taken<'a> {
    connection: Option<Connection>,
    from: &'a Readers,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.from.free.lock().unwrap_or_else(PoisonError::into_inner).extend(self.connection.take());
        self.from.given_back.notify_one();
    }
}

/// All that is read of a row, as [`stored`] reads it.
macro_rules! stored_columns {
    () => {
        "record.pk, record.sk, record.schema, record.doc, record.state, record.epoch, record.rev, record.counter, \
         (SELECT json_group_object(mark.name, mark.at) FROM mark WHERE mark.record = record.id)"
    };
}

const GET: &str = concat!("SELECT ", stored_columns!(), " FROM record WHERE pk = ?1 AND sk = ?2");
const LIST: &str = concat!(
    "SELECT place.sort, place.pk, place.sk, record.id IS NOT NULL, ",
    stored_columns!(),
    " FROM place LEFT JOIN record ON record.pk = place.pk AND record.sk = place.sk
      WHERE place.list = ?1 AND place.sort BETWEEN ?2 AND ?3
      ORDER BY place.sort, place.pk, place.sk LIMIT ?4"
);
const COUNT: &str =
    "SELECT count(*) FROM (SELECT 1 FROM place WHERE list = ?1 AND sort BETWEEN ?2 AND ?3 LIMIT ?4)";
const CHILDREN_RISING: &str = concat!(
    "SELECT ",
    stored_columns!(),
    " FROM record WHERE pk = ?1 AND sk BETWEEN ?2 AND ?3 ORDER BY sk LIMIT ?4"
);
const CHILDREN_FALLING: &str = concat!(
    "SELECT ",
    stored_columns!(),
    " FROM record WHERE pk = ?1 AND sk BETWEEN ?2 AND ?3 ORDER BY sk DESC LIMIT ?4"
);
const DUE: &str = "SELECT pk, sk FROM record WHERE due <= ?1 ORDER BY due, pk || sk LIMIT ?2";
const PING: &str = "SELECT count(*) FROM (SELECT 1 FROM record LIMIT 1)";

/// All of them as they were at one moment.
pub(super) fn get_all(connection: &Connection, paths: &[Path]) -> rusqlite::Result<Vec<Option<Stored>>> {
    if let [path] = paths {
        return Ok(vec![get(connection, path)?]);
    }
    connection.prepare_cached("BEGIN")?.execute([])?;
    let found = paths.iter().map(|path| get(connection, path)).collect();
    connection.prepare_cached("COMMIT")?.execute([])?;
    found
}

pub(super) fn get(connection: &Connection, path: &Path) -> rusqlite::Result<Option<Stored>> {
    let RowKey { pk, sk } = RowKey::from(path);
    connection.prepare_cached(GET)?.query_row([pk, sk], |row| stored(row, 0)).optional()
}

pub(super) fn list(connection: &Connection, span: &Span, at_most: usize) -> rusqlite::Result<Vec<Placed>> {
    let Span { list, low, high } = span;
    let mut statement = connection.prepare_cached(LIST)?;
    let rows = statement.query_map(params![list, low, high, columns::limit(at_most)], |row| {
        let there: bool = row.get(3)?;
        let stored = there.then(|| stored(row, 4)).transpose()?;
        Ok(Placed { sort: row.get(0)?, path: columns::path(row, 1)?, row: stored })
    })?;
    rows.collect()
}

pub(super) fn count(connection: &Connection, span: &Span, at_most: usize) -> rusqlite::Result<usize> {
    let Span { list, low, high } = span;
    let counted: i64 = connection
        .prepare_cached(COUNT)?
        .query_row(params![list, low, high, columns::limit(at_most)], |row| row.get(0))?;
    Ok(usize::try_from(counted).unwrap_or_default())
}

pub(super) fn children(
    connection: &Connection,
    children: &Children,
    at_most: usize,
) -> rusqlite::Result<Vec<Stored>> {
    let Children { of, low, high, order } = children;
    let mut statement = connection.prepare_cached(match order {
        Order::Rising => CHILDREN_RISING,
        Order::Falling => CHILDREN_FALLING,
    })?;
    let (low, high) = (columns::child(low), columns::child(high));
    let rows = statement
        .query_map(params![of.to_string(), low, high, columns::limit(at_most)], |row| stored(row, 0))?;
    rows.collect()
}

pub(super) fn due(connection: &Connection, now: Timestamp, at_most: usize) -> rusqlite::Result<Vec<Path>> {
    let mut statement = connection.prepare_cached(DUE)?;
    let rows =
        statement.query_map([columns::instant(now), columns::limit(at_most)], |row| columns::path(row, 0))?;
    rows.collect()
}

pub(super) fn ping(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached(PING)?.query_row([], |_| Ok(()))
}

/// The row whose columns begin at `first`.
fn stored(row: &Row<'_>, first: usize) -> rusqlite::Result<Stored> {
    Ok(Stored {
        path: columns::path(row, first)?,
        schema: row.get(first + 2)?,
        doc: row.get(first + 3)?,
        beside: Beside {
            version: columns::version(row, first + 4)?,
            counter: columns::number(row, first + 7)?,
            marks: columns::marks(row, first + 8)?,
        },
    })
}
