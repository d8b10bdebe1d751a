//! Pools: their rules, and the counter of slots in use, which only launch intents raise and only ended runners lower.

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{ReturnValuesOnConditionCheckFailure as OnFailure, TransactWriteItem};
use motorpool_control::ports::ledger::{Deleted, LedgerError, PoolRecord, PutUnused};
use motorpool_domain::PoolName;
use motorpool_domain::pool::Pool;

use super::expression::Expression;
use super::items::{self, DOC, USED, doc, n, record_key, s};
use super::transact::{conflict_passes, patiently};
use super::{DynamoLedger, failed, read};
use crate::keys::pool_pk;
use crate::listing::Span;
use crate::places::POOLS;
use crate::table::{LIST, LIST_SK};

pub(super) async fn put(ledger: &DynamoLedger, pool: &Pool) -> Result<(), LedgerError> {
    let update = definition(pool)?.apply(update_of(ledger, pool));
    let answer = patiently(conflict_passes, || update.clone().send()).await;
    answer.map_err(|error| failed(format!("define pool {}", pool.name), error))?;
    Ok(())
}

pub(super) async fn put_unused(ledger: &DynamoLedger, pool: &Pool) -> Result<PutUnused, LedgerError> {
    let update = definition(pool)?.only_if_absent_or(vec![(USED, "=", n(0))]).apply(update_of(ledger, pool));
    let update = update.return_values_on_condition_check_failure(OnFailure::AllOld);
    let Err(error) = patiently(conflict_passes, || update.clone().send()).await else {
        return Ok(PutUnused::Done);
    };
    match error.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
            let found = refused.item().filter(|item| !item.is_empty()).map(items::pool).transpose()?;
            match found {
                // Its own write, whose answer was lost, before somebody launched.
                Some(PoolRecord { pool: known, .. }) if known == *pool => Ok(PutUnused::Done),
                Some(PoolRecord { used, .. }) => Ok(PutUnused::InUse { used }),
                None => Err(failed(format!("change pool {}", pool.name), error)),
            }
        }
        Some(_) | None => Err(failed(format!("change pool {}", pool.name), error)),
    }
}

fn update_of(ledger: &DynamoLedger, pool: &Pool) -> UpdateItemFluentBuilder {
    let update = ledger.client.update_item().table_name(&ledger.table);
    update.set_key(Some(record_key(pool_pk(&pool.name))))
}

fn definition(pool: &Pool) -> Result<Expression, LedgerError> {
    Ok(Expression::default()
        .set(DOC, doc(pool)?)
        .set(LIST, s(POOLS))
        .set(LIST_SK, s(pool.name.as_str()))
        .set_if_missing(USED, n(0)))
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

pub(super) async fn delete(ledger: &DynamoLedger, name: &PoolName) -> Result<Deleted, LedgerError> {
    let delete = ledger
        .client
        .delete_item()
        .table_name(&ledger.table)
        .set_key(Some(record_key(pool_pk(name))))
        .condition_expression("#used = :none")
        .expression_attribute_names("#used", USED)
        .expression_attribute_values(":none", n(0))
        .return_values_on_condition_check_failure(OnFailure::AllOld);
    let Err(error) = patiently(conflict_passes, || delete.clone().send()).await else {
        return Ok(Deleted::Done);
    };
    match error.as_service_error() {
        Some(DeleteItemError::ConditionalCheckFailedException(refused)) => match refused.item() {
            Some(item) if !item.is_empty() => Ok(Deleted::InUse { used: items::used(item)? }),
            Some(_) | None => Ok(Deleted::Missing),
        },
        Some(_) | None => Err(failed(format!("delete pool {name}"), error)),
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
