//! Opens a claim with what it gets at once: its first runner and the claim itself are one write. A claim that can't have all at
//! once is opened before it takes anything, so that who comes later sees it and waits behind it.

use crate::advance::ClaimNow;
use crate::caller::Caller;
use crate::control::{Control, no_pool};
use crate::filling::Filling;
use crate::launch::LaunchedShort;
use crate::ports::entropy::fresh_claim;
use crate::refused::Refused;
use crate::store::Opened;
use motorpool_domain::claim::{Ask, Claim, ClaimKey, Opening, Wish, decide_opening};
use motorpool_domain::pool::PoolRecord;
use motorpool_domain::{AuditEntry, ClaimId, Timestamp};

/// How often a key that others claim at the same moment is looked at anew.
const ATTEMPTS: usize = 8;

pub(crate) enum OpenedClaim {
    /// The same request had opened it before; or this one did.
    Now(Box<ClaimNow>),
    /// It asks for idle runners only, and there are none: nothing was written.
    Empty { reason: String },
}

enum Attempt {
    Opened {
        id: ClaimId,
        now: Option<Box<ClaimNow>>,
    },
    Empty {
        reason: String,
    },
    /// Somebody else has the key, or moved the claim on.
    Again,
}

impl Control {
    pub(crate) async fn open(
        &self,
        caller: &Caller,
        key: &ClaimKey,
        record: &PoolRecord,
        wish: &Wish,
    ) -> Result<OpenedClaim, Refused> {
        for _ in 0..ATTEMPTS {
            let latest = self.store.claim_by_key(key).await?;
            let replaces = match (decide_opening(latest.as_ref(), wish), latest) {
                (Opening::Same, Some(claim)) => {
                    return Ok(OpenedClaim::Now(Box::new(self.advance(&claim.id).await?)));
                }
                (Opening::Conflict, Some(claim)) => return Err(held_otherwise(key, &claim)),
                (Opening::Same | Opening::Conflict, None) => None,
                (Opening::New { replaces }, _) => replaces,
            };
            // Only now: a claim that is open already stays what it was, whatever its pool allows by now.
            let ask = self.ask(&record.pool, wish)?;
            self.must_fit(&record.pool, &ask.want).await?;
            let draft = self.draft(caller, key, record, &ask, replaces)?;
            match self.open_draft(record, draft).await? {
                Attempt::Opened { id, now } => {
                    tracing::info!(claim = %id, pool = %key.pool, workflow = %key.workflow, owner = %key.owner, count = ask.count, "a claim was opened");
                    let now = match now {
                        Some(now) => now,
                        None => Box::new(self.claim_now_record(&id).await?),
                    };
                    return Ok(OpenedClaim::Now(now));
                }
                Attempt::Empty { reason } => return Ok(OpenedClaim::Empty { reason }),
                Attempt::Again => {}
            }
        }
        Err(Refused::contended(&format!("the claim of workflow {} on pool {}", key.workflow, key.pool)))
    }

    fn draft(
        &self,
        caller: &Caller,
        key: &ClaimKey,
        record: &PoolRecord,
        ask: &Ask,
        replaces: Option<ClaimId>,
    ) -> Result<Filling, Refused> {
        let now = self.now();
        let id = fresh_claim(self.entropy.as_ref())?;
        let claim = Claim::open(id, key.clone(), ask.clone(), record.pool.rules.limits.wait, now);
        let entry = AuditEntry {
            at: now,
            who: caller.actor(),
            what: "opened".to_owned(),
            from: None,
            to: Some("pending".to_owned()),
            why: format!("workflow {} asked for {} of pool {}", key.workflow, ask.count, key.pool),
        };
        Ok(Filling::draft(claim, replaces, entry))
    }

    async fn open_draft(&self, record: &PoolRecord, draft: Filling) -> Result<Attempt, Refused> {
        if let Some(reason) = self.not_its_turn(record, &draft.claim).await? {
            return self.open_waiting(draft, reason, None).await;
        }
        let hand = self.receive_idle(&record.pool, &draft.claim).await?;
        let at_once = draft.claim.comes_at_once(hand.len());
        let id = draft.claim.id.clone();
        let gathered = if at_once {
            self.gather(&record.pool, draft, hand).await?
        } else if self.wrote_opening(&draft).await? {
            self.gather_in_turn(record, Filling::of_ledger(draft.claim), hand).await?
        } else {
            self.give_back_all(&record.pool, hand).await?;
            return Ok(Attempt::Again);
        };
        match gathered {
            LaunchedShort::Enough(filling) => {
                Ok(Attempt::Opened { id, now: filling.just_taken().map(Box::new) })
            }
            LaunchedShort::ClaimLost => Ok(Attempt::Again),
            LaunchedShort::PoolGone(filling) if filling.opening().is_some() => {
                Err(no_pool(&record.pool.name))
            }
            // The ledger has the claim already, which says how it ended.
            LaunchedShort::PoolGone(_) => {
                Ok(Attempt::Opened { now: Some(Box::new(self.advance(&id).await?)), id })
            }
            LaunchedShort::Short { filling, reason, not_before } => {
                self.open_waiting(*filling, reason, not_before).await
            }
        }
    }

    /// It did not get all, and says why.
    async fn open_waiting(
        &self,
        filling: Filling,
        reason: String,
        not_before: Option<Timestamp>,
    ) -> Result<Attempt, Refused> {
        let id = filling.claim.id.clone();
        if filling.opening().is_none() {
            self.note_waiting(&filling.claim, &reason, not_before).await?;
            // What was launched just now and refused is lost: with it on its list the claim would not be among those that lack a runner.
            let now = match filling.claim.short() {
                0 => Some(Box::new(self.advance(&id).await?)),
                _ => None,
            };
            return Ok(Attempt::Opened { id, now });
        }
        if filling.claim.ask.idle_only {
            return Ok(Attempt::Empty { reason });
        }
        let wrote = self.wrote_opening(&filling.that_waits(reason, not_before)).await?;
        Ok(if wrote { Attempt::Opened { id, now: None } } else { Attempt::Again })
    }

    async fn wrote_opening(&self, draft: &Filling) -> Result<bool, Refused> {
        let Some(opening) = draft.opening() else { return Ok(true) };
        match self.store.open_claim(&draft.claim, opening).await? {
            Opened::Done => Ok(true),
            Opened::Lost { .. } => Ok(false),
        }
    }
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
