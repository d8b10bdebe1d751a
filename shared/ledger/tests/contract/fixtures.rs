//! Rows that mean nothing, and calls that must end in one way.

pub(crate) use crate::adapters::Shared;

use anyhow::{Context, Result, bail};
use motorpool_control::ports::ledger::{Span, Touch};
use motorpool_control::ports::tx::{Committed, Held, Op, Row, Stored, Tx, When};
use motorpool_domain::Timestamp;
use motorpool_domain::record::{Beside, Key, Kind, Path, Place, Version};

/// In how many lists a row of these cases stands at most: of one kind, one number.
pub(crate) const LISTS: usize = 3;
/// As much as anybody asks for.
pub(crate) const ALL: usize = 1_000;
/// After every name that the cases use.
pub(crate) const END: &str = "\u{10ffff}";

pub(crate) fn key(id: &str) -> Key {
    Key::new(Kind::new("thing"), id)
}

pub(crate) fn path(id: &str) -> Path {
    key(id).into()
}

pub(crate) fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// All revisions of it are in the same state and epoch.
pub(crate) fn version(rev: u64) -> Version {
    Version { state: "open".to_owned(), epoch: 7, rev }
}

pub(crate) fn row(id: &str, rev: u64) -> Row {
    row_at(path(id), rev)
}

pub(crate) fn child(of: &str, name: &str) -> Row {
    row_at(Path::child(key(of), name), 1)
}

fn row_at(path: Path, rev: u64) -> Row {
    let doc = format!(r#"{{"at":"{path}","rev":{rev}}}"#);
    let version = version(rev);
    Row { path, version, schema: 1, doc, due: None, places: Vec::new(), lists: LISTS, kept_until: None }
}

pub(crate) fn listed(id: &str, rev: u64, places: &[(&str, &str)]) -> Row {
    Row { places: self::places(places), ..row(id, rev) }
}

pub(crate) fn places(places: &[(&str, &str)]) -> Vec<Place> {
    places.iter().map(|(list, sort)| Place { list: (*list).to_owned(), sort: (*sort).to_owned() }).collect()
}

/// As the row is found where nothing stands beside it but its version.
pub(crate) fn stored(row: &Row) -> Stored {
    let beside = Beside { version: row.version.clone(), ..Beside::default() };
    Stored { path: row.path.clone(), schema: row.schema, doc: row.doc.clone(), beside }
}

pub(crate) fn put(row: &Row, when: When) -> Op {
    Op::Put { row: row.clone(), when }
}

/// On the condition that the revision before it is there.
pub(crate) fn replace(row: &Row) -> Op {
    let was = Version { rev: row.version.rev - 1, ..row.version.clone() };
    Op::Replace { row: row.clone(), was, counter: None }
}

pub(crate) fn add(id: &str, by: i64, at_least: u64, at_most: u64) -> Op {
    Op::Add { path: path(id), was: None, by, at_least, at_most }
}

pub(crate) fn check(id: &str, when: When) -> Op {
    Op::Check { path: path(id), when }
}

pub(crate) fn delete(row: &Row) -> Op {
    Op::Delete { path: row.path.clone(), was: row.version.clone(), counter: None, lists: LISTS }
}

pub(crate) fn touch(id: &str, marks: &[(&str, u64)]) -> Touch {
    let Version { epoch, .. } = version(1);
    let marks = marks.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect();
    Touch { path: path(id), epoch, unless: "closed".to_owned(), marks }
}

pub(crate) async fn commit(ledger: &Shared, ops: impl IntoIterator<Item = Op>) -> Result<Committed> {
    Ok(ledger.commit(&Tx { ops: ops.into_iter().collect(), log: Vec::new() }).await?)
}

pub(crate) async fn must_commit(ledger: &Shared, ops: impl IntoIterator<Item = Op>) -> Result<()> {
    match commit(ledger, ops).await? {
        Committed::Done => Ok(()),
        Committed::Refused(held) => bail!("it was refused: {held:?}"),
    }
}

/// Each of them, whatever was there.
pub(crate) async fn must_put<'r>(ledger: &Shared, rows: impl IntoIterator<Item = &'r Row>) -> Result<()> {
    must_commit(ledger, rows.into_iter().map(|row| put(row, When::Always))).await
}

/// What the only operation found instead.
pub(crate) async fn must_lose(ledger: &Shared, op: Op) -> Result<Option<Stored>> {
    match commit(ledger, [op.clone()]).await? {
        Committed::Refused(held) => match held.as_slice() {
            [Held::No { found }] => Ok(found.as_deref().cloned()),
            other => bail!("{op:?} was refused with {other:?}"),
        },
        Committed::Done => bail!("{op:?} was done"),
    }
}

pub(crate) async fn find(ledger: &Shared, path: &Path) -> Result<Option<Stored>> {
    let found = ledger.get(std::slice::from_ref(path)).await?;
    let [found] = <[_; 1]>::try_from(found).ok().context("one was asked for")?;
    Ok(found)
}

pub(crate) async fn read(ledger: &Shared, id: &str) -> Result<Stored> {
    find(ledger, &path(id)).await?.with_context(|| format!("{id} is missing"))
}

pub(crate) async fn counter(ledger: &Shared, id: &str) -> Result<u64> {
    Ok(read(ledger, id).await?.beside.counter)
}

pub(crate) fn span(list: &str, low: &str, high: &str) -> Span {
    Span { list: list.to_owned(), low: low.to_owned(), high: high.to_owned() }
}

/// The whole of a list: where, and who stands there.
pub(crate) async fn list(ledger: &Shared, name: &str) -> Result<Vec<(String, Path)>> {
    let placed = ledger.list(&span(name, "", END), ALL).await?;
    assert_eq!(
        ledger.count(&span(name, "", END), ALL).await?,
        placed.len(),
        "{name} is counted as it is listed"
    );
    Ok(placed.into_iter().map(|placed| (placed.sort, placed.path)).collect())
}

/// The places of a list, each with an id.
pub(crate) fn stand(places: &[(&str, &str)]) -> Vec<(String, Path)> {
    places.iter().map(|(sort, id)| ((*sort).to_owned(), path(id))).collect()
}
