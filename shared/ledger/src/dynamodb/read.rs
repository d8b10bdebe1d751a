//! Reads items: one, many, or a stretch of an index. Never a scan.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::{KeysAndAttributes, Select};
use futures_util::{StreamExt, TryStreamExt, stream};
use motorpool_control::ports::ledger::{Children, LedgerError, Order, Placed, Span};
use motorpool_control::ports::tx::Stored;
use motorpool_domain::record::{Key, Kind, Path};

use super::DynamoLedger;
use super::rows::{self, Item, s};
use super::table::{LIST, LIST_SK, LISTING_INDEX, PK, SK};
use super::transact::pause;

/// DynamoDB's own limit on the keys of one request.
const KEYS_AT_ONCE: usize = 100;
const BATCHES_AT_ONCE: usize = 4;
const BATCH_ATTEMPTS: u32 = 8;
const ITEMS_AT_ONCE: usize = 1_000;

pub(super) async fn get(ledger: &DynamoLedger, paths: &[Path]) -> Result<Vec<Option<Stored>>, LedgerError> {
    if let [path] = paths {
        let found = one(ledger, path).await?;
        return Ok(vec![found.as_ref().map(rows::stored).transpose()?]);
    }
    let found = many(ledger, &format!("read {} rows", paths.len()), paths).await?;
    paths.iter().map(|path| found.get(path).map(rows::stored).transpose()).collect()
}

pub(super) async fn list(
    ledger: &DynamoLedger,
    span: &Span,
    at_most: usize,
) -> Result<Vec<Placed>, LedgerError> {
    let attempted = format!("list {}", span.list);
    let Some(stretch) = stretch(ledger, span) else { return Ok(Vec::new()) };
    let place = |item: &Item| {
        let path = rows::path_or_alert(item)?;
        Some((rows::text(item, LIST_SK).ok()?.to_owned(), path))
    };
    let mut places = query(&attempted, stretch, at_most, place).await?;
    // DynamoDB gives no order to what stands at the same place.
    places.sort();
    let paths: Vec<Path> = places.iter().map(|(_, path)| path.clone()).collect();
    let found = many(ledger, &attempted, &paths).await?;
    let placed = |(sort, path)| {
        let row = found.get(&path).and_then(rows::stored_or_alert);
        Placed { sort, path, row }
    };
    Ok(places.into_iter().map(placed).collect())
}

pub(super) async fn count(ledger: &DynamoLedger, span: &Span, at_most: usize) -> Result<usize, LedgerError> {
    let Some(stretch) = stretch(ledger, span) else { return Ok(0) };
    let (mut counted, mut start) = (0, None);
    while counted < at_most {
        let request = stretch.clone().select(Select::Count).limit(limit(at_most - counted));
        let answer = request.set_exclusive_start_key(start).send().await;
        let answer = answer.map_err(|error| LedgerError::failed(format!("count {}", span.list), error))?;
        counted += usize::try_from(answer.count).unwrap_or_default();
        start = answer.last_evaluated_key;
        if start.is_none() {
            break;
        }
    }
    Ok(counted.min(at_most))
}

pub(super) async fn children(
    ledger: &DynamoLedger,
    children: &Children,
    at_most: usize,
) -> Result<Vec<Stored>, LedgerError> {
    let Children { of, low, high, order } = children;
    // DynamoDB refuses a stretch that ends before it begins.
    if low > high {
        return Ok(Vec::new());
    }
    let stretch = ledger
        .client
        .query()
        .table_name(&ledger.table)
        .key_condition_expression("#pk = :pk AND #sk BETWEEN :low AND :high")
        .expression_attribute_names("#pk", PK)
        .expression_attribute_names("#sk", SK)
        .expression_attribute_values(":pk", s(of.to_string()))
        .expression_attribute_values(":low", s(rows::child_sk(low)))
        .expression_attribute_values(":high", s(rows::child_sk(high)))
        .scan_index_forward(match order {
            Order::Rising => true,
            Order::Falling => false,
        })
        .consistent_read(true);
    query(&format!("read what stands under {of}"), stretch, at_most, rows::stored_or_alert).await
}

/// The cheapest read that there is: of half a unit, and of nothing.
pub(super) async fn ping(ledger: &DynamoLedger) -> Result<(), LedgerError> {
    let nobody = Path::from(Key::new(Kind::new("ping"), "nobody"));
    let get = ledger.client.get_item().table_name(&ledger.table).set_key(Some(rows::key(&nobody)));
    get.send().await.map_err(|error| LedgerError::failed("answer", error))?;
    Ok(())
}

/// What `query` finds, as `read` reads it, up to `at_most`, over as many requests as it takes. What `read` passes over is not counted.
pub(super) async fn query<T>(
    attempted: &str,
    query: QueryFluentBuilder,
    at_most: usize,
    read: impl Fn(&Item) -> Option<T>,
) -> Result<Vec<T>, LedgerError> {
    let (mut found, mut start) = (Vec::new(), None);
    while found.len() < at_most {
        let request = query.clone().limit(limit(at_most - found.len())).set_exclusive_start_key(start);
        let answer = request.send().await.map_err(|error| LedgerError::failed(attempted, error))?;
        found.extend(answer.items().iter().filter_map(&read));
        start = answer.last_evaluated_key;
        if start.is_none() {
            break;
        }
    }
    Ok(found)
}

/// A stretch of a list, in its order; nothing, if nothing can stand there.
fn stretch(ledger: &DynamoLedger, span: &Span) -> Option<QueryFluentBuilder> {
    let Span { list, low, high } = span;
    // DynamoDB refuses a stretch that ends before it begins, and an empty text as a key or as a bound of one.
    if low > high || list.is_empty() || high.is_empty() {
        return None;
    }
    let lowest_of_all = "\0";
    let low = if low.is_empty() { lowest_of_all } else { low };
    let query = ledger
        .client
        .query()
        .table_name(&ledger.table)
        .index_name(LISTING_INDEX)
        .key_condition_expression("#list = :list AND #sk BETWEEN :low AND :high")
        .expression_attribute_names("#list", LIST)
        .expression_attribute_names("#sk", LIST_SK)
        .expression_attribute_values(":list", s(list))
        .expression_attribute_values(":low", s(low))
        .expression_attribute_values(":high", s(high));
    Some(query)
}

async fn one(ledger: &DynamoLedger, path: &Path) -> Result<Option<Item>, LedgerError> {
    let get = ledger.client.get_item().table_name(&ledger.table).set_key(Some(rows::key(path)));
    let answer = get.consistent_read(true).send().await;
    Ok(answer.map_err(|error| LedgerError::failed(format!("read {path}"), error))?.item)
}

/// The items of these rows, as they are now.
async fn many(
    ledger: &DynamoLedger,
    attempted: &str,
    paths: &[Path],
) -> Result<HashMap<Path, Item>, LedgerError> {
    let keys: Vec<Item> = paths.iter().collect::<BTreeSet<_>>().into_iter().map(rows::key).collect();
    let batches: Vec<Vec<Item>> = keys.chunks(KEYS_AT_ONCE).map(<[Item]>::to_vec).collect();
    let reads = stream::iter(batches).map(|keys| batch(ledger, attempted, keys));
    let found: Vec<Item> = reads.buffer_unordered(BATCHES_AT_ONCE).try_concat().await?;
    Ok(found.into_iter().filter_map(|item| Some((rows::path(&item)?, item))).collect())
}

/// DynamoDB may leave some keys for another request, when it is busy or the answer large.
async fn batch(
    ledger: &DynamoLedger,
    attempted: &str,
    mut keys: Vec<Item>,
) -> Result<Vec<Item>, LedgerError> {
    let mut found = Vec::new();
    for attempt in 1..=BATCH_ATTEMPTS {
        let wanted = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
        let wanted = wanted.map_err(|error| LedgerError::failed(attempted, error))?;
        let request = ledger.client.batch_get_item().request_items(&ledger.table, wanted);
        let answer = request.send().await.map_err(|error| LedgerError::failed(attempted, error))?;
        let ours = answer.responses.and_then(|mut tables| tables.remove(&ledger.table));
        found.extend(ours.unwrap_or_default());
        let left = answer.unprocessed_keys.and_then(|mut tables| tables.remove(&ledger.table));
        match left {
            Some(left) if !left.keys().is_empty() => keys = left.keys,
            Some(_) | None => return Ok(found),
        }
        tokio::time::sleep(pause(attempt)).await;
    }
    Err(LedgerError::failed(attempted, format!("{} of the rows were left unread each time", keys.len())))
}

fn limit(wanted: usize) -> i32 {
    i32::try_from(wanted.min(ITEMS_AT_ONCE)).unwrap_or(i32::MAX)
}
