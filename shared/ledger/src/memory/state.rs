//! What the in-memory ledger holds, and how its records, lists and due times are kept in step. It checks no condition.

use std::collections::BTreeMap;

use motorpool_control::ports::ledger::{Due, PoolRecord, RefreshMemory};
use motorpool_domain::claim::{Claim, ClaimKey};
use motorpool_domain::ladder::Shortage;
use motorpool_domain::runner::Runner;
use motorpool_domain::{AuditEntry, ClaimId, Owner, PoolName, RunnerId, Timestamp, Workflow};

use crate::keys;
use crate::listing::Span;
use crate::places::{self, Place};

/// Ordered maps throughout: the same calls give the same answers in the same order.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) pools: BTreeMap<PoolName, PoolRecord>,
    runners: BTreeMap<RunnerId, Row<Runner>>,
    claims: BTreeMap<ClaimId, Row<Claim>>,
    /// The latest claim of each workflow on each pool.
    keys: BTreeMap<(Owner, Workflow), BTreeMap<PoolName, ClaimId>>,
    runner_lists: BTreeMap<Place, RunnerId>,
    claim_lists: BTreeMap<Place, ClaimId>,
    /// By time, then by the record's key.
    due: BTreeMap<(Timestamp, String), Due>,
    /// By the record's key, then in the order of time.
    log: BTreeMap<(String, String), AuditEntry>,
    pub(super) refresh: Option<RefreshMemory>,
    /// By pool, then by what is lacking.
    pub(super) shortages: BTreeMap<(PoolName, String), Shortage>,
}

#[derive(Debug)]
struct Row<T> {
    record: T,
    due_at: Option<Timestamp>,
}

impl State {
    pub(super) fn runner(&self, id: &RunnerId) -> Option<&Runner> {
        self.runners.get(id).map(|row| &row.record)
    }

    pub(super) fn claim(&self, id: &ClaimId) -> Option<&Claim> {
        self.claims.get(id).map(|row| &row.record)
    }

    /// A new life: nothing was heard of it yet, and no queue knows it.
    pub(super) fn put_intent(&mut self, runner: &Runner, look_at: Option<Timestamp>, entry: &AuditEntry) {
        self.put_runner(Runner { seen_at: None, announced_at: None, ..runner.clone() }, look_at, entry);
    }

    /// The record as it is after a write. What heartbeats and announcements left beside it stays.
    pub(super) fn replace_runner(&mut self, after: &Runner, look_at: Option<Timestamp>, entry: &AuditEntry) {
        let beside = self.runner(&after.id).map(|found| (found.seen_at, found.announced_at));
        let (seen_at, announced_at) = beside.unwrap_or_default();
        self.put_runner(Runner { seen_at, announced_at, ..after.clone() }, look_at, entry);
    }

    fn put_runner(&mut self, runner: Runner, look_at: Option<Timestamp>, entry: &AuditEntry) {
        let id = runner.id.clone();
        if let Some(Row { record: old, .. }) = self.runners.get(&id) {
            self.runner_lists.remove(&places::runner_place(old));
        }
        self.runner_lists.insert(places::runner_place(&runner), id.clone());
        let due_at = places::runner_due(&runner, look_at);
        self.log.insert((keys::runner_pk(&id), keys::runner_log_sk(&runner, entry)), entry.clone());
        let old = self.runners.insert(id.clone(), Row { record: runner, due_at });
        self.set_due(keys::runner_pk(&id), Due::Runner(id), old.and_then(|row| row.due_at), due_at);
    }

    pub(super) fn look_again(&mut self, id: &RunnerId, at: Timestamp) {
        let Some(row) = self.runners.get_mut(id) else { return };
        let due_at = places::runner_due(&row.record, Some(at));
        let old = std::mem::replace(&mut row.due_at, due_at);
        self.set_due(keys::runner_pk(id), Due::Runner(id.clone()), old, due_at);
    }

    /// The runner, for what is kept beside its record.
    pub(super) fn runner_mut(&mut self, id: &RunnerId) -> Option<&mut Runner> {
        self.runners.get_mut(id).map(|row| &mut row.record)
    }

    pub(super) fn put_claim(&mut self, claim: &Claim, entry: &AuditEntry) {
        let id = &claim.id;
        if let Some(Row { record: old, .. }) = self.claims.get(id) {
            self.claim_lists.remove(&places::claim_place(old));
        }
        self.claim_lists.insert(places::claim_place(claim), id.clone());
        let due_at = places::claim_due(claim, entry.at);
        self.log.insert((keys::claim_pk(id), keys::claim_log_sk(claim, entry)), entry.clone());
        let old = self.claims.insert(id.clone(), Row { record: claim.clone(), due_at });
        self.set_due(keys::claim_pk(id), Due::Claim(id.clone()), old.and_then(|row| row.due_at), due_at);
    }

    fn set_due(&mut self, pk: String, due: Due, old: Option<Timestamp>, new: Option<Timestamp>) {
        if let Some(at) = old {
            self.due.remove(&(at, pk.clone()));
        }
        if let Some(at) = new {
            self.due.insert((at, pk), due);
        }
    }

    pub(super) fn due(&self, now: Timestamp) -> impl Iterator<Item = &Due> {
        self.due.iter().take_while(move |((at, _), _)| *at <= now).map(|(_, due)| due)
    }

    pub(super) fn latest(&self, key: &ClaimKey) -> Option<&ClaimId> {
        self.latest_of(&key.owner, &key.workflow)?.get(&key.pool)
    }

    pub(super) fn latest_of(
        &self,
        owner: &Owner,
        workflow: &Workflow,
    ) -> Option<&BTreeMap<PoolName, ClaimId>> {
        self.keys.get(&(owner.clone(), workflow.clone()))
    }

    pub(super) fn set_latest(&mut self, claim: &Claim) {
        let ClaimKey { owner, workflow, pool } = claim.key.clone();
        self.keys.entry((owner, workflow)).or_default().insert(pool, claim.id.clone());
    }

    pub(super) fn listed_runners(&self, span: Span) -> impl Iterator<Item = &Runner> {
        let (low, high) = ends(span);
        self.runner_lists.range(low..=high).filter_map(|(_, id)| self.runner(id))
    }

    pub(super) fn listed_claims(&self, span: Span) -> impl Iterator<Item = &Claim> {
        let (low, high) = ends(span);
        self.claim_lists.range(low..=high).filter_map(|(_, id)| self.claim(id))
    }

    pub(super) fn note(&mut self, pk: String, sk: String, entry: &AuditEntry) {
        self.log.insert((pk, sk), entry.clone());
    }

    /// Newest first, each with its key.
    pub(super) fn entries(
        &self,
        pk: String,
        behind: Option<String>,
    ) -> impl Iterator<Item = (&String, &AuditEntry)> {
        let low = (pk.clone(), String::new());
        let high = (pk, behind.unwrap_or_else(|| format!("{}~", keys::LOG)));
        self.log.range(low..high).rev().map(|((_, sk), entry)| (sk, entry))
    }
}

fn ends(span: Span) -> (Place, Place) {
    let Span { list, low, high } = span;
    (Place { list: list.clone(), sk: low }, Place { list, sk: high })
}
