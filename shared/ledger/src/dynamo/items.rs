//! Records as items and back. A record is one JSON text; beside it stand the attributes that conditions and indexes use.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use motorpool_control::ports::ledger::{LedgerError, PoolRecord};
use motorpool_domain::claim::Claim;
use motorpool_domain::ladder::Shortage;
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::Runner;
use motorpool_domain::{AuditEntry, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::expression::Columns;
use super::failed;
use crate::keys::{self, stable_hash};
use crate::places::{self, Place};
use crate::table::{DUE_AT, DUE_SHARD, EXPIRES_AT, LIST, LIST_SK, PK, SK};

pub(super) type Item = HashMap<String, AttributeValue>;

/// The sort key of every record; its log entries stand beside it under the same partition key.
const RECORD: &str = "record";
pub(super) const DOC: &str = "doc";
pub(super) const STATE: &str = "state";
pub(super) const EPOCH: &str = "epoch";
pub(super) const REV: &str = "rev";
/// Written by heartbeats alone, and by no write of the record.
pub(super) const SEEN_AT: &str = "seen_at";
/// Written when a queue was told, and by no write of the record.
pub(super) const ANNOUNCED_AT: &str = "announced_at";
/// Slots in use, on a pool's item.
pub(super) const USED: &str = "used";
/// The claim that a key names.
pub(super) const CLAIM_ID: &str = "claim_id";

pub(super) const SHARDS: u64 = 16;

pub(super) fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub(super) fn n(number: impl Into<i128>) -> AttributeValue {
    AttributeValue::N(number.into().to_string())
}

pub(super) fn time(at: Timestamp) -> AttributeValue {
    n(at.as_millis())
}

pub(super) fn key(pk: impl Into<String>, sk: impl Into<String>) -> Item {
    Item::from([(PK.to_owned(), s(pk)), (SK.to_owned(), s(sk))])
}

pub(super) fn record_key(pk: impl Into<String>) -> Item {
    key(pk, RECORD)
}

/// A whole new item.
pub(super) fn item(key: Item, columns: Columns) -> Item {
    let given = columns.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    key.into_iter().chain(given).collect()
}

pub(super) fn runner_columns(runner: &Runner, look_at: Option<Timestamp>) -> Result<Columns, LedgerError> {
    let mut columns = vec![
        (DOC, Some(doc(runner)?)),
        (STATE, Some(s(runner.state.name().as_str()))),
        (EPOCH, Some(n(runner.epoch.0))),
        (REV, Some(n(runner.rev))),
    ];
    columns.extend(due_columns(runner.id.as_str(), places::runner_due(runner, look_at)));
    columns.extend(place_columns(places::runner_place(runner), places::runner_kept_until(runner)));
    Ok(columns)
}

pub(super) fn claim_columns(claim: &Claim, written_at: Timestamp) -> Result<Columns, LedgerError> {
    let mut columns =
        vec![(DOC, Some(doc(claim)?)), (STATE, Some(s(claim.state.as_str()))), (REV, Some(n(claim.rev)))];
    columns.extend(due_columns(claim.id.as_str(), places::claim_due(claim, written_at)));
    columns.extend(place_columns(places::claim_place(claim), places::claim_kept_until(claim)));
    Ok(columns)
}

pub(super) fn entry_columns(entry: &AuditEntry) -> Result<Columns, LedgerError> {
    Ok(vec![(DOC, Some(doc(entry)?)), (EXPIRES_AT, Some(expiry(places::entry_kept_until(entry))))])
}

pub(super) fn due_columns(id: &str, at: Option<Timestamp>) -> [(&'static str, Option<AttributeValue>); 2] {
    [(DUE_SHARD, at.map(|_| shard(stable_hash(id) >> 32))), (DUE_AT, at.map(time))]
}

/// One of the shards over which what is due is spread, so that no partition of the index is hot.
pub(super) fn shard(number: u64) -> AttributeValue {
    s((number % SHARDS).to_string())
}

pub(super) fn expiry(at: Timestamp) -> AttributeValue {
    n(at.as_millis() / 1_000)
}

fn place_columns(place: Place, kept_until: Option<Timestamp>) -> [(&'static str, Option<AttributeValue>); 3] {
    let Place { list, sk } = place;
    [(LIST, Some(s(list))), (LIST_SK, Some(s(sk))), (EXPIRES_AT, kept_until.map(expiry))]
}

pub(super) fn doc(record: &impl Serialize) -> Result<AttributeValue, LedgerError> {
    serde_json::to_string(record)
        .map(AttributeValue::S)
        .map_err(|error| failed("write a record as JSON", error))
}

pub(super) fn runner(item: &Item) -> Result<Runner, LedgerError> {
    let runner: Runner = read_doc(item)?;
    let instant = |name| Ok::<_, LedgerError>(number(item, name)?.map(Timestamp::from_millis));
    Ok(Runner { seen_at: instant(SEEN_AT)?, announced_at: instant(ANNOUNCED_AT)?, ..runner })
}

pub(super) fn claim(item: &Item) -> Result<Claim, LedgerError> {
    read_doc(item)
}

pub(super) fn shortage(item: &Item) -> Result<Shortage, LedgerError> {
    read_doc(item)
}

pub(super) fn entry(item: &Item) -> Result<AuditEntry, LedgerError> {
    read_doc(item)
}

pub(super) fn pool(item: &Item) -> Result<PoolRecord, LedgerError> {
    let pool: Pool = read_doc(item)?;
    Ok(PoolRecord { pool, rev: number(item, REV)?.unwrap_or(0), used: used(item)? })
}

pub(super) fn used(item: &Item) -> Result<u32, LedgerError> {
    let used = number(item, USED)?.and_then(|used| u32::try_from(used).ok());
    used.ok_or_else(|| unreadable(item, format!("it has no number {USED}")))
}

pub(super) fn text<'a>(item: &'a Item, name: &str) -> Result<&'a str, LedgerError> {
    let text = item.get(name).and_then(|value| value.as_s().ok());
    text.map(String::as_str).ok_or_else(|| unreadable(item, format!("it has no text {name}")))
}

/// The number, if the attribute is there.
pub(super) fn number(item: &Item, name: &str) -> Result<Option<u64>, LedgerError> {
    let Some(value) = item.get(name) else { return Ok(None) };
    let number = value.as_n().ok().and_then(|number| number.parse().ok());
    number.map(Some).ok_or_else(|| unreadable(item, format!("its {name} is no whole number")))
}

fn read_doc<T: DeserializeOwned>(item: &Item) -> Result<T, LedgerError> {
    serde_json::from_str(text(item, DOC)?).map_err(|error| unreadable(item, error))
}

pub(super) fn unreadable(
    item: &Item,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> LedgerError {
    let part = |name| item.get(name).and_then(|value| value.as_s().ok()).map_or("?", String::as_str);
    LedgerError::Unreadable { subject: format!("{} {}", part(PK), part(SK)), source: source.into() }
}

/// The log entries of a write stand under its record's key.
pub(super) fn runner_log_key(runner: &Runner, entry: &AuditEntry) -> Item {
    key(keys::runner_pk(&runner.id), keys::runner_log_sk(runner, entry))
}

pub(super) fn claim_log_key(claim: &Claim, entry: &AuditEntry) -> Item {
    key(keys::claim_pk(&claim.id), keys::claim_log_sk(claim, entry))
}
