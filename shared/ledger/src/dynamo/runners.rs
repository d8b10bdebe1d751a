//! Runners: reading, listing, and the conditional write of one record with its log entry. Heartbeats and announcements
//! stand beside the record and never touch it.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::TransactWriteItem;
use motorpool_control::ports::ledger::{AllWritten, LedgerError, Listed, Page, RunnerWrite, Written};
use motorpool_domain::runner::{Runner, StateName};
use motorpool_domain::{Epoch, PoolName, RunnerId, Timestamp};

use super::expression::Expression;
use super::items::{self, ANNOUNCED_AT, EPOCH, REV, SEEN_AT, STATE, n, record_key, runner_columns, s, time};
use super::transact::{Outcome, conflict_passes, patiently, transact};
use super::{DynamoLedger, audit, failed, pools, read};
use crate::keys::runner_pk;
use crate::listing;
use crate::repeats::{check_together, written_before};

pub(super) async fn one(ledger: &DynamoLedger, id: &RunnerId) -> Result<Option<Runner>, LedgerError> {
    let found = read::one(ledger, &format!("read runner {id}"), record_key(runner_pk(id))).await?;
    found.as_ref().map(items::runner).transpose()
}

pub(super) async fn many(
    ledger: &DynamoLedger,
    ids: &[RunnerId],
) -> Result<Vec<Option<Runner>>, LedgerError> {
    let pks: BTreeSet<String> = ids.iter().map(runner_pk).collect();
    let found = read::many(ledger, &format!("read {} runners", ids.len()), pks).await?;
    ids.iter().map(|id| found.get(&runner_pk(id)).map(items::runner).transpose()).collect()
}

pub(super) async fn list(
    ledger: &DynamoLedger,
    pool: &PoolName,
    state: Option<StateName>,
    page: Page,
) -> Result<Listed<Runner>, LedgerError> {
    let span = listing::runner_span(pool, state, &page)?;
    let attempted = format!("list the runners of {pool}");
    let places = read::places(ledger, &attempted, span, listing::to_read(&page)).await?;
    let Listed { items: places, next } = listing::cut(places, &page, |placed| placed.sk.clone());
    let found = read::placed(ledger, &attempted, &places).await?;
    let mut runners = found.iter().map(items::runner).collect::<Result<Vec<_>, _>>()?;
    // The index is late: who has moved on since is not what was asked for.
    runners.retain(|runner| state.is_none_or(|state| runner.state.name() == state));
    Ok(Listed { items: runners, next })
}

pub(super) async fn count(
    ledger: &DynamoLedger,
    pool: &PoolName,
    state: StateName,
    at_most: u32,
) -> Result<u32, LedgerError> {
    let query = read::span(ledger, listing::runner_span(pool, Some(state), &Page::first(at_most))?);
    let limit = usize::try_from(at_most).unwrap_or(usize::MAX);
    let counted = read::count(&format!("count the {state} runners of {pool}"), query, limit).await?;
    Ok(u32::try_from(counted).unwrap_or(u32::MAX))
}

pub(super) async fn write(
    ledger: &DynamoLedger,
    write: RunnerWrite<'_>,
) -> Result<Written<Runner>, LedgerError> {
    const RECORD: usize = 0;
    let RunnerWrite { before, after, look_at: _, entry } = write;
    let attempted = format!("write runner {}", before.id);
    let record = replace(ledger, write)?;
    let log = audit::of_runner(ledger, after, entry)?;
    let mut writes = vec![record, log];
    if before.state.name().live() && !after.state.name().live() {
        writes.push(pools::give_slot_back(ledger, &after.pool)?);
    }
    let refused = match transact(ledger, &attempted, writes.clone()).await? {
        Outcome::Done => return Ok(Written::Done),
        Outcome::Refused(reasons) if reasons.failed(RECORD) => reasons,
        // The end of a machine is written even if its pool should be gone or its counter wrong.
        Outcome::Refused(_) => {
            tracing::warn!(runner = %after.id, pool = %after.pool, "an ended runner had no slot to give back");
            writes.truncate(2);
            match transact(ledger, &attempted, writes).await? {
                Outcome::Done => return Ok(Written::Done),
                Outcome::Refused(reasons) => reasons,
            }
        }
    };
    match refused.found(RECORD) {
        Some(item) => Ok(Written::Lost { found: items::runner(item)? }),
        None => Ok(Written::Missing),
    }
}

/// All of them or none; the records first, then their logs.
pub(super) async fn write_all(
    ledger: &DynamoLedger,
    writes: &[RunnerWrite<'_>],
) -> Result<AllWritten, LedgerError> {
    check_together(writes)?;
    let records = writes.iter().map(|write| replace(ledger, *write));
    let logs = writes.iter().map(|write| audit::of_runner(ledger, write.after, write.entry));
    let parts = records.chain(logs).collect::<Result<Vec<_>, _>>()?;
    let reasons = match transact(ledger, &format!("write {} runners", writes.len()), parts).await? {
        Outcome::Done => return Ok(AllWritten::Done),
        Outcome::Refused(reasons) => reasons,
    };
    for (index, write) in writes.iter().enumerate() {
        let before = reasons.found(index).map(items::runner).transpose()?;
        if !before.is_some_and(|found| written_before(&found, write.after)) {
            return Ok(AllWritten::Lost);
        }
    }
    Ok(AllWritten::Done)
}

/// `after` in the place of `before`, as a part of a transaction. What stands beside the record stays.
pub(super) fn replace(
    ledger: &DynamoLedger,
    write: RunnerWrite<'_>,
) -> Result<TransactWriteItem, LedgerError> {
    let RunnerWrite { before, after, look_at, entry: _ } = write;
    Expression::default()
        .columns(runner_columns(after, look_at)?)
        .only_if(STATE, "=", s(before.state.name().as_str()))
        .only_if(EPOCH, "=", n(before.epoch.0))
        .only_if(REV, "=", n(before.rev))
        .update(&ledger.table, record_key(runner_pk(&before.id)))
        .map_err(|error| failed(format!("write runner {}", before.id), error))
}

pub(super) async fn heartbeat(
    ledger: &DynamoLedger,
    id: &RunnerId,
    epoch: Epoch,
    at: Timestamp,
) -> Result<(), LedgerError> {
    let expression = Expression::default().set(SEEN_AT, time(at));
    touch(ledger, &format!("note that {id} was heard"), id, of_life(expression, epoch)).await
}

pub(super) async fn note_announced(
    ledger: &DynamoLedger,
    id: &RunnerId,
    epoch: Epoch,
    at: Timestamp,
) -> Result<(), LedgerError> {
    let expression = Expression::default().set(ANNOUNCED_AT, time(at));
    touch(ledger, &format!("note that {id} was announced"), id, of_life(expression, epoch)).await
}

/// A word from an earlier life, or about one that is over, changes nothing.
fn of_life(expression: Expression, epoch: Epoch) -> Expression {
    let terminated = s(StateName::Terminated.as_str());
    expression.only_if(EPOCH, "=", n(epoch.0)).only_if(STATE, "<>", terminated)
}

/// An update of what stands beside the record. That its condition failed is of no interest.
pub(super) async fn touch(
    ledger: &DynamoLedger,
    attempted: &str,
    id: &RunnerId,
    expression: Expression,
) -> Result<(), LedgerError> {
    let update = ledger.client.update_item().table_name(&ledger.table);
    let update = expression.apply(update.set_key(Some(record_key(runner_pk(id)))));
    match patiently(conflict_passes, || update.clone().send()).await {
        Ok(_) => Ok(()),
        Err(error) => match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(()),
            Some(_) | None => Err(failed(attempted, error)),
        },
    }
}
