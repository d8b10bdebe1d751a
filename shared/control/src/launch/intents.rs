//! The one way in which machines come: the slots, the launch intents and the claim that gains them are one write, on the condition that the pool is
//! as it was read; then the provider is called for what is written down.

use crate::claim::Waits;
use crate::control::Control;
use crate::error::Refused;
use crate::ports::entropy::fresh_launch;
use crate::store::{ClaimGain, IntentsWrite, IntentsWritten};
use motorpool_domain::claim::Claim;
use motorpool_domain::ladder::{AskedBy, CapacityOption, LaunchCall};
use motorpool_domain::pool::{Pool, PoolRecord};
use motorpool_domain::runner::{Hold, NewRunner, Runner, next_look};
use motorpool_domain::spec::Want;
use motorpool_domain::{AuditEntry, Epoch, RunnerId, Threshold, Timestamp};

/// Runners that are launched together, on what was read of their pool.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) record: &'a PoolRecord,
    pub(crate) runners: Vec<Runner>,
    pub(crate) claim: Option<ClaimGain<'a>>,
    /// Only if exactly so many slots are in use.
    pub(crate) only_if_used: Option<u32>,
    pub(crate) entry: &'a AuditEntry,
    pub(crate) want: &'a Want,
}

#[derive(Debug)]
pub(crate) enum Launched {
    /// Every runner has its machine, or refresh goes on with it.
    UnderWay,
    /// The intents were written, but some have no machine and are over.
    Short(Waits),
    /// Nothing was written: the slots do not suffice, or the pool was defined anew. `found` is the pool as it is.
    PoolRefused {
        found: Box<PoolRecord>,
    },
    PoolGone,
    ClaimLost,
    /// A live runner has that id.
    Exists,
}

impl Control {
    pub(crate) async fn launch(&self, launch: Launch<'_>) -> Result<Launched, Refused> {
        let Launch { record, runners, claim, only_if_used, entry, want } = launch;
        let PoolRecord { pool, rev, used: _ } = record;
        let write = IntentsWrite {
            pool: &pool.name,
            seen: *rev,
            max: pool.rules.max,
            only_if_used,
            runners: &runners,
            look_at: runners.first().and_then(|runner| next_look(runner, &pool.rules, entry.at)),
            claim,
            entry,
        };
        match self.store.write_launch_intents(write).await? {
            IntentsWritten::Done => Box::pin(self.launch_with_fallback(pool, runners, want)).await,
            IntentsWritten::NoSlots { used } => {
                Ok(Launched::PoolRefused { found: Box::new(PoolRecord { used, ..record.clone() }) })
            }
            IntentsWritten::PoolChanged { found } => Ok(Launched::PoolRefused { found }),
            IntentsWritten::NoPool => Ok(Launched::PoolGone),
            IntentsWritten::ClaimLost => Ok(Launched::ClaimLost),
            IntentsWritten::Exists => Ok(Launched::Exists),
        }
    }

    /// `count` intents of one launch, for `claim` or for nobody.
    pub(super) fn intents(
        &self,
        pool: &Pool,
        count: u32,
        option: CapacityOption,
        claim: Option<&Claim>,
        now: Timestamp,
    ) -> Result<Vec<Runner>, Refused> {
        let launch = fresh_launch(self.entropy.as_ref())?;
        let asked_by = claim.map(|claim| AskedBy::new(&claim.id, &claim.key));
        let call = LaunchCall::first(count, option, asked_by);
        let intent = |index| {
            let new = NewRunner {
                id: RunnerId::of_launch(&launch, index),
                pool: pool.name.clone(),
                launch: launch.clone(),
                index,
                offer: call.rung.offer.clone(),
                kept: pool.rules.backend.kept(),
                hold: claim.map(|claim| Hold {
                    holder: (&claim.id).into(),
                    warm: false,
                    max_runtime: claim.ask.max_runtime,
                }),
                epoch: Epoch::FIRST,
                threshold: Threshold::in_(pool.rules.limits.created, now),
                attempt: Some(call.clone()),
            };
            Runner::intent(new, now)
        };
        Ok((0..count).map(intent).collect())
    }
}
