//! Pools: their rules, and the counter of slots in use, which only launch intents raise and only ended runners lower.

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{ReturnValuesOnConditionCheckFailure as OnFailure, TransactWriteItem};
use motorpool_control::ports::ledger::{Deleted, LedgerError, PoolRecord, PoolWrite, Written};
use motorpool_domain::PoolName;

use super::expression::Expression;
use super::items::{self, DOC, REV, USED, doc, n, record_key, s};
use super::transact::{conflict_passes, patiently};
use super::{DynamoLedger, failed, read};
use crate::keys::pool_pk;
use crate::listing::Span;
use crate::places::POOLS;
use crate::table::{LIST, LIST_SK};

pub(super) async fn write(
    ledger: &DynamoLedger,
    write: PoolWrite<'_>,
) -> Result<Written<PoolRecord>, LedgerError> {
    let PoolWrite { seen, rev, pool, only_unused } = write;
    let mut expression = Expression::default()
        .set(DOC, doc(pool)?)
        .set(LIST, s(POOLS))
        .set(LIST_SK, s(pool.name.as_str()))
        .set(REV, n(rev))
        .set_if_missing(USED, n(0));
    expression = as_seen(expression, seen);
    if only_unused {
        expression = expression.only_if_absent_or(vec![(USED, "=", n(0))]);
    }
    let update = ledger.client.update_item().table_name(&ledger.table);
    let update = update.set_key(Some(record_key(pool_pk(&pool.name))));
    let update = expression.apply(update).return_values_on_condition_check_failure(OnFailure::AllOld);
    let Err(error) = patiently(conflict_passes, || update.clone().send()).await else {
        return Ok(Written::Done);
    };
    match error.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
            let found = refused.item().filter(|item| !item.is_empty()).map(items::pool).transpose()?;
            Ok(match found {
                Some(found) if write.made(&found) => Written::Done,
                Some(found) => Written::Lost { found },
                None => Written::Missing,
            })
        }
        Some(_) | None => Err(failed(format!("write pool {}", pool.name), error)),
    }
}

pub(super) async fn one(ledger: &DynamoLedger, name: &PoolName) -> Result<Option<PoolRecord>, LedgerError> {
    let found = read::one(ledger, &format!("read pool {name}"), record_key(pool_pk(name))).await?;
    found.as_ref().map(items::pool).transpose()
}

pub(super) async fn all(ledger: &DynamoLedger) -> Result<Vec<PoolRecord>, LedgerError> {
    let attempted = "list the pools";
    let places = read::places(ledger, attempted, Span::whole(POOLS.to_owned()), usize::MAX).await?;
    read::placed(ledger, attempted, &places).await?.iter().map(items::pool).collect()
}

pub(super) async fn delete(
    ledger: &DynamoLedger,
    name: &PoolName,
    seen: u64,
) -> Result<Deleted, LedgerError> {
    let delete = ledger.client.delete_item().table_name(&ledger.table);
    let delete = delete.set_key(Some(record_key(pool_pk(name))));
    let delete = as_seen(Expression::default(), seen)
        .only_if(USED, "=", n(0))
        .apply_delete(delete)
        .return_values_on_condition_check_failure(OnFailure::AllOld);
    let Err(error) = patiently(conflict_passes, || delete.clone().send()).await else {
        return Ok(Deleted::Done);
    };
    match error.as_service_error() {
        Some(DeleteItemError::ConditionalCheckFailedException(refused)) => {
            let found = refused.item().filter(|item| !item.is_empty()).map(items::pool).transpose()?;
            Ok(match found {
                None => Deleted::Missing,
                Some(PoolRecord { rev, .. }) if rev != seen => Deleted::Changed,
                Some(PoolRecord { used, .. }) => Deleted::InUse { used },
            })
        }
        Some(_) | None => Err(failed(format!("delete pool {name}"), error)),
    }
}

/// Only if the pool still has the revision that was read, or there still is none.
fn as_seen(expression: Expression, seen: u64) -> Expression {
    match seen {
        0 => expression.only_if_missing(REV),
        seen => expression.only_if(REV, "=", n(seen)),
    }
}

/// `more` slots of the pool, if that leaves it within `max`.
pub(super) fn take_slots(
    ledger: &DynamoLedger,
    pool: &PoolName,
    more: usize,
    max: u32,
    only_if_used: Option<u32>,
) -> Result<TransactWriteItem, LedgerError> {
    let more = i64::try_from(more).unwrap_or(i64::MAX);
    let mut expression = Expression::default().raise(USED, n(more)).only_if(
        USED,
        "<=",
        n(i64::from(max).saturating_sub(more)),
    );
    if let Some(used) = only_if_used {
        expression = expression.only_if(USED, "=", n(used));
    }
    slots(expression.update(&ledger.table, record_key(pool_pk(pool))))
}

pub(super) fn give_slot_back(
    ledger: &DynamoLedger,
    pool: &PoolName,
) -> Result<TransactWriteItem, LedgerError> {
    let expression = Expression::default().raise(USED, n(-1)).only_if(USED, ">=", n(1));
    slots(expression.update(&ledger.table, record_key(pool_pk(pool))))
}

fn slots(update: Result<TransactWriteItem, BuildError>) -> Result<TransactWriteItem, LedgerError> {
    update.map_err(|error| failed("count a pool's slots", error))
}
