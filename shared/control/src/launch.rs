//! Launches machines: the intent first, with its slot; then the provider. For a claim's shortfall, or for `min_idle`.

use crate::control::Control;
use crate::filling::Filling;
use crate::ports::backend::{LaunchError, LaunchOrder};
use crate::ports::entropy::{fresh_launch, fresh_runner};
use crate::ports::ledger::{IntentsWrite, IntentsWritten, PoolRecord};
use crate::refused::{Refused, chain};
use futures_util::StreamExt;
use motorpool_domain::claim::{Claim, Member};
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{Hold, NewRunner, Runner, RunnerEvent, next_look};
use motorpool_domain::{Actor, AuditEntry, Epoch, Threshold, Timestamp};

pub(crate) enum LaunchedShort {
    /// Every runner that the claim lacked is its own, or on its way.
    Enough(Box<Filling>),
    Short {
        filling: Box<Filling>,
        reason: String,
        not_before: Option<Timestamp>,
    },
    ClaimLost,
}

/// As many as one transaction of the ledger takes.
const AT_ONCE: u32 = 25;
/// How many calls to the provider are under way at the same time.
const ABREAST: usize = 8;

impl Control {
    pub(crate) async fn launch_shortfall(
        &self,
        pool: &Pool,
        mut filling: Filling,
    ) -> Result<LaunchedShort, Refused> {
        let short = |filling, reason, not_before| {
            Ok(LaunchedShort::Short { filling: Box::new(filling), reason, not_before })
        };
        let now = self.now();
        if let Some(reason) = cannot_launch(pool, &filling.claim) {
            return short(filling, reason, None);
        }
        if let Some(not_before) = filling.claim.launch_not_before.filter(|at| *at > now) {
            let refused = || "the provider refused a launch".to_owned();
            let reason = filling.claim.waits_for.clone().unwrap_or_else(refused);
            return short(filling, reason, Some(not_before));
        }
        while filling.claim.short() > 0 {
            let claim = &filling.claim;
            let record = self.pool_record(&pool.name).await?;
            let free = pool.rules.max.saturating_sub(record.used);
            let count = claim.short().min(free).min(AT_ONCE);
            if count == 0 {
                return short(filling, at_its_maximum(&record), None);
            }
            let runners = self.intents(pool, count, Some(claim))?;
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
                look_at: runners.first().and_then(|runner| next_look(runner, &pool.rules.limits, now)),
                claim: Some(filling.gain(&gained, &entry)),
                entry: &entry,
            };
            match self.ledger.write_launch_intents(write).await? {
                IntentsWritten::Done => filling = Filling::of_ledger(gained),
                // Another launch was quicker: see what is left.
                IntentsWritten::NoSlots { .. } => continue,
                IntentsWritten::ClaimLost | IntentsWritten::Exists => return Ok(LaunchedShort::ClaimLost),
                IntentsWritten::NoPool => return short(filling, "the pool is gone".to_owned(), None),
            }
            tracing::info!(claim = %filling.claim.id, pool = %pool.name, count, "launching runners for a claim");
            if let Some(refusal) = self.launch_all(pool, &runners).await? {
                let not_before = Some(self.now().after(pool.rules.limits.heartbeat));
                return short(filling, refusal, not_before);
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
        let runners = self.intents(pool, count, None)?;
        let entry = self.launch_entry(Actor::Refresh, why);
        let write = IntentsWrite {
            pool: &pool.name,
            max: pool.rules.max,
            only_if_used: Some(record.used),
            runners: &runners,
            look_at: runners.first().and_then(|runner| next_look(runner, &pool.rules.limits, self.now())),
            claim: None,
            entry: &entry,
        };
        match self.ledger.write_launch_intents(write).await? {
            IntentsWritten::Done => {}
            IntentsWritten::NoSlots { .. }
            | IntentsWritten::ClaimLost
            | IntentsWritten::Exists
            | IntentsWritten::NoPool => return Ok(0),
        }
        self.launch_all(pool, &runners).await?;
        Ok(count)
    }

    /// Calls the provider for an intent, now or again: the backend makes one machine of it, however often it is asked.
    /// The answer is the reason, if the provider refused.
    pub(crate) async fn launch(&self, pool: &Pool, runner: &Runner) -> Result<Option<String>, Refused> {
        let secret = self.secret.launch_secret(&runner.launch, &runner.id);
        let order = LaunchOrder { pool, runner, secret: &secret };
        let (event, refusal) = match self.backend(pool.rules.backend)?.ensure_launched(&order).await {
            Ok(launched) => (RunnerEvent::Launched { provider_id: launched.provider_id }, None),
            Err(LaunchError::Refused(why)) => {
                tracing::warn!(runner = %runner.id, pool = %pool.name, why, "the provider refused a launch");
                (RunnerEvent::LaunchFailed { why: why.clone() }, Some(format!("a launch was refused: {why}")))
            }
            Err(error @ LaunchError::Unconfirmed(_)) => {
                tracing::warn!(runner = %runner.id, pool = %pool.name, error = chain(&error), "a launch is unconfirmed; refresh will ask again");
                return Ok(None);
            }
        };
        self.apply(pool, runner, &event, &Actor::Control).await?;
        Ok(refusal)
    }

    async fn launch_all(&self, pool: &Pool, runners: &[Runner]) -> Result<Option<String>, Refused> {
        // Made first: a closure over a borrowed runner, kept across an await, would make this future unfit for a thread pool.
        let launches: Vec<_> = runners.iter().map(|runner| self.launch(pool, runner)).collect();
        let mut launches = futures_util::stream::iter(launches).buffer_unordered(ABREAST);
        let mut refusal = None;
        while let Some(outcome) = launches.next().await {
            refusal = outcome?.or(refusal);
        }
        Ok(refusal)
    }

    fn intents(&self, pool: &Pool, count: u32, claim: Option<&Claim>) -> Result<Vec<Runner>, Refused> {
        let now = self.now();
        let launch = fresh_launch(self.entropy.as_ref())?;
        (0..count)
            .map(|_| {
                let new = NewRunner {
                    id: fresh_runner(self.entropy.as_ref())?,
                    pool: pool.name.clone(),
                    launch: launch.clone(),
                    offer: pool.rules.offer.clone(),
                    kept: pool.rules.backend.kept(),
                    hold: claim.map(|claim| Hold {
                        claim: claim.id.clone(),
                        warm: false,
                        max_runtime: claim.ask.max_runtime,
                    }),
                    epoch: Epoch::FIRST,
                    threshold: Threshold::in_(pool.rules.limits.created, now),
                };
                Ok(Runner::intent(new, now))
            })
            .collect()
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

fn cannot_launch(pool: &Pool, claim: &Claim) -> Option<String> {
    if pool.retired {
        return Some(format!("pool {} is retired, and gets no new runners", pool.name));
    }
    if !pool.rules.backend.launches() {
        return Some(format!(
            "no idle runner in pool {}{}; its machines are registered by an operator, not launched",
            pool.name,
            claim.ask.want.in_words()
        ));
    }
    claim
        .ask
        .want
        .misfit(&pool.rules.offer)
        .map(|why| format!("no machine of pool {} fits: {why}", pool.name))
}

pub(crate) fn at_its_maximum(record: &PoolRecord) -> String {
    format!(
        "pool {} is at its maximum: {} of {} slots taken",
        record.pool.name, record.used, record.pool.rules.max
    )
}
