//! A claim while it is given runners: one of the ledger, or a draft that the first write which gives it something opens.

use crate::advance::ClaimNow;
use crate::store::{ClaimGain, ClaimOpening, ClaimWrite};
use motorpool_domain::claim::Claim;
use motorpool_domain::runner::Runner;
use motorpool_domain::{AuditEntry, ClaimId, Timestamp};

#[derive(Debug)]
pub(crate) struct Filling {
    pub(crate) claim: Claim,
    draft: Option<Draft>,
    /// The runners that it took just now, as they were written.
    taken: Vec<Runner>,
}

/// How a claim that is not in the ledger yet takes its key.
#[derive(Debug)]
struct Draft {
    replaces: Option<ClaimId>,
    entry: AuditEntry,
}

impl Filling {
    pub(crate) fn of_ledger(claim: Claim) -> Self {
        Self { claim, draft: None, taken: Vec::new() }
    }

    pub(crate) fn draft(claim: Claim, replaces: Option<ClaimId>, entry: AuditEntry) -> Self {
        Self { claim, draft: Some(Draft { replaces, entry }), taken: Vec::new() }
    }

    /// It gets nothing now, and its log says so from the start.
    pub(crate) fn that_waits(self, reason: String, not_before: Option<Timestamp>) -> Self {
        let entry =
            |entry: AuditEntry| AuditEntry { why: format!("{}, and waits: {reason}", entry.why), ..entry };
        let draft =
            self.draft.map(|Draft { replaces, entry: opened }| Draft { replaces, entry: entry(opened) });
        Self { claim: self.claim.waiting_for(Some(reason), not_before), draft, taken: self.taken }
    }

    /// Nothing, if the ledger has it.
    pub(crate) fn opening(&self) -> Option<ClaimOpening<'_>> {
        let Draft { replaces, entry } = self.draft.as_ref()?;
        Some(ClaimOpening { replaces: replaces.as_ref(), entry })
    }

    /// The claim was written with this runner.
    pub(crate) fn with(self, claim: Claim, runner: Runner) -> Self {
        let mut taken = self.taken;
        taken.push(runner);
        Self { claim, draft: None, taken }
    }

    /// The claim with its members' records, if all of them were taken just now: then nothing need be read again to tell it.
    pub(crate) fn just_taken(self) -> Option<ClaimNow> {
        let Self { claim, draft: _, taken } = self;
        let same =
            claim.members.iter().map(|member| &member.runner).eq(taken.iter().map(|runner| &runner.id));
        same.then(|| ClaimNow { claim, members: taken.into_iter().map(Some).collect() })
    }

    pub(crate) fn gain<'a>(&'a self, after: &'a Claim, entry: &'a AuditEntry) -> ClaimGain<'a> {
        ClaimGain { write: ClaimWrite { before: &self.claim, after, entry }, opening: self.opening() }
    }
}
