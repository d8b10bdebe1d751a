//! A claim while it is given runners: one that the ledger has, or a new one. A new claim is opened by the first write that gives it a runner.

use super::reconcile::ClaimNow;
use crate::claim::Waits;
use crate::store::{ClaimGain, ClaimOpening, ClaimWrite, Found};
use motorpool_domain::claim::Claim;
use motorpool_domain::pool::PoolRecord;
use motorpool_domain::runner::Runner;
use motorpool_domain::{AuditEntry, ClaimId};

#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) claim: Claim,
    unopened: Option<Unopened>,
    /// The runners that the claim took just now, as they were written.
    taken: Vec<Runner>,
}

/// How a claim that is not in the ledger yet takes its key.
#[derive(Debug)]
struct Unopened {
    replaces: Option<ClaimId>,
    entry: AuditEntry,
}

impl Draft {
    pub(crate) fn of_ledger(claim: Claim) -> Self {
        Self { claim, unopened: None, taken: Vec::new() }
    }

    pub(crate) fn unopened(claim: Claim, replaces: Option<ClaimId>, entry: AuditEntry) -> Self {
        Self { claim, unopened: Some(Unopened { replaces, entry }), taken: Vec::new() }
    }

    /// The claim gets nothing now, and its log says so from the start.
    pub(crate) fn waiting_for(&mut self, waits: &Waits) {
        self.claim = waits.said_by(&self.claim);
        if let Some(Unopened { entry, .. }) = &mut self.unopened {
            entry.why = format!("{}, and waits: {}", entry.why, waits.reason);
        }
    }

    /// Nothing, if the ledger has the claim.
    pub(crate) fn opening(&self) -> Option<ClaimOpening<'_>> {
        let Unopened { replaces, entry } = self.unopened.as_ref()?;
        Some(ClaimOpening { replaces: replaces.as_ref(), entry })
    }

    /// The claim was written with this runner.
    pub(crate) fn took(&mut self, claim: Claim, runner: Runner) {
        self.wrote(claim);
        self.taken.push(runner);
    }

    pub(crate) fn wrote(&mut self, claim: Claim) {
        self.claim = claim;
        self.unopened = None;
    }

    /// The claim with its members' records, if all of them were taken just now: then nothing need be read again to tell it.
    pub(crate) fn just_taken(self, pool: &PoolRecord) -> Option<ClaimNow> {
        let Self { claim, unopened: _, taken } = self;
        let same =
            claim.members.iter().map(|member| &member.runner).eq(taken.iter().map(|runner| &runner.id));
        let members = taken.into_iter().map(Found::Record).collect();
        same.then(|| ClaimNow { claim, members, pool: Some(pool.clone()) })
    }

    pub(crate) fn gain<'a>(&'a self, after: &'a Claim, entry: &'a AuditEntry) -> ClaimGain<'a> {
        ClaimGain { write: ClaimWrite { before: &self.claim, after, entry }, opening: self.opening() }
    }
}
