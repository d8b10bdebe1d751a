//! The end of a claim together with the release of its runners: one transaction over all their records and logs.

use super::claim::{self, ClaimWrite};
use super::runner::{self, AllWritten, RunnerWrite};
use super::{Store, log, read};
use crate::ports::ledger::LedgerError;
use crate::ports::tx::{Committed, Tx};
use motorpool_domain::claim::Claim;

impl Store {
    /// The claim and each of these runners are still as they were read, and become what they are to be; or nothing is written. At most as many as
    /// are launched together, and none enters `terminated`.
    pub async fn release(
        &self,
        claim: ClaimWrite<'_>,
        runners: &[RunnerWrite<'_>],
    ) -> Result<AllWritten, LedgerError> {
        const CLAIM: usize = 0;
        let mut tx = Tx::default().with(claim::replace(claim)?).logged(log::of(claim.after, claim.entry)?);
        for write in runners {
            tx = tx.with(runner::replace(*write)?).logged(log::of(write.after, write.entry)?);
        }
        let committed = self.commit(&tx).await?;
        // A claim is written with its runners or not at all: that it is so already is this very write, whose answer was lost.
        let found = committed.lost(CLAIM).flatten().map(read::<Claim>).transpose()?;
        Ok(match committed == Committed::Done || found.is_some_and(|found| found == *claim.after) {
            true => AllWritten::Done,
            false => AllWritten::Lost,
        })
    }
}
