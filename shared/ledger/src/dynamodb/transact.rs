//! Writes of items, alone or all together, each on its condition. What meets another transaction on the same item is sent again with jitter:
//! that is no failed condition. What a failed condition means is for the caller to say.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use aws_sdk_dynamodb::Error;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{
    CancellationReason, ConditionCheck, Delete, Put, ReturnValuesOnConditionCheckFailure as OnFailure,
    TransactWriteItem, Update,
};
use motorpool_control::ports::ledger::LedgerError;

use super::DynamoLedger;
use super::expression::Expression;
use super::rows::Item;

const ATTEMPTS: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub(super) enum Write {
    Put { item: Item, only_if: Expression },
    Update { key: Item, with: Expression },
    Delete { key: Item, only_if: Expression },
    Check { key: Item, only_if: Expression },
}

#[derive(Debug)]
pub(super) enum Outcome {
    Done,
    /// Nothing was written. One answer for each write, in its order; at least one of them is a failure.
    Refused(Vec<Condition>),
}

#[derive(Debug)]
pub(super) enum Condition {
    Held,
    /// With the item that was there.
    Failed {
        found: Option<Item>,
    },
}

/// All of `writes`, or none.
pub(super) async fn write(
    ledger: &DynamoLedger,
    attempted: &str,
    writes: Vec<Write>,
) -> Result<Outcome, LedgerError> {
    let sent = match writes.as_slice() {
        [write] => patiently(|| alone(ledger, write.clone())).await,
        writes => {
            let parts = writes.iter().map(|write| part(&ledger.table, write.clone()));
            let parts = parts.collect::<Result<Vec<_>, _>>();
            let parts = parts.map_err(|error| LedgerError::failed(attempted, error))?;
            patiently(|| together(ledger, parts.clone())).await
        }
    };
    let Err(error) = sent else { return Ok(Outcome::Done) };
    match conditions(&error) {
        Some(conditions) => Ok(Outcome::Refused(conditions)),
        None => Err(LedgerError::failed(attempted, error)),
    }
}

/// The SDK's builders share these methods, but no trait that has them.
macro_rules! conditional {
    ($builder:expr, $table:expr, $parts:expr) => {
        $builder
            .table_name($table)
            .set_condition_expression($parts.condition)
            .set_expression_attribute_names($parts.names)
            .set_expression_attribute_values($parts.values)
            .return_values_on_condition_check_failure(OnFailure::AllOld)
    };
}

/// At half the price of a transaction.
async fn alone(ledger: &DynamoLedger, write: Write) -> Result<(), Error> {
    let DynamoLedger { client, table } = ledger;
    match write {
        Write::Put { item, only_if } => {
            let parts = only_if.parts();
            conditional!(client.put_item(), table, parts).set_item(Some(item)).send().await?;
        }
        Write::Update { key, with } => {
            let parts = with.parts();
            let update = client.update_item().set_key(Some(key)).set_update_expression(parts.update);
            conditional!(update, table, parts).send().await?;
        }
        Write::Delete { key, only_if } => {
            let parts = only_if.parts();
            conditional!(client.delete_item(), table, parts).set_key(Some(key)).send().await?;
        }
        // There is no request for it but a transaction.
        check @ Write::Check { .. } => together(ledger, vec![part(table, check)?]).await?,
    }
    Ok(())
}

async fn together(ledger: &DynamoLedger, parts: Vec<TransactWriteItem>) -> Result<(), Error> {
    // Each attempt gets a token of its own, which the SDK's retries of that attempt share.
    ledger.client.transact_write_items().set_transact_items(Some(parts)).send().await?;
    Ok(())
}

/// A write as a part of a transaction.
fn part(table: &str, write: Write) -> Result<TransactWriteItem, BuildError> {
    let one = TransactWriteItem::builder();
    let one = match write {
        Write::Put { item, only_if } => {
            let parts = only_if.parts();
            one.put(conditional!(Put::builder(), table, parts).set_item(Some(item)).build()?)
        }
        Write::Update { key, with } => {
            let parts = with.parts();
            let update = Update::builder().set_key(Some(key)).set_update_expression(parts.update);
            one.update(conditional!(update, table, parts).build()?)
        }
        Write::Delete { key, only_if } => {
            let parts = only_if.parts();
            one.delete(conditional!(Delete::builder(), table, parts).set_key(Some(key)).build()?)
        }
        Write::Check { key, only_if } => {
            let parts = only_if.parts();
            let check = conditional!(ConditionCheck::builder(), table, parts).set_key(Some(key));
            one.condition_check(check.build()?)
        }
    };
    Ok(one.build())
}

/// Calls until the answer is none that passes by itself, a few times at most.
async fn patiently<Answer>(mut call: impl FnMut() -> Answer) -> Result<(), Error>
where
    Answer: Future<Output = Result<(), Error>>,
{
    for attempt in 1..ATTEMPTS {
        match call().await {
            Err(error) if passes(&error) => {
                tracing::debug!(attempt, "met another transaction, and tries again");
                tokio::time::sleep(pause(attempt)).await;
            }
            answer => return answer,
        }
    }
    call().await
}

/// Twice as long each time, and anything between half of that and all: whoever met should not meet again.
pub(super) fn pause(attempt: u32) -> Duration {
    let whole = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(attempt - 1)).min(LONGEST_PAUSE);
    let half = u64::try_from(whole.as_micros() / 2).unwrap_or(u64::MAX).max(1);
    // The standard library keys each hasher with chance; timing needs no better one.
    let chance = RandomState::new().hash_one(attempt) % half;
    whole / 2 + Duration::from_micros(chance)
}

const CONDITION_FAILED: &str = "ConditionalCheckFailed";
const PASSING: [&str; 3] = ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"];

fn passes(error: &Error) -> bool {
    match reasons(error) {
        // Even beside a failed condition: only a transaction that met nobody shows all that it found.
        Some(reasons) => reasons.iter().any(|reason| is(reason, &PASSING)),
        // A single write was refused because a transaction is under way on its item.
        None => matches!(error, Error::TransactionConflictException(_)),
    }
}

/// What became of each write's condition, if it is for a failed one that nothing was written.
fn conditions(error: &Error) -> Option<Vec<Condition>> {
    if let Error::ConditionalCheckFailedException(failed) = error {
        return Some(vec![Condition::Failed { found: there(failed.item()) }]);
    }
    let reasons = reasons(error).filter(|_| !passes(error))?;
    let failed = |reason: &CancellationReason| is(reason, &[CONDITION_FAILED]);
    let condition = |reason: &CancellationReason| match failed(reason) {
        true => Condition::Failed { found: there(reason.item()) },
        false => Condition::Held,
    };
    reasons.iter().any(failed).then(|| reasons.iter().map(condition).collect())
}

fn reasons(error: &Error) -> Option<&[CancellationReason]> {
    let Error::TransactionCanceledException(cancelled) = error else { return None };
    Some(cancelled.cancellation_reasons())
}

fn is(reason: &CancellationReason, codes: &[&str]) -> bool {
    reason.code().is_some_and(|code| codes.contains(&code))
}

/// An item without attributes is none.
fn there(item: Option<&Item>) -> Option<Item> {
    item.filter(|item| !item.is_empty()).cloned()
}
