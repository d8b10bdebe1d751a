//! Opens a claim with what it gets at once: its first runner and the claim itself are one write. A claim that can't have all at
//! once is opened before it takes anything, so that who comes later sees it and waits behind it.

use super::fairness::MayGet;
use super::{ClaimNow, Draft, Filled, Waits};
use crate::caller::Caller;
use crate::control::{Control, no_pool};
use crate::error::Refused;
use crate::ports::entropy::fresh_claim;
use crate::store::Opened;
use crate::tries::Tries;
use motorpool_domain::claim::{Ask, Claim, ClaimKey, Opening, TeamLimits, Wish, decide_opening};
use motorpool_domain::pool::PoolRecord;
use motorpool_domain::{AuditEntry, ClaimId, Owner, Timestamp};
use std::time::Duration;

/// When it is worth asking again for what a team's limit has no room for.
const LIMIT_PAUSE: Duration = Duration::from_secs(10);

impl Control {
    /// The claim that the same request had opened before, or a new one. One that asks for idle runners only is refused where there are none, and
    /// nothing is written.
    pub(super) async fn open(
        &self,
        caller: &Caller,
        key: &ClaimKey,
        wish: &Wish,
        now: Timestamp,
    ) -> Result<ClaimNow, Refused> {
        let mut tries = Tries::new();
        loop {
            tries.again(|| format!("the claim of workflow {} on pool {}", key.workflow, key.pool))?;
            let (record, latest) = self.store.pool_and_claim(key).await?;
            let record = record.ok_or_else(|| no_pool(&key.pool))?;
            let replaces = match (decide_opening(latest.as_ref(), wish), latest) {
                (Opening::Same, Some(claim)) => return Box::pin(self.reconcile_claim(claim, now)).await,
                (Opening::Conflict, Some(claim)) => return Err(held_otherwise(key, &claim)),
                (Opening::Same | Opening::Conflict, None) => None,
                (Opening::New { replaces }, _) => replaces,
            };
            caller.may_use(&record.pool)?;
            // Only now: a claim that is open already stays what it was, whatever its pool allows by now.
            let ask = self.ask(&record.pool, wish)?;
            self.must_be_within_limits(&key.owner, ask.count).await?;
            self.must_fit(&record.pool, &ask.want, now).await?;
            let count = ask.count;
            let draft = self.draft(caller, key, &record, ask, replaces, now)?;
            if let Some(opened) = Box::pin(self.open_draft(&record, draft, now)).await? {
                tracing::info!(claim = %opened.claim.id, pool = %key.pool, workflow = %key.workflow, owner = %key.owner, count, "a claim was opened");
                return Ok(opened);
            }
        }
    }

    /// Refuses one claim more than its team may have open, or one that its team could never hold. Open claims are counted from a list: those that
    /// are opened at the same moment may exceed the limit together.
    async fn must_be_within_limits(&self, owner: &Owner, count: u32) -> Result<(), Refused> {
        let Some(TeamLimits { max_open_claims, max_slots, max_requests_at_once: _ }) = self.limits_of(owner)
        else {
            return Ok(());
        };
        if let Some(max_slots) = max_slots.filter(|max_slots| count > *max_slots) {
            return Err(Refused::invalid(
                format!("count is {count}; team {owner} may hold {max_slots} runners at once (max_slots)"),
                "ask for fewer, or have the operator raise the team's max_slots",
            ));
        }
        let open = self.store.count_open_claims(owner, max_open_claims).await?;
        if open >= max_open_claims {
            return Err(Refused::too_many(
                format!("team {owner} has {open} of its {max_open_claims} open claims (max_open_claims)"),
                LIMIT_PAUSE,
            ));
        }
        Ok(())
    }

    fn draft(
        &self,
        caller: &Caller,
        key: &ClaimKey,
        record: &PoolRecord,
        ask: Ask,
        replaces: Option<ClaimId>,
        now: Timestamp,
    ) -> Result<Draft, Refused> {
        let id = fresh_claim(self.entropy.as_ref())?;
        let why = format!("workflow {} asked for {} of pool {}", key.workflow, ask.count, key.pool);
        let entry = AuditEntry::of_new(now, caller.actor(), "opened", "pending", why);
        let claim = Claim::open(id, key.clone(), ask, record.pool.rules.limits.wait, now);
        Ok(Draft::unopened(claim, replaces, entry))
    }

    /// Nothing, if somebody else has the key, or moved the claim on.
    async fn open_draft(
        &self,
        record: &PoolRecord,
        mut draft: Draft,
        now: Timestamp,
    ) -> Result<Option<ClaimNow>, Refused> {
        let id = draft.claim.id.clone();
        let filled = match self.may_get(record, &draft.claim).await? {
            MayGet::Nothing(waits) => Filled::Short(waits),
            MayGet::NewMachines => Box::pin(self.launch_shortfall(record, &mut draft, now)).await?,
            MayGet::WhatThereIs => self.fill_draft(record, &mut draft, now).await?,
        };
        match filled {
            Filled::Whole => match draft.just_taken(record) {
                Some(opened) => Ok(Some(opened)),
                None => self.claim_with_members(&id).await.map(Some),
            },
            Filled::ClaimLost => Ok(None),
            Filled::PoolGone if draft.opening().is_some() => Err(no_pool(&record.pool.name)),
            // The ledger has the claim already, which says how it ended.
            Filled::PoolGone => Box::pin(self.reconcile(&id, now)).await.map(Some),
            Filled::Short(waits) => self.open_waiting(record, draft, &waits, now).await,
        }
    }

    async fn fill_draft(
        &self,
        record: &PoolRecord,
        draft: &mut Draft,
        now: Timestamp,
    ) -> Result<Filled, Refused> {
        let hand = self.receive_idle(&record.pool, &draft.claim).await?;
        if draft.claim.comes_at_once(hand.len()) {
            return self.gather(record, draft, Some(hand), now).await;
        }
        if !self.wrote_opening(draft).await? {
            self.give_back_all(&record.pool, hand).await?;
            return Ok(Filled::ClaimLost);
        }
        draft.wrote(draft.claim.clone());
        self.gather_in_turn(record, draft, Some(hand), now).await
    }

    /// The claim did not get all, and says why.
    async fn open_waiting(
        &self,
        record: &PoolRecord,
        mut draft: Draft,
        waits: &Waits,
        now: Timestamp,
    ) -> Result<Option<ClaimNow>, Refused> {
        if draft.opening().is_none() {
            self.note_waiting(&draft.claim, waits, now).await?;
            let id = &draft.claim.id;
            // What was launched just now and refused is lost: with it on its list the claim would not be among those that lack a runner.
            let opened = match draft.claim.short() {
                0 => Box::pin(self.reconcile(id, now)).await?,
                _ => self.claim_with_members(id).await?,
            };
            return Ok(Some(opened));
        }
        if draft.claim.ask.idle_only {
            return Err(match &waits.over {
                Some(over) => Refused::too_many(over.to_string(), LIMIT_PAUSE),
                None => pool_empty(&waits.reason),
            });
        }
        draft.waiting_for(waits);
        match self.wrote_opening(&draft).await? {
            true => Ok(draft.just_taken(record)),
            false => Ok(None),
        }
    }

    async fn wrote_opening(&self, draft: &Draft) -> Result<bool, Refused> {
        let Some(opening) = draft.opening() else { return Ok(true) };
        match self.store.open_claim(&draft.claim, opening).await? {
            Opened::Done => Ok(true),
            Opened::Lost { .. } => Ok(false),
        }
    }
}

pub(super) fn pool_empty(reason: &str) -> Refused {
    Refused::not_found(
        format!("pool empty: {reason}"),
        "provision instead: it launches a runner, or waits for one",
    )
}

fn held_otherwise(key: &ClaimKey, claim: &Claim) -> Refused {
    Refused::conflict(
        format!(
            "workflow {} holds claim {} on pool {} already, asked for with other parameters",
            key.workflow, claim.id, key.pool
        ),
        "release that claim first, or repeat its parameters",
    )
}
