//! Opening a claim: its record and its name in one transaction, alone or with its first runners. A name is free if nobody has it, if the
//! claim that has it is the ended one that is to be replaced, or if that claim's record has expired before the name did.

use super::claim::{self, ClaimWrite};
use super::{Store, log, read, row};
use crate::ports::ledger::LedgerError;
use crate::ports::tx::{Committed, Op, Row, Stored, Tx, When};
use motorpool_domain::claim::{Claim, ClaimName};
use motorpool_domain::record::Record;
use motorpool_domain::{AuditEntry, ClaimId};

/// A claim that gains runners. One that is not in the ledger yet is opened by the same write: `after` is then the first that is
/// written of it, and the condition is that its name is free.
#[derive(Debug, Clone, Copy)]
pub struct ClaimGain<'a> {
    pub write: ClaimWrite<'a>,
    pub opening: Option<ClaimOpening<'a>>,
}

/// How a claim takes its name: nobody has it, or `replaces`, which has ended.
#[derive(Debug, Clone, Copy)]
pub struct ClaimOpening<'a> {
    pub replaces: Option<&'a ClaimId>,
    pub entry: &'a AuditEntry,
}

impl<'a> From<ClaimWrite<'a>> for ClaimGain<'a> {
    fn from(write: ClaimWrite<'a>) -> Self {
        Self { write, opening: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    Done,
    /// Another claim has the name.
    Lost {
        found: Option<ClaimId>,
    },
}

impl Store {
    /// A new claim under its name, without a runner yet.
    pub async fn open_claim(&self, claim: &Claim, opening: ClaimOpening<'_>) -> Result<Opened, LedgerError> {
        let logged = log::of(claim, opening.entry)?;
        let tx = |name: When| {
            let [record, name] = new(claim, name)?;
            Ok(Tx::default().with(record).with(name).logged(logged.clone()))
        };
        const NAME: usize = 1;
        if self.commit_opening(Some(opening), NAME, tx).await? == Committed::Done {
            return Ok(Opened::Done);
        }
        match self.one::<ClaimName>(ClaimName::path_of(&claim.key)).await? {
            // Its own write, whose answer was lost.
            Some(found) if found.claim == claim.id => Ok(Opened::Done),
            found => Ok(Opened::Lost { found: found.map(|found| found.claim) }),
        }
    }

    /// Commits what `tx` makes of the condition on the claim's name, which is the operation at `name`; and once more, if the name turns out
    /// to be free otherwise than was thought.
    pub(super) async fn commit_opening(
        &self,
        opening: Option<ClaimOpening<'_>>,
        name: usize,
        tx: impl Fn(When) -> Result<Tx, LedgerError>,
    ) -> Result<Committed, LedgerError> {
        let thought = match opening.and_then(|opening| opening.replaces) {
            None => When::Absent,
            Some(ended) => When::Is(ClaimName::version_of(ended)),
        };
        let committed = self.commit(&tx(thought.clone())?).await?;
        let Some(found) = opening.and_then(|_| committed.lost(name)) else { return Ok(committed) };
        match self.free_otherwise(found, &thought).await? {
            Some(truth) => self.commit(&tx(truth)?).await,
            None => Ok(committed),
        }
    }

    async fn free_otherwise(
        &self,
        found: Option<&Stored>,
        thought: &When,
    ) -> Result<Option<When>, LedgerError> {
        let Some(found) = found else {
            return Ok((*thought != When::Absent).then_some(When::Absent));
        };
        let holder: ClaimName = read(found)?;
        let is_gone = self.claim(&holder.claim).await?.is_none();
        Ok(is_gone.then(|| When::Is(holder.version())))
    }
}

/// The operations of a claim that gains runners: its record; and its name, if the claim is opened with them. In this order.
pub(super) fn gain(gain: ClaimGain<'_>, name: When) -> Result<Vec<Op>, LedgerError> {
    match gain.opening {
        None => Ok(vec![claim::replace(gain.write)?]),
        Some(_) => Ok(new(gain.write.after, name)?.into()),
    }
}

/// The log of a claim that gains runners.
pub(super) fn gain_log(gain: ClaimGain<'_>) -> Result<Vec<Row>, LedgerError> {
    let ClaimGain { write: ClaimWrite { before, after, entry }, opening } = gain;
    let opened = opening.map(|opening| log::of(before, opening.entry)).transpose()?;
    Ok(opened.into_iter().chain([log::of(after, entry)?]).collect())
}

/// A new record, and its name.
fn new(claim: &Claim, name: When) -> Result<[Op; 2], LedgerError> {
    Ok([
        Op::Put { row: row(claim)?, when: When::Absent },
        Op::Put { row: row(&ClaimName::of(claim))?, when: name },
    ])
}
