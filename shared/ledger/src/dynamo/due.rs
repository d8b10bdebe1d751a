//! What is due: a sparse index in shards, read all at once and merged. It is a hint of where to look, and may be late.

use futures_util::{StreamExt, TryStreamExt, stream};
use motorpool_control::ports::ledger::{Due, LedgerError};
use motorpool_domain::runner::Runner;
use motorpool_domain::{ClaimId, RunnerId, Timestamp};

use super::expression::Expression;
use super::items::{self, EPOCH, Item, REV, SHARDS, STATE, due_columns, n, s, shard, time};
use super::{DynamoLedger, read, runners};
use crate::keys::{CLAIM, RUNNER};
use crate::places::runner_due;
use crate::table::{DUE_AT, DUE_INDEX, DUE_SHARD, PK};

const SHARDS_AT_ONCE: usize = 8;

pub(super) async fn due(
    ledger: &DynamoLedger,
    now: Timestamp,
    at_most: u32,
) -> Result<Vec<Due>, LedgerError> {
    let at_most = usize::try_from(at_most).unwrap_or(usize::MAX);
    let reads = stream::iter(0..SHARDS).map(|shard| of_shard(ledger, shard, now, at_most));
    let mut found: Vec<(u64, String)> = reads.buffer_unordered(SHARDS_AT_ONCE).try_concat().await?;
    found.sort();
    found.truncate(at_most);
    found.iter().map(|(_, pk)| named_by(pk)).collect()
}

/// The first of one shard, each as when it is due, and its key.
async fn of_shard(
    ledger: &DynamoLedger,
    number: u64,
    now: Timestamp,
    at_most: usize,
) -> Result<Vec<(u64, String)>, LedgerError> {
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
    let found = read::query("read what is due", query, at_most).await?;
    found.iter().map(when_and_what).collect()
}

fn when_and_what(item: &Item) -> Result<(u64, String), LedgerError> {
    let at = items::number(item, DUE_AT)?.unwrap_or_default();
    Ok((at, items::text(item, PK)?.to_owned()))
}

fn named_by(pk: &str) -> Result<Due, LedgerError> {
    let due = match (pk.strip_prefix(RUNNER), pk.strip_prefix(CLAIM)) {
        (Some(id), _) => RunnerId::parse(id).map(Due::Runner),
        (None, Some(id)) => ClaimId::parse(id).map(Due::Claim),
        (None, None) => {
            return Err(LedgerError::Unreadable {
                subject: pk.to_owned(),
                source: "it is due, but neither a runner nor a claim".into(),
            });
        }
    };
    due.map_err(|error| LedgerError::Unreadable { subject: pk.to_owned(), source: error.into() })
}

pub(super) async fn look_again(
    ledger: &DynamoLedger,
    runner: &Runner,
    at: Timestamp,
) -> Result<(), LedgerError> {
    let due = due_columns(runner.id.as_str(), runner_due(runner, Some(at)));
    let expression = Expression::default()
        .columns(due.into())
        .only_if(STATE, "=", s(runner.state.name().as_str()))
        .only_if(EPOCH, "=", n(runner.epoch.0))
        .only_if(REV, "=", n(runner.rev));
    runners::touch(ledger, &format!("plan the next look at {}", runner.id), &runner.id, expression).await
}
