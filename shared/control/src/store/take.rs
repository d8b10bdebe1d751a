//! Taking a runner that nobody holds for a claim: one transaction over both records, the claim's name if it is opened with it, and their logs.

use super::claim::ClaimWrite;
use super::opening::{self, ClaimGain};
use super::runner::{self, RunnerWrite};
use super::{Store, log, read};
use crate::ports::ledger::LedgerError;
use crate::ports::tx::{Committed, Tx};
use motorpool_domain::claim::taken_before;
use motorpool_domain::runner::Runner;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    Done,
    /// The claim moved on: ended, or gained another runner meanwhile; or another has its name.
    ClaimLost,
    /// Somebody else has the runner, or it is no longer free.
    RunnerLost {
        found: Option<Box<Runner>>,
    },
}

/// The transaction's order; the name only if the claim is opened with it.
const RUNNER: usize = 0;
const CLAIM: usize = 1;
const NAME: usize = 2;

impl Store {
    /// One transaction: the claim is still as it was read, or opened with it, and gains the runner; the runner is idle or on
    /// its way for nobody, and is taken.
    pub async fn take_idle(
        &self,
        claim: ClaimGain<'_>,
        runner: RunnerWrite<'_>,
    ) -> Result<Taken, LedgerError> {
        if !runner.before.state.is_free() {
            // No condition could hold: the caller meant to take what it had not seen free.
            let found = self.runner(&runner.before.id).await?;
            return Ok(Taken::RunnerLost { found: found.map(Box::new) });
        }
        let tx = |name| {
            let mut tx = Tx::default().with(runner::replace(runner)?);
            tx.ops.extend(opening::gain(claim, name)?);
            tx.log.push(log::of(runner.after, runner.entry)?);
            tx.log.extend(opening::gain_log(claim)?);
            Ok(tx)
        };
        match self.commit_opening(claim.opening, NAME, tx).await? {
            Committed::Done => Ok(Taken::Done),
            refused => self.why_not_taken(claim.write, runner, &refused).await,
        }
    }

    async fn why_not_taken(
        &self,
        claim: ClaimWrite<'_>,
        runner: RunnerWrite<'_>,
        refused: &Committed,
    ) -> Result<Taken, LedgerError> {
        let Some(found) = refused.lost(RUNNER) else { return Ok(Taken::ClaimLost) };
        let found: Option<Runner> = found.map(read).transpose()?;
        if let Some(found) = &found
            && found.held_by(&claim.before.id)
        {
            let in_claim = match refused.lost(CLAIM).flatten() {
                Some(stored) => Some(read(stored)?),
                None => self.claim(&claim.before.id).await?,
            };
            let is_repeated =
                |in_claim| taken_before(found, &in_claim, claim.before, claim.after, runner.before);
            if in_claim.is_some_and(is_repeated) {
                return Ok(Taken::Done);
            }
        }
        Ok(Taken::RunnerLost { found: found.map(Box::new) })
    }
}
