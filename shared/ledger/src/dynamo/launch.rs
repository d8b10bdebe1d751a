//! Launch intents: one transaction over the pool's slots, the new runners, the claim that gains them, and all their logs.

use aws_sdk_dynamodb::types::TransactWriteItem;
use motorpool_control::ports::ledger::{ClaimGain, ClaimOpening, IntentsWrite, IntentsWritten, LedgerError};
use motorpool_domain::runner::{Runner, StateName};

use super::expression::Expression;
use super::items::{self, EPOCH, STATE, item, n, record_key, runner_columns, s};
use super::transact::{Outcome, Reasons, transact};
use super::{DynamoLedger, audit, claims, failed, pools};
use crate::keys::runner_pk;
use crate::repeats::{check_intents, launched_before};

/// The transaction's order: the pool, the runners, the claim if there is one (and its key, if it is opened), the logs.
const POOL: usize = 0;
const FIRST_RUNNER: usize = 1;

pub(super) async fn write(
    ledger: &DynamoLedger,
    write: IntentsWrite<'_>,
) -> Result<IntentsWritten, LedgerError> {
    check_intents(&write)?;
    let Outcome::Refused(reasons) = attempt(ledger, write).await? else { return Ok(IntentsWritten::Done) };
    let Some((claim, opening)) = write.claim.and_then(|claim| Some((claim, claim.opening?))) else {
        return refused(&write, &reasons);
    };
    let key = FIRST_RUNNER + write.runners.len() + 1;
    let Some(expired) = claims::expired_holder(ledger, &reasons, key).await? else {
        return refused(&write, &reasons);
    };
    let opening = ClaimOpening { replaces: Some(&expired), ..opening };
    let again = IntentsWrite { claim: Some(ClaimGain { opening: Some(opening), ..claim }), ..write };
    match attempt(ledger, again).await? {
        Outcome::Done => Ok(IntentsWritten::Done),
        Outcome::Refused(reasons) => refused(&again, &reasons),
    }
}

async fn attempt(ledger: &DynamoLedger, write: IntentsWrite<'_>) -> Result<Outcome, LedgerError> {
    let IntentsWrite { pool, max, only_if_used, runners, look_at: _, claim, entry } = write;
    let mut writes = vec![pools::take_slots(ledger, pool, runners.len(), max, only_if_used)?];
    for runner in runners {
        writes.push(intent(ledger, runner, &write)?);
    }
    if let Some(claim) = claim {
        writes.extend(claims::gain(ledger, claim)?);
    }
    for runner in runners {
        writes.push(audit::of_runner(ledger, runner, entry)?);
    }
    if let Some(claim) = claim {
        writes.extend(claims::gain_log(ledger, claim)?);
    }
    transact(ledger, &format!("write {} launch intents for pool {pool}", runners.len()), writes).await
}

/// A whole new item: nothing of an earlier life stays.
fn intent(
    ledger: &DynamoLedger,
    runner: &Runner,
    write: &IntentsWrite<'_>,
) -> Result<TransactWriteItem, LedgerError> {
    let new = item(record_key(runner_pk(&runner.id)), runner_columns(runner, write.look_at)?);
    Expression::default()
        .only_if_absent_or(vec![
            (STATE, "=", s(StateName::Terminated.as_str())),
            (EPOCH, "<", n(runner.epoch.0)),
        ])
        .put(&ledger.table, new)
        .map_err(|error| failed(format!("write the launch intent of {}", runner.id), error))
}

fn refused(write: &IntentsWrite<'_>, reasons: &Reasons) -> Result<IntentsWritten, LedgerError> {
    if let (Some(first), Some(found)) = (write.runners.first(), reasons.found(FIRST_RUNNER))
        && launched_before(&items::runner(found)?, first)
    {
        return Ok(IntentsWritten::Done);
    }
    let behind_runners = FIRST_RUNNER + write.runners.len();
    if reasons.failed(POOL) && reasons.found(POOL).is_none() {
        return Ok(IntentsWritten::NoPool);
    }
    let opens = write.claim.is_some_and(|claim| claim.opening.is_some());
    let claim_lost = write.claim.is_some() && reasons.failed(behind_runners);
    if claim_lost || (opens && reasons.failed(behind_runners + 1)) {
        return Ok(IntentsWritten::ClaimLost);
    }
    if (FIRST_RUNNER..behind_runners).any(|index| reasons.failed(index)) {
        return Ok(IntentsWritten::Exists);
    }
    match reasons.found(POOL) {
        Some(pool) => Ok(IntentsWritten::NoSlots { used: items::used(pool)? }),
        None => Err(failed(
            format!("write launch intents for pool {}", write.pool),
            "the transaction was cancelled for no condition that it has".to_owned(),
        )),
    }
}
