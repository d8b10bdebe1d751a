//! Gives a claim what it lacks: what is idle, then what is on its way for nobody, then new machines.

use super::Draft;
use crate::control::Control;
use crate::error::Refused;
use crate::ports::queue::Received;
use motorpool_domain::Timestamp;
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
    pub(crate) not_before: Option<Timestamp>,
}

impl Control {
    /// Gathers only if it is the claim's turn.
    pub(super) async fn gather_in_turn(
        &self,
        record: &PoolRecord,
        draft: &mut Draft,
        hand: Option<Vec<Received>>,
        now: Timestamp,
    ) -> Result<Filled, Refused> {
        let Some(reason) = self.not_its_turn(record, &draft.claim).await? else {
            return self.gather(record, draft, hand, now).await;
        };
        self.give_back_all(&record.pool, hand.unwrap_or_default()).await?;
        Ok(Filled::Short(Waits { reason, not_before: draft.claim.launch_not_before }))
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
