//! Taking a runner that nobody holds for a claim: one transaction over both records and both logs.

use motorpool_control::ports::ledger::{
    ClaimGain, ClaimOpening, ClaimWrite, LedgerError, RunnerWrite, Taken,
};
use motorpool_domain::runner::Runner;

use super::items;
use super::transact::{Outcome, Reasons, transact};
use super::{DynamoLedger, audit, claims, runners};
use crate::repeats::taken_before;

/// The transaction's order; the key only if the claim is opened with it.
const RUNNER: usize = 0;
const CLAIM: usize = 1;
const KEY: usize = 2;

pub(super) async fn take_idle(
    ledger: &DynamoLedger,
    claim: ClaimGain<'_>,
    runner: RunnerWrite<'_>,
) -> Result<Taken, LedgerError> {
    if !runner.before.state.is_free() {
        // No condition could hold: the caller meant to take what it had not seen free.
        let found = runners::one(ledger, &runner.before.id).await?;
        return Ok(Taken::RunnerLost { found: found.map(Box::new) });
    }
    let Outcome::Refused(reasons) = attempt(ledger, claim, runner).await? else { return Ok(Taken::Done) };
    let Some(opening) = claim.opening else { return refused(ledger, claim.write, runner, &reasons).await };
    let Some(expired) = claims::expired_holder(ledger, &reasons, KEY).await? else {
        return refused(ledger, claim.write, runner, &reasons).await;
    };
    let opening = ClaimOpening { replaces: Some(&expired), ..opening };
    match attempt(ledger, ClaimGain { opening: Some(opening), ..claim }, runner).await? {
        Outcome::Done => Ok(Taken::Done),
        Outcome::Refused(reasons) => refused(ledger, claim.write, runner, &reasons).await,
    }
}

async fn attempt(
    ledger: &DynamoLedger,
    claim: ClaimGain<'_>,
    runner: RunnerWrite<'_>,
) -> Result<Outcome, LedgerError> {
    let mut writes = vec![runners::replace(ledger, runner)?];
    writes.extend(claims::gain(ledger, claim)?);
    writes.push(audit::of_runner(ledger, runner.after, runner.entry)?);
    writes.extend(claims::gain_log(ledger, claim)?);
    let attempted = format!("take runner {} for claim {}", runner.before.id, claim.write.before.id);
    transact(ledger, &attempted, writes).await
}

async fn refused(
    ledger: &DynamoLedger,
    claim: ClaimWrite<'_>,
    runner: RunnerWrite<'_>,
    reasons: &Reasons,
) -> Result<Taken, LedgerError> {
    if !reasons.failed(RUNNER) {
        return Ok(Taken::ClaimLost);
    }
    let found = reasons.found(RUNNER).map(items::runner).transpose()?;
    if held(found.as_ref(), claim, runner) {
        let in_claim = match reasons.found(CLAIM) {
            Some(item) => Some(items::claim(item)?),
            None => claims::one(ledger, &claim.before.id).await?,
        };
        if in_claim.is_some_and(|in_claim| taken_before(found.as_ref(), &in_claim, claim, runner)) {
            return Ok(Taken::Done);
        }
    }
    Ok(Taken::RunnerLost { found: found.map(Box::new) })
}

fn held(found: Option<&Runner>, claim: ClaimWrite<'_>, runner: RunnerWrite<'_>) -> bool {
    found.is_some_and(|found| found.epoch == runner.before.epoch && found.held_by(&claim.before.id))
}
