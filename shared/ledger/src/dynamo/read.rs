//! Reads items: one, many, or a stretch of an index. Never a scan.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::{KeysAndAttributes, Select};
use motorpool_control::ports::ledger::LedgerError;

use super::items::{self, Item, record_key, s};
use super::transact::pause;
use super::{DynamoLedger, failed};
use crate::listing::Span;
use crate::table::{LIST, LIST_SK, LISTING_INDEX, PK};

/// DynamoDB's own limit on the keys of one request.
const KEYS_AT_ONCE: usize = 100;
const ITEMS_AT_ONCE: usize = 1_000;
const BATCH_ATTEMPTS: u32 = 8;

/// The item itself, as it is now.
pub(super) async fn one(
    ledger: &DynamoLedger,
    attempted: &str,
    key: Item,
) -> Result<Option<Item>, LedgerError> {
    let request = ledger.client.get_item().table_name(&ledger.table).set_key(Some(key)).consistent_read(true);
    Ok(request.send().await.map_err(|error| failed(attempted, error))?.item)
}

/// The records themselves, as they are now, by their partition key.
pub(super) async fn many(
    ledger: &DynamoLedger,
    attempted: &str,
    pks: BTreeSet<String>,
) -> Result<HashMap<String, Item>, LedgerError> {
    let keys: Vec<Item> = pks.into_iter().map(record_key).collect();
    let mut found = HashMap::new();
    for keys in keys.chunks(KEYS_AT_ONCE) {
        for item in batch(ledger, attempted, keys.to_vec()).await? {
            found.insert(items::text(&item, PK)?.to_owned(), item);
        }
    }
    Ok(found)
}

/// DynamoDB may leave some keys for another request, when it is busy.
async fn batch(
    ledger: &DynamoLedger,
    attempted: &str,
    mut keys: Vec<Item>,
) -> Result<Vec<Item>, LedgerError> {
    let mut found = Vec::new();
    for attempt in 1..=BATCH_ATTEMPTS {
        let wanted = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
        let wanted = wanted.map_err(|error| failed(attempted, error))?;
        let request = ledger.client.batch_get_item().request_items(&ledger.table, wanted);
        let answer = request.send().await.map_err(|error| failed(attempted, error))?;
        found
            .extend(answer.responses.and_then(|mut tables| tables.remove(&ledger.table)).unwrap_or_default());
        let left = answer.unprocessed_keys.and_then(|mut tables| tables.remove(&ledger.table));
        match left {
            Some(left) if !left.keys().is_empty() => keys = left.keys,
            Some(_) | None => return Ok(found),
        }
        tokio::time::sleep(pause(attempt)).await;
    }
    Err(failed(attempted, format!("{} of the keys were left unread each time", keys.len())))
}

/// What `query` finds, up to `at_most` items, over as many requests as it takes.
pub(super) async fn query(
    attempted: &str,
    query: QueryFluentBuilder,
    at_most: usize,
) -> Result<Vec<Item>, LedgerError> {
    let (mut found, mut start) = (Vec::new(), None);
    while found.len() < at_most {
        let request = query.clone().limit(limit(at_most - found.len())).set_exclusive_start_key(start);
        let answer = request.send().await.map_err(|error| failed(attempted, error))?;
        found.extend(answer.items.unwrap_or_default());
        start = answer.last_evaluated_key;
        if start.is_none() {
            break;
        }
    }
    Ok(found)
}

/// As `query`, but only how many.
pub(super) async fn count(
    attempted: &str,
    query: QueryFluentBuilder,
    at_most: usize,
) -> Result<usize, LedgerError> {
    let (mut counted, mut start) = (0, None);
    while counted < at_most {
        let request = query.clone().select(Select::Count).limit(limit(at_most - counted));
        let answer = request.set_exclusive_start_key(start).send().await;
        let answer = answer.map_err(|error| failed(attempted, error))?;
        counted += usize::try_from(answer.count).unwrap_or_default();
        start = answer.last_evaluated_key;
        if start.is_none() {
            break;
        }
    }
    Ok(counted.min(at_most))
}

/// A place in a list, and the partition key of the record that stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) sk: String,
    pub(super) pk: String,
}

/// A stretch of a list, in its order, up to `at_most` places.
pub(super) async fn places(
    ledger: &DynamoLedger,
    attempted: &str,
    stretch: Span,
    at_most: usize,
) -> Result<Vec<Placed>, LedgerError> {
    let found = query(attempted, span(ledger, stretch), at_most).await?;
    let placed = |item: &Item| {
        Ok(Placed { sk: items::text(item, LIST_SK)?.to_owned(), pk: items::text(item, PK)?.to_owned() })
    };
    found.iter().map(placed).collect()
}

/// The records that stand in these places, as they are now, in the same order. One that is gone is left out.
pub(super) async fn placed(
    ledger: &DynamoLedger,
    attempted: &str,
    places: &[Placed],
) -> Result<Vec<Item>, LedgerError> {
    let mut found = many(ledger, attempted, places.iter().map(|placed| placed.pk.clone()).collect()).await?;
    Ok(places.iter().filter_map(|placed| found.remove(&placed.pk)).collect())
}

/// A stretch of a list, in its order.
pub(super) fn span(ledger: &DynamoLedger, span: Span) -> QueryFluentBuilder {
    let Span { list, low, high } = span;
    ledger
        .client
        .query()
        .table_name(&ledger.table)
        .index_name(LISTING_INDEX)
        .key_condition_expression("#list = :list AND #sk BETWEEN :low AND :high")
        .expression_attribute_names("#list", LIST)
        .expression_attribute_names("#sk", LIST_SK)
        .expression_attribute_values(":list", s(list))
        .expression_attribute_values(":low", s(low))
        .expression_attribute_values(":high", s(high))
}

fn limit(wanted: usize) -> i32 {
    i32::try_from(wanted.min(ITEMS_AT_ONCE)).unwrap_or(i32::MAX)
}
