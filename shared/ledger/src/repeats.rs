//! Recognises a write of our own whose answer was lost: its repetition meets what it wrote, and has not lost a race.
//! Pure, and the same for every adapter.

use std::collections::BTreeSet;

use motorpool_control::ports::ledger::{ClaimWrite, IntentsWrite, LedgerError, RunnerWrite};
use motorpool_domain::claim::{Claim, Member};
use motorpool_domain::runner::Runner;

/// A transaction's size: a launch is one call to the provider.
const MOST_INTENTS: usize = 25;

/// The claim has the runner as this write gives it, both records say so, and it had not when the write was decided on. Whoever wrote that
/// meant the same.
pub(crate) fn taken_before(
    found: Option<&Runner>,
    found_claim: &Claim,
    claim: ClaimWrite<'_>,
    runner: RunnerWrite<'_>,
) -> bool {
    let RunnerWrite { before, .. } = runner;
    let ClaimWrite { before: decided_on, after, .. } = claim;
    let is_it = |member: &&Member| member.runner == before.id && member.epoch == before.epoch;
    let gained = after.members.iter().find(is_it);
    found.is_some_and(|found| found.epoch == before.epoch && found.held_by(&found_claim.id))
        && gained.is_some_and(|gained| found_claim.members.contains(gained))
        && !decided_on.members.iter().any(|member| is_it(&member))
}

/// The record is of the same launch: a launch's id is fresh, and its intents were written all together.
pub(crate) fn launched_before(found: &Runner, intent: &Runner) -> bool {
    found.launch == intent.launch
}

/// The record is what this write makes of it, as far as a write makes it. Whoever wrote it meant the same.
pub(crate) fn written_before(found: &Runner, after: &Runner) -> bool {
    Runner { seen_at: after.seen_at, announced_at: after.announced_at, ..found.clone() } == *after
}

/// What no adapter takes: more records than a transaction holds, one of them twice, or one that gives its slot back.
pub(crate) fn check_together(writes: &[RunnerWrite<'_>]) -> Result<(), LedgerError> {
    let ids: BTreeSet<_> = writes.iter().map(|write| &write.before.id).collect();
    let ends = writes.iter().any(|write| !write.after.state.name().live());
    if ids.len() == writes.len() && (1..=MOST_INTENTS).contains(&ids.len()) && !ends {
        return Ok(());
    }
    Err(LedgerError::Failed {
        attempted: format!("write {} runners together", writes.len()),
        source: format!("they must be 1 to {MOST_INTENTS}, each another, and none may end").into(),
    })
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
