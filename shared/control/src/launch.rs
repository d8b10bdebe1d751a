//! Writes launch intents, each with its slot and the first call that is to be made for it: for a claim's shortfall, or for
//! `min_idle`. The calls themselves are made in `climb`.

use crate::climb::Climbed;
use crate::control::Control;
use crate::filling::Filling;
use crate::ports::entropy::fresh_launch;
use crate::refused::Refused;
use crate::store::{IntentsWrite, IntentsWritten};
use motorpool_domain::claim::{Claim, Member};
use motorpool_domain::ladder::{AskedBy, CapacityOption, Choice, LaunchCall, cannot_launch};
use motorpool_domain::pool::Pool;
use motorpool_domain::pool::PoolRecord;
use motorpool_domain::runner::{Hold, NewRunner, Runner, next_look};
use motorpool_domain::spec::Want;
use motorpool_domain::{Actor, AuditEntry, Epoch, RunnerId, Threshold, Timestamp};

pub(crate) enum LaunchedShort {
    /// Every runner that the claim lacked is its own, or on its way.
    Enough(Box<Filling>),
    Short {
        filling: Box<Filling>,
        reason: String,
        not_before: Option<Timestamp>,
    },
    ClaimLost,
    /// It was deleted meanwhile.
    PoolGone(Box<Filling>),
}

/// As many as one transaction of the ledger takes.
const AT_ONCE: u32 = 25;

impl Control {
    pub(crate) async fn launch_shortfall(
        &self,
        pool: &Pool,
        mut filling: Filling,
    ) -> Result<LaunchedShort, Refused> {
        let short = |filling, reason, not_before| {
            Ok(LaunchedShort::Short { filling: Box::new(filling), reason, not_before })
        };
        let want = filling.claim.ask.want.clone();
        if let Some(reason) = cannot_launch(pool, &want) {
            return short(filling, reason, None);
        }
        if let Some(not_before) = filling.claim.launch_not_before.filter(|at| *at > self.now()) {
            let refused = || "the provider refused a launch".to_owned();
            let reason = filling.claim.waits_for.clone().unwrap_or_else(refused);
            return short(filling, reason, Some(not_before));
        }
        while filling.claim.short() > 0 {
            let rung = match self.choose_rung(pool, &want).await? {
                Choice::Try(rung) => rung,
                Choice::Wait { until, why } => return short(filling, why, Some(until)),
                Choice::NoneFits { why } => {
                    return short(filling, format!("no machine of pool {} fits: {why}", pool.name), None);
                }
            };
            let claim = &filling.claim;
            let Some(record) = self.store.pool(&pool.name).await? else {
                return Ok(LaunchedShort::PoolGone(Box::new(filling)));
            };
            let free = pool.rules.max.saturating_sub(record.used);
            let count = claim.short().min(free).min(AT_ONCE);
            if count == 0 {
                return short(filling, at_its_maximum(&record), None);
            }
            let runners = self.intents(pool, count, rung, Some(claim))?;
            let members = runners.iter().map(|runner| Member {
                runner: runner.id.clone(),
                epoch: runner.epoch,
                warm: false,
            });
            let gained = claim.gaining(members);
            let why = format!("launching {count} for the shortfall");
            let entry = self.launch_entry(Actor::Owner(claim.key.owner.clone()), &why);
            let write = IntentsWrite {
                pool: &pool.name,
                max: pool.rules.max,
                only_if_used: None,
                runners: &runners,
                look_at: self.first_look(pool, &runners),
                claim: Some(filling.gain(&gained, &entry)),
                entry: &entry,
            };
            match self.store.write_launch_intents(write).await? {
                IntentsWritten::Done => filling = Filling::of_ledger(gained),
                // Another launch was quicker: see what is left.
                IntentsWritten::NoSlots { .. } => continue,
                IntentsWritten::ClaimLost | IntentsWritten::Exists => return Ok(LaunchedShort::ClaimLost),
                IntentsWritten::NoPool => return Ok(LaunchedShort::PoolGone(Box::new(filling))),
            }
            if let Some(why) = self.gave_up_for_a_move(pool, &runners).await? {
                return short(filling, why, None);
            }
            tracing::info!(claim = %filling.claim.id, pool = %pool.name, count, "launching runners for a claim");
            match Box::pin(self.climb(pool, runners, &want)).await? {
                Climbed::UnderWay => {}
                Climbed::Short { why, until } => return short(filling, why, Some(until)),
            }
        }
        Ok(LaunchedShort::Enough(Box::new(filling)))
    }

    /// Launches `count` runners that nobody holds, if the pool's slots are still as they were read.
    pub(crate) async fn launch_spare(
        &self,
        record: &PoolRecord,
        count: u32,
        why: &str,
    ) -> Result<u32, Refused> {
        let pool = &record.pool;
        let count = count.min(pool.rules.max.saturating_sub(record.used)).min(AT_ONCE);
        if count == 0 {
            return Ok(0);
        }
        let rung = match self.choose_rung(pool, &Want::default()).await? {
            Choice::Try(rung) => rung,
            Choice::Wait { why, .. } | Choice::NoneFits { why } => {
                tracing::warn!(pool = %pool.name, why, "no spare runner can be launched");
                return Ok(0);
            }
        };
        let runners = self.intents(pool, count, rung, None)?;
        let entry = self.launch_entry(Actor::Refresh, why);
        let write = IntentsWrite {
            pool: &pool.name,
            max: pool.rules.max,
            only_if_used: Some(record.used),
            runners: &runners,
            look_at: self.first_look(pool, &runners),
            claim: None,
            entry: &entry,
        };
        match self.store.write_launch_intents(write).await? {
            IntentsWritten::Done => {}
            IntentsWritten::NoSlots { .. }
            | IntentsWritten::ClaimLost
            | IntentsWritten::Exists
            | IntentsWritten::NoPool => return Ok(0),
        }
        if self.gave_up_for_a_move(pool, &runners).await?.is_some() {
            return Ok(0);
        }
        match Box::pin(self.climb(pool, runners, &Want::default())).await? {
            Climbed::UnderWay => Ok(count),
            // What was refused gave its slot back already, so the slots are no longer as they were read.
            Climbed::Short { .. } => Ok(0),
        }
    }

    /// A pool with a slot in use keeps its backend, and so from here on this one does. One that got another while the intents were being
    /// written has no use for them: nobody is called, since nobody would find there what was made here.
    pub(crate) async fn gave_up_for_a_move(
        &self,
        pool: &Pool,
        runners: &[Runner],
    ) -> Result<Option<String>, Refused> {
        let now = self.pool_record(&pool.name).await?.pool.rules.backend;
        if now == pool.rules.backend {
            return Ok(None);
        }
        let why = format!("pool {} got the backend {} at the same moment", pool.name, now.name());
        self.give_up(pool, runners, &why).await?;
        Ok(Some(why))
    }

    fn first_look(&self, pool: &Pool, runners: &[Runner]) -> Option<Timestamp> {
        runners.first().and_then(|runner| next_look(runner, &pool.rules.limits, self.now()))
    }

    fn intents(
        &self,
        pool: &Pool,
        count: u32,
        rung: CapacityOption,
        claim: Option<&Claim>,
    ) -> Result<Vec<Runner>, Refused> {
        let now = self.now();
        let launch = fresh_launch(self.entropy.as_ref())?;
        let asked_by = claim.map(|claim| AskedBy::new(&claim.id, &claim.key));
        let attempt = LaunchCall::first(count, rung, asked_by);
        let intent = |index| {
            let new = NewRunner {
                id: RunnerId::of_launch(&launch, index),
                pool: pool.name.clone(),
                launch: launch.clone(),
                index,
                offer: attempt.rung.offer.clone(),
                kept: pool.rules.backend.kept(),
                hold: claim.map(|claim| Hold {
                    claim: claim.id.clone(),
                    warm: false,
                    max_runtime: claim.ask.max_runtime,
                }),
                epoch: Epoch::FIRST,
                threshold: Threshold::in_(pool.rules.limits.created, now),
                attempt: Some(attempt.clone()),
            };
            Runner::intent(new, now)
        };
        Ok((0..count).map(intent).collect())
    }

    fn launch_entry(&self, who: Actor, why: &str) -> AuditEntry {
        AuditEntry {
            at: self.now(),
            who,
            what: "launch intent".to_owned(),
            from: None,
            to: Some("created".to_owned()),
            why: why.to_owned(),
        }
    }
}

pub(crate) fn at_its_maximum(record: &PoolRecord) -> String {
    format!(
        "pool {} is at its maximum: {} of {} slots taken",
        record.pool.name, record.used, record.pool.rules.max
    )
}
