//! Rows as items and back. A row is one item under its key; each place in a list beyond its first is a pointer beside it, which says
//! nothing but where it stands. What a document means is not known here.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use motorpool_control::ports::ledger::LedgerError;
use motorpool_control::ports::tx::{Row, Stored};
use motorpool_domain::Timestamp;
use motorpool_domain::record::{Beside, Key, Marks, Path, Place, Version};

use super::due::shard_of;
use super::expression::Columns;
use super::table::{DUE_AT, DUE_SHARD, EXPIRES_AT, LIST, LIST_SK, PK, SK};

pub(super) type Item = HashMap<String, AttributeValue>;

pub(super) const STATE: &str = "state";
pub(super) const EPOCH: &str = "epoch";
pub(super) const REV: &str = "rev";
/// Every row has one, from zero on, so that every condition has something to compare.
pub(super) const COUNTER: &str = "counter";
const SCHEMA: &str = "schema";
const DOC: &str = "doc";
const MARK: &str = "mark_";

/// The sort key of a row that is no child.
const RECORD: &str = "record";
/// What the sort keys of all children begin with, and no other.
const CHILD: char = '/';
/// What the sort keys of all pointers begin with: `@1` beside a record, `@1/NAME` beside a child.
const POINTER: char = '@';

pub(super) fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub(super) fn n(number: impl Into<i128>) -> AttributeValue {
    AttributeValue::N(number.into().to_string())
}

pub(super) fn time(at: Timestamp) -> AttributeValue {
    n(at.as_millis())
}

pub(super) fn mark(name: &str) -> String {
    format!("{MARK}{name}")
}

pub(super) fn child_sk(name: &str) -> String {
    format!("{CHILD}{name}")
}

/// The key of a row's item.
pub(super) fn key(path: &Path) -> Item {
    let Path { key, child } = path;
    item_key(key, child.as_deref().map_or_else(|| RECORD.to_owned(), child_sk))
}

/// The key of the pointer for a row's place of this number, from one on.
pub(super) fn pointer_key(path: &Path, number: usize) -> Item {
    let Path { key, child } = path;
    let beside = child.as_deref().map(child_sk).unwrap_or_default();
    item_key(key, format!("{POINTER}{number}{beside}"))
}

fn item_key(key: &Key, sk: String) -> Item {
    Item::from([(PK.to_owned(), s(key.to_string())), (SK.to_owned(), s(sk))])
}

/// The row that an item is, or leads to. None, if no row has such an item: somebody else wrote it.
pub(super) fn path(item: &Item) -> Option<Path> {
    let key = Key::parse(as_text(item, PK)?)?;
    let sk = as_text(item, SK)?;
    let child = match sk.strip_prefix(POINTER) {
        None if sk == RECORD => None,
        None => Some(sk.strip_prefix(CHILD)?),
        Some(pointer) => {
            let (number, child) =
                pointer.split_once(CHILD).map_or((pointer, None), |(n, child)| (n, Some(child)));
            number.parse::<usize>().ok()?;
            child
        }
    };
    Some(Path { key, child: child.map(str::to_owned) })
}

/// What a document makes of its row's attributes; counter and marks are none of them.
pub(super) fn columns(row: &Row) -> Columns {
    let Row { path, version, schema, doc, due, places, lists: _, kept_until } = row;
    let Version { state, epoch, rev } = version;
    let mut columns = vec![
        (STATE, Some(s(state))),
        (EPOCH, Some(n(*epoch))),
        (REV, Some(n(*rev))),
        (SCHEMA, Some(n(*schema))),
        (DOC, Some(s(doc))),
        (DUE_SHARD, due.map(|_| shard_of(path))),
        (DUE_AT, due.map(time)),
    ];
    columns.extend(place_columns(places.first(), *kept_until));
    columns
}

/// A whole new row.
pub(super) fn new_item(row: &Row) -> Item {
    let mut columns = columns(row);
    columns.push((COUNTER, Some(n(0))));
    item(key(&row.path), columns)
}

/// The pointer for the place of this number, from one on, if the row has so many.
pub(super) fn pointer(row: &Row, number: usize) -> Option<Item> {
    let place = row.places.get(number)?;
    Some(item(pointer_key(&row.path, number), place_columns(Some(place), row.kept_until).into()))
}

fn item(key: Item, columns: Columns) -> Item {
    let given = columns.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    key.into_iter().chain(given).collect()
}

fn place_columns(
    place: Option<&Place>,
    kept_until: Option<Timestamp>,
) -> [(&'static str, Option<AttributeValue>); 3] {
    let (list, sort) = place.map(|Place { list, sort }| (s(list), s(sort))).unzip();
    // In whole seconds, and no earlier than said.
    let expires_at = kept_until.map(|at| n(at.as_millis().div_ceil(1_000)));
    [(LIST, list), (LIST_SK, sort), (EXPIRES_AT, expires_at)]
}

pub(super) fn stored(item: &Item) -> Result<Stored, LedgerError> {
    let needed = |name| number(item, name)?.ok_or_else(|| unreadable(item, format!("it has no {name}")));
    let path = path(item).ok_or_else(|| unreadable(item, "it is no row"))?;
    let schema = u32::try_from(needed(SCHEMA)?).map_err(|error| unreadable(item, error))?;
    let version = Version { state: text(item, STATE)?.to_owned(), epoch: needed(EPOCH)?, rev: needed(REV)? };
    let beside = Beside { version, counter: number(item, COUNTER)?.unwrap_or_default(), marks: marks(item)? };
    Ok(Stored { path, schema, doc: text(item, DOC)?.to_owned(), beside })
}

/// For whoever reads many: one that can't be read must not hide the others.
pub(super) fn stored_or_alert(item: &Item) -> Option<Stored> {
    stored(item).inspect_err(|error| alert(item, error)).ok()
}

/// As [`path`], for whoever reads many.
pub(super) fn path_or_alert(item: &Item) -> Option<Path> {
    let path = path(item);
    if path.is_none() {
        alert(item, &unreadable(item, "it is no row"));
    }
    path
}

fn alert(item: &Item, error: &LedgerError) {
    let why = std::error::Error::source(error).map(ToString::to_string);
    let [pk, sk] = [PK, SK].map(|name| as_text(item, name));
    tracing::warn!(target: "alert", pk, sk, why, "an item of the ledger's table can't be read, and is passed over");
}

fn marks(item: &Item) -> Result<Marks, LedgerError> {
    let named = item.keys().filter_map(|name| Some((name, name.strip_prefix(MARK)?)));
    let marks = named.map(|(name, mark)| Ok(number(item, name)?.map(|at| (mark.to_owned(), at))));
    marks.filter_map(Result::transpose).collect()
}

pub(super) fn text<'a>(item: &'a Item, name: &str) -> Result<&'a str, LedgerError> {
    as_text(item, name).ok_or_else(|| unreadable(item, format!("it has no text {name}")))
}

fn as_text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

/// The number, if the attribute is there.
pub(super) fn number(item: &Item, name: &str) -> Result<Option<u64>, LedgerError> {
    let Some(value) = item.get(name) else { return Ok(None) };
    let number = value.as_n().ok().and_then(|number| number.parse().ok());
    number.map(Some).ok_or_else(|| unreadable(item, format!("its {name} is no whole number")))
}

fn unreadable(item: &Item, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> LedgerError {
    let [pk, sk] = [PK, SK].map(|name| as_text(item, name).unwrap_or("?"));
    LedgerError::Unreadable { subject: format!("{pk} {sk}"), source: source.into() }
}
