//! Gives a claim what it lacks: what is idle, then what is on its way for nobody, then new machines.

use super::Draft;
use super::fairness::MayGet;
use crate::control::Control;
use crate::error::Refused;
use crate::ports::queue::Received;
use motorpool_domain::Timestamp;
use motorpool_domain::claim::{Claim, OverLimit};
use motorpool_domain::pool::PoolRecord;

/// How far a claim came when it was given what there is.
#[derive(Debug)]
pub(crate) enum Filled {
    /// Every runner that it lacked is its own, or on its way.
    Whole,
    Short(Waits),
    /// Somebody else wrote the claim meanwhile.
    ClaimLost,
    /// The pool was deleted meanwhile.
    PoolGone,
}

/// What a claim waits for, and from when on the provider may be asked for it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) reason: String,
    /// The limit of its team, if that is the reason.
    pub(crate) over: Option<OverLimit>,
    pub(crate) not_before: Option<Timestamp>,
}

impl Waits {
    pub(crate) fn new(reason: String, not_before: Option<Timestamp>) -> Self {
        Self { reason, over: None, not_before }
    }

    pub(crate) fn for_limit(over: OverLimit, not_before: Option<Timestamp>) -> Self {
        Self { reason: over.to_string(), over: Some(over), not_before }
    }

    /// Whether the claim says so already.
    pub(super) fn are_said_by(&self, claim: &Claim) -> bool {
        let Self { reason, over, not_before } = self;
        let said = match (over, &claim.over_limit) {
            (Some(over), Some(said)) => over.is_the_limit_of(said),
            (None, None) => claim.waits_for.as_ref() == Some(reason),
            (Some(_), None) | (None, Some(_)) => false,
        };
        said && claim.launch_not_before == *not_before
    }

    /// The claim that says so.
    pub(super) fn said_by(&self, claim: &Claim) -> Claim {
        match &self.over {
            Some(over) => claim.held_back(over.clone()),
            None => claim.waiting_for(Some(self.reason.clone()), self.not_before),
        }
    }
}

impl Control {
    /// Gathers what the claim may get now.
    pub(super) async fn gather_in_turn(
        &self,
        record: &PoolRecord,
        draft: &mut Draft,
        hand: Option<Vec<Received>>,
        now: Timestamp,
    ) -> Result<Filled, Refused> {
        let may_get = self.may_get(record, &draft.claim).await?;
        if let MayGet::WhatThereIs = may_get {
            return self.gather(record, draft, hand, now).await;
        }
        self.give_back_all(&record.pool, hand.unwrap_or_default()).await?;
        match may_get {
            MayGet::Nothing(waits) => Ok(Filled::Short(waits)),
            MayGet::NewMachines | MayGet::WhatThereIs => {
                Box::pin(self.launch_shortfall(record, draft, now)).await
            }
        }
    }

    /// `hand` are the notices of idle runners that were received already.
    pub(super) async fn gather(
        &self,
        record: &PoolRecord,
        draft: &mut Draft,
        hand: Option<Vec<Received>>,
        now: Timestamp,
    ) -> Result<Filled, Refused> {
        match self.take_idle(&record.pool, draft, hand, now).await? {
            Filled::Short(waits) if draft.claim.ask.idle_only => return Ok(Filled::Short(waits)),
            Filled::Short(_) => {}
            done @ (Filled::Whole | Filled::ClaimLost | Filled::PoolGone) => return Ok(done),
        }
        match self.take_starting(&record.pool, draft, now).await? {
            Filled::Short(_) => Box::pin(self.launch_shortfall(record, draft, now)).await,
            done @ (Filled::Whole | Filled::ClaimLost | Filled::PoolGone) => Ok(done),
        }
    }
}
