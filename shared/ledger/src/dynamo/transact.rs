//! Sends what may meet another transaction on the same item, again and again with jitter: that is no lost race. What a
//! failed condition means is for the caller to say.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{CancellationReason, TransactWriteItem};
use motorpool_control::ports::ledger::LedgerError;

use super::items::Item;
use super::{DynamoLedger, failed};

const ATTEMPTS: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) enum Outcome {
    Done,
    /// Nothing was written: at least one condition failed. One reason for each write, in its order.
    Refused(Reasons),
}

#[derive(Debug)]
pub(super) struct Reasons(Vec<CancellationReason>);

impl Reasons {
    /// Whether the condition of the write at `index` failed.
    pub(super) fn failed(&self, index: usize) -> bool {
        self.0.get(index).is_some_and(|reason| reason.code() == Some(CONDITION_FAILED))
    }

    /// The item that was there when its condition failed.
    pub(super) fn found(&self, index: usize) -> Option<&Item> {
        self.0.get(index).filter(|_| self.failed(index))?.item().filter(|item| !item.is_empty())
    }
}

/// All of `writes`, or none.
pub(super) async fn transact(
    ledger: &DynamoLedger,
    attempted: &str,
    writes: Vec<TransactWriteItem>,
) -> Result<Outcome, LedgerError> {
    let request = ledger.client.transact_write_items().set_transact_items(Some(writes));
    // Each attempt gets a token of its own, which the SDK's retries of that attempt share.
    match patiently(transaction_passes, || request.clone().send()).await {
        Ok(_) => Ok(Outcome::Done),
        Err(error) => match reasons(&error) {
            Some(reasons) if has(reasons, &[CONDITION_FAILED]) => {
                Ok(Outcome::Refused(Reasons(reasons.to_vec())))
            }
            Some(_) | None => Err(failed(attempted, error)),
        },
    }
}

/// Calls until the answer is none that passes by itself, a few times at most.
pub(super) async fn patiently<T, E, Answer>(
    passes: impl Fn(&SdkError<E>) -> bool,
    mut call: impl FnMut() -> Answer,
) -> Result<T, SdkError<E>>
where
    Answer: Future<Output = Result<T, SdkError<E>>>,
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

/// A single write was refused because a transaction is under way on its item.
pub(super) fn conflict_passes<E: ProvideErrorMetadata>(error: &SdkError<E>) -> bool {
    error.code() == Some("TransactionConflictException")
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

fn transaction_passes(error: &SdkError<TransactWriteItemsError>) -> bool {
    // Even beside a failed condition: only a transaction that met nobody shows all that it found.
    reasons(error).is_some_and(|reasons| has(reasons, &PASSING))
}

fn reasons(error: &SdkError<TransactWriteItemsError>) -> Option<&[CancellationReason]> {
    match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
            Some(cancelled.cancellation_reasons())
        }
        Some(_) | None => None,
    }
}

fn has(reasons: &[CancellationReason], codes: &[&str]) -> bool {
    reasons.iter().any(|reason| reason.code().is_some_and(|code| codes.contains(&code)))
}
