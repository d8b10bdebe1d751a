//! The due pass: its cost follows what is due, not how much there is.

use super::find;
use crate::apply::Applied;
use crate::control::Control;
use crate::ports::ledger::{Due, Page, PoolRecord, WhichClaims};
use crate::refused::{Refused, chain};
use futures_util::StreamExt;
use motorpool_domain::brake::Looks;
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{Look, Presence, Runner, RunnerEvent, StateName, look, next_look};
use motorpool_domain::{Actor, PoolName, RunnerId, Timestamp};
use motorpool_wire::api::RefreshReport;
use std::collections::HashMap;

/// What one pass looks at; the rest is due in the next.
const AT_MOST: u32 = 1_000;
/// How many waiting claims of a pool one pass brings further, oldest first.
const WAITING: u32 = 200;

/// How many runners are treated at the same time.
const ABREAST: usize = 16;

/// What a due runner is due for.
enum Reason {
    Threshold,
    Look(Look),
    /// It has changed since the index was read.
    Nothing,
}

impl Control {
    pub(super) async fn due_pass(
        &self,
        pools: &[PoolRecord],
        listening_since: Timestamp,
        report: &mut RefreshReport,
    ) -> Result<(), Refused> {
        let now = self.now();
        let due = self.ledger.due(now, AT_MOST).await?;
        report.examined += u32::try_from(due.len()).unwrap_or(u32::MAX);
        let mut ids: Vec<RunnerId> = Vec::new();
        for item in due {
            match item {
                Due::Runner(id) => ids.push(id),
                Due::Claim(id) => self.heal(&format!("claim {id}"), self.advance(&id).await.map(|_| ())),
            }
        }
        let runners: Vec<Runner> = self.ledger.runners(&ids).await?.into_iter().flatten().collect();
        let judged: Vec<(Runner, Reason)> = runners
            .into_iter()
            .filter_map(|runner| {
                let pool = &find(pools, &runner.pool)?.pool;
                let reason = reason(&runner, pool, listening_since, now);
                Some((runner, reason))
            })
            .collect();
        report.braked = brake(&judged);
        let mut surplus = Surplus::default();
        let mut cases = Vec::new();
        for (runner, reason) in judged {
            let Some(record) = find(pools, &runner.pool) else { continue };
            let needed = match (&reason, runner.state.name()) {
                (Reason::Threshold, StateName::Idle) => !surplus.take(self, record).await?,
                (Reason::Threshold | Reason::Look(_) | Reason::Nothing, _) => false,
            };
            cases.push(self.treat(&record.pool, runner, reason, needed, report.braked));
        }
        // Abreast, since one machine that is slow to go must not keep the others waiting.
        let mut treated = futures_util::stream::iter(cases).buffer_unordered(ABREAST);
        while let Some((runner, outcome)) = treated.next().await {
            match outcome {
                Ok(reaped) => report.reaped += u32::from(reaped),
                Err(error) => self.heal(&format!("runner {runner}"), Err(error)),
            }
        }
        Ok(())
    }

    /// Says whether the runner was reaped.
    async fn treat(
        &self,
        pool: &Pool,
        runner: Runner,
        reason: Reason,
        needed: bool,
        braked: bool,
    ) -> (RunnerId, Result<bool, Refused>) {
        let outcome = match reason {
            Reason::Threshold => self.reap(pool, &runner, &RunnerEvent::ThresholdPassed { needed }).await,
            Reason::Look(Look::Silent) => self.on_silence(pool, &runner, braked).await,
            Reason::Look(Look::Unlaunched) => self.launch_again(pool, &runner).await,
            Reason::Look(Look::Heard) | Reason::Nothing => self.look_later(pool, &runner).await,
        };
        (runner.id, outcome)
    }

    /// Claims that wait are brought further, those that wait longest first.
    pub(super) async fn advance_waiting(&self, record: &PoolRecord) -> Result<(), Refused> {
        let waiting =
            self.ledger.list_claims(&record.pool.name, WhichClaims::Waiting, Page::first(WAITING)).await?;
        for claim in waiting.items {
            self.heal(&format!("claim {}", claim.id), self.advance(&claim.id).await.map(|_| ()));
        }
        Ok(())
    }

    /// One record that can't be healed does not keep the others from it; it stays due.
    pub(super) fn heal(&self, subject: &str, outcome: Result<(), Refused>) {
        if let Err(error) = outcome {
            tracing::warn!(subject, error = chain(&error), "refresh could not heal a record; it stays due");
        }
    }

    /// Nobody is killed for silence while most are silent; that a machine is gone is certain all the same.
    async fn on_silence(&self, pool: &Pool, runner: &Runner, braked: bool) -> Result<bool, Refused> {
        let presence = self.backend(pool.rules.backend)?.describe(runner).await.unwrap_or_else(|error| {
            tracing::warn!(runner = %runner.id, error = chain(&error), "the backend can't say whether a silent runner is there");
            Presence::Unknown
        });
        if braked && presence != Presence::Gone {
            return self.look_later(pool, runner).await;
        }
        let reaped = self.reap(pool, runner, &RunnerEvent::Silent { presence }).await?;
        if !reaped {
            self.look_later(pool, runner).await?;
        }
        Ok(reaped)
    }

    async fn launch_again(&self, pool: &Pool, runner: &Runner) -> Result<bool, Refused> {
        self.launch(pool, runner).await?;
        self.look_later(pool, runner).await
    }

    async fn look_later(&self, pool: &Pool, runner: &Runner) -> Result<bool, Refused> {
        if let Some(at) = next_look(runner, &pool.rules.limits, self.now()) {
            self.ledger.look_again(runner, at).await?;
        }
        Ok(false)
    }

    async fn reap(&self, pool: &Pool, runner: &Runner, event: &RunnerEvent) -> Result<bool, Refused> {
        let applied = self.apply(pool, runner, event, &Actor::Refresh).await?;
        self.follow(&applied).await?;
        Ok(match &applied {
            Applied::Changed { before, after } => before.state.name() != after.state.name(),
            Applied::Stayed | Applied::Refused(_) | Applied::Overtaken => false,
        })
    }
}

fn reason(runner: &Runner, pool: &Pool, listening_since: Timestamp, now: Timestamp) -> Reason {
    if runner.threshold.is_some_and(|threshold| threshold.passed(now)) {
        return Reason::Threshold;
    }
    look(runner, &pool.rules.limits, listening_since, now).map_or(Reason::Nothing, Reason::Look)
}

fn brake(judged: &[(Runner, Reason)]) -> bool {
    let mut looks = Looks::default();
    for (_, reason) in judged {
        match reason {
            Reason::Look(Look::Silent) => looks.silent += 1,
            Reason::Look(Look::Heard) => looks.heard += 1,
            Reason::Look(Look::Unlaunched) | Reason::Threshold | Reason::Nothing => {}
        }
    }
    if looks.brake() {
        tracing::warn!(target: "alert", silent = looks.silent, heard = looks.heard, "most heartbeats are missing at once: nobody is reaped for silence");
    }
    looks.brake()
}

/// How many idle runners each pool can spare above `min_idle`, counted once a pass.
#[derive(Default)]
struct Surplus(HashMap<PoolName, u32>);

impl Surplus {
    /// Whether one more idle runner can be spared.
    async fn take(&mut self, control: &Control, record: &PoolRecord) -> Result<bool, Refused> {
        let pool = &record.pool;
        if pool.retired || pool.rules.min_idle == 0 {
            return Ok(true);
        }
        if !self.0.contains_key(&pool.name) {
            let idle = control.ledger.count_runners(&pool.name, StateName::Idle, pool.rules.max).await?;
            self.0.insert(pool.name.clone(), idle.saturating_sub(pool.rules.min_idle));
        }
        let left = self.0.entry(pool.name.clone()).or_default();
        let spare = *left > 0;
        *left = left.saturating_sub(1);
        Ok(spare)
    }
}
