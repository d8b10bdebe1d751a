//! What is due: a sparse index in shards, read all at once and merged. It is a hint of where to look, and may be late.

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::future::try_join_all;
use motorpool_control::ports::ledger::LedgerError;
use motorpool_domain::Timestamp;
use motorpool_domain::record::Path;

use super::rows::{self, Item, s, time};
use super::table::{DUE_AT, DUE_INDEX, DUE_SHARD};
use super::{DynamoLedger, read};

/// So many that no partition of the index is hot.
const SHARDS: u64 = 16;

pub(super) async fn due(
    ledger: &DynamoLedger,
    now: Timestamp,
    at_most: usize,
) -> Result<Vec<Path>, LedgerError> {
    let shards = try_join_all((0..SHARDS).map(|shard| of_shard(ledger, shard, now, at_most))).await?;
    let mut found: Vec<(u64, Path)> = shards.into_iter().flatten().collect();
    found.sort_by_cached_key(|(at, path)| (*at, path.to_string()));
    Ok(found.into_iter().take(at_most).map(|(_, path)| path).collect())
}

/// The first of one shard, each with when it is due.
async fn of_shard(
    ledger: &DynamoLedger,
    number: u64,
    now: Timestamp,
    at_most: usize,
) -> Result<Vec<(u64, Path)>, LedgerError> {
    let query = ledger
        .client
        .query()
        .table_name(&ledger.table)
        .index_name(DUE_INDEX)
        .key_condition_expression("#shard = :shard AND #at <= :now")
        .expression_attribute_names("#shard", DUE_SHARD)
        .expression_attribute_names("#at", DUE_AT)
        .expression_attribute_values(":shard", shard(number))
        .expression_attribute_values(":now", time(now));
    read::query("read what is due", query, at_most, when_and_what).await
}

fn when_and_what(item: &Item) -> Option<(u64, Path)> {
    let path = rows::path_or_alert(item)?;
    let at = rows::number(item, DUE_AT).ok().flatten().unwrap_or_default();
    Some((at, path))
}

/// The shard that a row is due in.
pub(super) fn shard_of(path: &Path) -> AttributeValue {
    // The lowest bits: those in the middle are the same for most of a row of numbered names.
    shard(stable_hash(&path.to_string()) % SHARDS)
}

fn shard(number: u64) -> AttributeValue {
    s(number.to_string())
}

/// FNV-1a: the same on every machine and in every version, unlike the standard library's.
fn stable_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use motorpool_domain::record::{Key, Kind};

    use super::*;

    /// Rows that are in the table already must be found in their shard by the next version, too.
    #[test]
    fn the_hash_never_changes() {
        assert_eq!(stable_hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(stable_hash("a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn rows_are_spread_over_all_shards() {
        let mut shards: HashMap<String, usize> = HashMap::new();
        for number in 0..1_600 {
            let path = Path::from(Key::new(Kind::new("runner"), format!("r-{number}")));
            *shards.entry(shard_of(&path).as_s().unwrap().clone()).or_default() += 1;
        }
        assert_eq!(shards.len(), 16);
        assert!(shards.values().all(|count| (50..200).contains(count)), "{shards:?}");
    }
}
