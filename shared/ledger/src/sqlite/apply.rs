//! What one caller wants written, on the writer's connection and inside of its transaction. Every condition is looked at before anything is
//! written, so that a refused transaction says of each operation whether it held.

use super::columns::{self, RowKey};
use super::read;
use motorpool_control::ports::ledger::Touch;
use motorpool_control::ports::tx::{Committed, Held, Op, Row, Tx, When};
use motorpool_domain::record::{Place, Version};
use rusqlite::{Connection, OptionalExtension, params};

const HEAD: &str =
    "SELECT id, state, epoch, rev, counter, due, expires, places FROM record WHERE pk = ?1 AND sk = ?2";
const INSERT: &str =
    "INSERT INTO record (pk, sk, state, epoch, rev, counter, expires, schema, places, doc, due)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
const UPDATE: &str = "UPDATE record
     SET state = ?2, epoch = ?3, rev = ?4, counter = ?5, expires = ?6, schema = ?7, places = ?8, doc = ?9, due = ?10
     WHERE id = ?1";
/// For a row that is due when it was: SQLite writes an index anew if one of its columns is set, whatever to.
const UPDATE_BUT_DUE: &str = "UPDATE record
     SET state = ?2, epoch = ?3, rev = ?4, counter = ?5, expires = ?6, schema = ?7, places = ?8, doc = ?9
     WHERE id = ?1 AND due IS ?10";
const SET_COUNTER: &str = "UPDATE record SET counter = ?2 WHERE id = ?1";
const DELETE: &str = "DELETE FROM record WHERE id = ?1";
const ENTER_PLACE: &str = "INSERT OR IGNORE INTO place (list, sort, pk, sk) VALUES (?1, ?2, ?3, ?4)";
const LEAVE_PLACE: &str = "DELETE FROM place WHERE list = ?1 AND sort = ?2 AND pk = ?3 AND sk = ?4";
const MARK: &str = "INSERT INTO mark (record, name, at) VALUES (?1, ?2, ?3)
     ON CONFLICT (record, name) DO UPDATE SET at = excluded.at";
const FORGET_MARKS: &str = "DELETE FROM mark WHERE record = ?1";

pub(super) fn commit(connection: &Connection, tx: &Tx) -> rusqlite::Result<Committed> {
    let mut ops = Vec::with_capacity(tx.ops.len());
    for op in &tx.ops {
        let key = RowKey::from(op.path());
        let head = Head::find(connection, &key)?;
        ops.push((op, key, head));
    }
    if !ops.iter().all(|(op, _, head)| holds(op, head.as_ref())) {
        let held = ops.iter().map(|(op, _, head)| held(connection, op, head.as_ref()));
        return Ok(Committed::Refused(held.collect::<rusqlite::Result<_>>()?));
    }
    for (op, key, head) in ops {
        write(connection, op, &key, head)?;
    }
    for row in &tx.log {
        let key = RowKey::from(&row.path);
        let head = Head::find(connection, &key)?;
        put(connection, row, &key, head)?;
    }
    Ok(Committed::Done)
}

pub(super) fn touch(connection: &Connection, touch: &Touch) -> rusqlite::Result<()> {
    let Touch { path, epoch, unless, marks } = touch;
    let Some(head) = Head::find(connection, &RowKey::from(path))? else { return Ok(()) };
    if head.version.epoch != *epoch || head.version.state == *unless {
        return Ok(());
    }
    for (name, at) in marks {
        connection.prepare_cached(MARK)?.execute(params![head.id, name, columns::bits(*at)])?;
    }
    Ok(())
}

/// Deletes a row that is expired at this instant; says whether it was.
pub(super) fn delete_expired(connection: &Connection, key: &RowKey, now: i64) -> rusqlite::Result<bool> {
    match Head::find(connection, key)? {
        Some(head) if head.expires.is_some_and(|expires| expires <= now) => {
            delete(connection, key, head)?;
            Ok(true)
        }
        Some(_) | None => Ok(false),
    }
}

/// What a row has besides its document, which may be long.
struct Head {
    id: i64,
    version: Version,
    counter: u64,
    due: Option<i64>,
    expires: Option<i64>,
    places: Option<String>,
}

impl Head {
    fn find(connection: &Connection, key: &RowKey) -> rusqlite::Result<Option<Self>> {
        let head = |row: &rusqlite::Row<'_>| {
            Ok(Self {
                id: row.get(0)?,
                version: columns::version(row, 1)?,
                counter: columns::number(row, 4)?,
                due: row.get(5)?,
                expires: row.get(6)?,
                places: row.get(7)?,
            })
        };
        connection.prepare_cached(HEAD)?.query_row([&key.pk, &key.sk], head).optional()
    }

    fn is(&self, version: &Version, counter: Option<u64>) -> bool {
        self.version == *version && counter.is_none_or(|counter| counter == self.counter)
    }
}

fn holds(op: &Op, head: Option<&Head>) -> bool {
    match op {
        Op::Put { when, .. } | Op::Check { when, .. } => match when {
            When::Always => true,
            When::Absent => head.is_none(),
            When::Is(version) => head.is_some_and(|head| head.is(version, None)),
        },
        Op::Replace { was, counter, .. } | Op::Delete { was, counter, .. } => {
            head.is_some_and(|head| head.is(was, *counter))
        }
        Op::Add { path: _, was, by, at_least, at_most } => {
            let head = head.filter(|head| was.as_ref().is_none_or(|was| head.is(was, None)));
            let sum = head.and_then(|head| head.counter.checked_add_signed(*by));
            sum.is_some_and(|sum| (*at_least..=*at_most).contains(&sum))
        }
    }
}

fn held(connection: &Connection, op: &Op, head: Option<&Head>) -> rusqlite::Result<Held> {
    if holds(op, head) {
        return Ok(Held::Yes);
    }
    Ok(Held::No { found: read::get(connection, op.path())?.map(Box::new) })
}

/// An operation whose condition holds for what was found.
fn write(connection: &Connection, op: &Op, key: &RowKey, head: Option<Head>) -> rusqlite::Result<()> {
    match (op, head) {
        (Op::Put { row, .. }, head) => put(connection, row, key, head),
        (Op::Replace { row, .. }, Some(head)) => replace(connection, row, key, head),
        (Op::Add { by, .. }, Some(head)) => {
            let counter = columns::bits(head.counter.wrapping_add_signed(*by));
            connection.prepare_cached(SET_COUNTER)?.execute([head.id, counter])?;
            Ok(())
        }
        (Op::Delete { .. }, Some(head)) => delete(connection, key, head),
        (Op::Check { .. }, _) | (Op::Replace { .. } | Op::Add { .. } | Op::Delete { .. }, None) => Ok(()),
    }
}

/// A whole new row.
fn put(connection: &Connection, row: &Row, key: &RowKey, head: Option<Head>) -> rusqlite::Result<()> {
    let Some(head) = head else { return insert(connection, row, key) };
    connection.prepare_cached(FORGET_MARKS)?.execute([head.id])?;
    replace(connection, row, key, Head { counter: 0, ..head })
}

fn insert(connection: &Connection, row: &Row, key: &RowKey) -> rusqlite::Result<()> {
    let Row {
        path: _,
        version: Version { state, epoch, rev },
        schema,
        doc,
        due,
        places,
        lists: _,
        kept_until,
    } = row;
    connection.prepare_cached(INSERT)?.execute(params![
        key.pk,
        key.sk,
        state,
        columns::bits(*epoch),
        columns::bits(*rev),
        columns::bits(0),
        kept_until.map(columns::instant),
        schema,
        columns::places_text(places),
        doc,
        due.map(columns::instant),
    ])?;
    move_places(connection, key, None, places)
}

/// Another document in the place of the one found. The counter stays as `head` has it, and so do the marks.
fn replace(connection: &Connection, row: &Row, key: &RowKey, head: Head) -> rusqlite::Result<()> {
    let Row {
        path: _,
        version: Version { state, epoch, rev },
        schema,
        doc,
        due,
        places,
        lists: _,
        kept_until,
    } = row;
    let due = due.map(columns::instant);
    let update = if due == head.due { UPDATE_BUT_DUE } else { UPDATE };
    connection.prepare_cached(update)?.execute(params![
        head.id,
        state,
        columns::bits(*epoch),
        columns::bits(*rev),
        columns::bits(head.counter),
        kept_until.map(columns::instant),
        schema,
        columns::places_text(places),
        doc,
        due,
    ])?;
    move_places(connection, key, head.places.as_deref(), places)
}

fn delete(connection: &Connection, key: &RowKey, head: Head) -> rusqlite::Result<()> {
    connection.prepare_cached(FORGET_MARKS)?.execute([head.id])?;
    connection.prepare_cached(DELETE)?.execute([head.id])?;
    move_places(connection, key, head.places.as_deref(), &[])
}

/// Writes only the places that differ from those where the row stood.
fn move_places(
    connection: &Connection,
    key: &RowKey,
    old: Option<&str>,
    new: &[Place],
) -> rusqlite::Result<()> {
    let old = old.map_or(Ok(Vec::new()), columns::places)?;
    for left in old.iter().filter(|place| !new.contains(place)) {
        connection.prepare_cached(LEAVE_PLACE)?.execute([&left.list, &left.sort, &key.pk, &key.sk])?;
    }
    for entered in new.iter().filter(|place| !old.contains(place)) {
        connection.prepare_cached(ENTER_PLACE)?.execute([&entered.list, &entered.sort, &key.pk, &key.sk])?;
    }
    Ok(())
}
