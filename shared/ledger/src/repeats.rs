//! Recognises a write of our own whose answer was lost: its repetition meets what it wrote, and has not lost a race.
//! Pure, and the same for every adapter.

use std::collections::BTreeSet;

use motorpool_control::ports::ledger::{IntentsWrite, LedgerError};
use motorpool_domain::claim::Claim;
use motorpool_domain::runner::Runner;

/// A transaction's size: a launch is one call to the provider.
const MOST_INTENTS: usize = 25;

/// The claim already has the runner in that epoch, and both records say so. Nobody else could have written that.
pub(crate) fn taken_before(runner: Option<&Runner>, claim: &Claim, before: &Runner) -> bool {
    runner.is_some_and(|found| found.epoch == before.epoch && found.held_by(&claim.id))
        && claim.members.iter().any(|member| member.runner == before.id && member.epoch == before.epoch)
}

/// The record is of the same launch: a launch's id is fresh, and its intents were written all together.
pub(crate) fn launched_before(found: &Runner, intent: &Runner) -> bool {
    found.launch == intent.launch
}

/// What no adapter takes: more intents than a transaction holds, or one id twice.
pub(crate) fn check_intents(write: &IntentsWrite<'_>) -> Result<(), LedgerError> {
    let ids: BTreeSet<_> = write.runners.iter().map(|runner| &runner.id).collect();
    if ids.len() == write.runners.len() && ids.len() <= MOST_INTENTS {
        return Ok(());
    }
    Err(LedgerError::Failed {
        attempted: format!("write {} launch intents", write.runners.len()),
        source: format!("they must be at most {MOST_INTENTS}, each with an id of its own").into(),
    })
}
