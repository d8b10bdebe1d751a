//! The due pass: its cost follows what is due, not how much there is.

use super::find;
use crate::apply::Applied;
use crate::control::Control;
use crate::refused::{Refused, chain};
use crate::store::{Page, WhichClaims};
use futures_util::StreamExt;
use motorpool_domain::brake::Heartbeats;
use motorpool_domain::claim::CLAIM;
use motorpool_domain::pool::Pool;
use motorpool_domain::pool::PoolRecord;
use motorpool_domain::record::{Key, Path};
use motorpool_domain::runner::{
    Look, Presence, RUNNER, Runner, RunnerEvent, StateName, call_of, look, next_look, overdue,
};
use motorpool_domain::{Actor, ClaimId, LaunchId, PoolName, RunnerId, Timestamp};
use motorpool_wire::api::RefreshReport;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What one pass looks at; the rest is due in the next.
const AT_MOST: u32 = 1_000;
/// How many waiting claims of a pool one pass brings further, oldest first.
const WAITING: u32 = 200;

/// How many runners are treated at the same time.
const ABREAST: usize = 16;

/// What a path that is due leads to.
enum Due {
    Runner(RunnerId),
    Claim(ClaimId),
    /// Of a newer version, perhaps.
    Unknown,
}

impl Due {
    fn of(path: &Path) -> Self {
        let Path { key: Key { kind, id }, child } = path;
        match (kind, child) {
            (kind, None) if *kind == RUNNER => RunnerId::parse(id).map_or(Self::Unknown, Self::Runner),
            (kind, None) if *kind == CLAIM => ClaimId::parse(id).map_or(Self::Unknown, Self::Claim),
            (_, _) => Self::Unknown,
        }
    }
}

/// What a due runner is due for.
enum Reason {
    /// With what there is to see, if it stays beyond it.
    Threshold(Option<Look>),
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
        let due = self.store.due(now, AT_MOST).await?;
        report.examined += u32::try_from(due.len()).unwrap_or(u32::MAX);
        let mut ids: Vec<RunnerId> = Vec::new();
        for path in due {
            match Due::of(&path) {
                Due::Runner(id) => ids.push(id),
                Due::Claim(id) => self.heal(&format!("claim {id}"), self.advance(&id).await.map(|_| ())),
                Due::Unknown => {
                    tracing::warn!(target: "alert", %path, "something is due that this version does not know, and is left as it is");
                }
            }
        }
        let runners: Vec<Runner> = self.store.runners(&ids).await?.into_iter().flatten().collect();
        let judged: Vec<(Runner, Reason)> = runners
            .into_iter()
            .filter_map(|runner| {
                let pool = &find(pools, &runner.pool)?.pool;
                let reason = reason(&runner, pool, listening_since, now);
                Some((runner, reason))
            })
            .collect();
        report.braked = self.brake(pools, &judged, listening_since, now).await?;
        let mut surplus = Surplus::among(&judged);
        let (unlaunched, judged): (Vec<_>, Vec<_>) =
            judged.into_iter().partition(|(_, reason)| matches!(reason, Reason::Look(Look::Unlaunched)));
        self.launch_again(pools, unlaunched.into_iter().map(|(runner, _)| runner).collect()).await;
        let mut cases = Vec::new();
        for (runner, reason) in judged {
            let Some(record) = find(pools, &runner.pool) else { continue };
            let needed = match (&reason, runner.state.name()) {
                (Reason::Threshold(_), StateName::Idle) => !surplus.take(self, record).await?,
                (Reason::Threshold(_) | Reason::Look(_) | Reason::Nothing, _) => false,
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
            Reason::Threshold(seen) => self.on_threshold(pool, &runner, needed, seen, braked).await,
            Reason::Look(Look::Silent) => self.on_silence(pool, &runner, braked).await,
            Reason::Look(Look::Unlaunched | Look::Heard) | Reason::Nothing => {
                self.look_later(pool, &runner).await
            }
        };
        (runner.id, outcome)
    }

    /// Claims that wait are brought further, those that wait longest first.
    pub(super) async fn advance_waiting(&self, record: &PoolRecord) -> Result<(), Refused> {
        let waiting =
            self.store.list_claims(&record.pool.name, WhichClaims::Waiting, Page::first(WAITING)).await?;
        if waiting.items.is_empty() {
            return Ok(());
        }
        let used = self.pool_record(&record.pool.name).await?.used;
        let idle = self.store.count_runners(&record.pool.name, StateName::Idle, 1).await?;
        let room = idle > 0 || used < record.pool.rules.max || self.has_one_on_its_way(&record.pool).await?;
        for claim in waiting.items.iter().filter(|claim| room || !claim.waits_for_room_only()) {
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

    /// Who is to stay is looked at as well: that it is wanted must not hide that it is silent.
    async fn on_threshold(
        &self,
        pool: &Pool,
        runner: &Runner,
        needed: bool,
        seen: Option<Look>,
        braked: bool,
    ) -> Result<bool, Refused> {
        if runner.state.name() == StateName::Terminating && !self.answers_for(pool, runner)? {
            return Ok(false);
        }
        let reaped = self.reap(pool, runner, &RunnerEvent::ThresholdPassed { needed }).await?;
        if !reaped && seen == Some(Look::Silent) {
            return self.on_silence(pool, runner, braked).await;
        }
        Ok(reaped)
    }

    /// Nobody is killed for silence while most are silent; that a machine is gone is certain all the same.
    async fn on_silence(&self, pool: &Pool, runner: &Runner, braked: bool) -> Result<bool, Refused> {
        let presence = self.backend(pool.rules.backend)?.describe(runner).await.unwrap_or_else(|error| {
            tracing::warn!(runner = %runner.id, error = chain(&error), "the backend can't say whether a silent runner is there");
            Presence::Unknown
        });
        let held_back = braked && presence != Presence::Gone;
        if !held_back && self.reap(pool, runner, &RunnerEvent::Silent { presence }).await? {
            return Ok(true);
        }
        if self.answers_for(pool, runner)? { self.look_later(pool, runner).await } else { Ok(false) }
    }

    /// Counted among all runners, once one is to be reaped for silence: they fall due one after the other, and each few of them
    /// would be taken for dead.
    async fn brake(
        &self,
        pools: &[PoolRecord],
        judged: &[(Runner, Reason)],
        listening_since: Timestamp,
        now: Timestamp,
    ) -> Result<bool, Refused> {
        if !judged.iter().any(silent_while_idle) {
            return Ok(false);
        }
        let mut seen = Heartbeats::default();
        for PoolRecord { pool, .. } in pools {
            for runner in self.all_runners(pool).await? {
                match overdue(&runner, &pool.rules.limits, listening_since, now) {
                    Some(true) => seen.overdue += 1,
                    Some(false) => seen.heard += 1,
                    None => {}
                }
            }
        }
        if seen.brake() {
            tracing::warn!(target: "alert", overdue = seen.overdue, heard = seen.heard, "most heartbeats are missing at once: nobody is reaped for silence");
        }
        Ok(seen.brake())
    }

    /// Launches that nobody confirmed: one call a launch, however many of its runners are due.
    async fn launch_again(&self, pools: &[PoolRecord], unlaunched: Vec<Runner>) {
        let mut launches: BTreeMap<LaunchId, Vec<Runner>> = BTreeMap::new();
        for runner in unlaunched {
            launches.entry(runner.launch.clone()).or_default().push(runner);
        }
        let cases = launches.into_iter().filter_map(|(launch, runners)| {
            let pool = &find(pools, &runners.first()?.pool)?.pool;
            Some((launch, pool, runners))
        });
        let cases: Vec<_> =
            cases.map(|(launch, pool, runners)| self.launch_of(launch, pool, runners)).collect();
        let mut done = futures_util::stream::iter(cases).buffer_unordered(ABREAST);
        while let Some((launch, outcome)) = done.next().await {
            self.heal(&format!("launch {launch}"), outcome);
        }
    }

    async fn launch_of(
        &self,
        launch: LaunchId,
        pool: &Pool,
        runners: Vec<Runner>,
    ) -> (LaunchId, Result<(), Refused>) {
        (launch, self.take_up(pool, &runners).await)
    }

    async fn take_up(&self, pool: &Pool, runners: &[Runner]) -> Result<(), Refused> {
        for runner in runners {
            if !self.answers_for(pool, runner)? {
                continue;
            }
            // First, so that whatever the climb writes down about when to look again stands.
            self.look_later(pool, runner).await?;
        }
        // One of each attempt stands for all of it: a launch of which some came is in parts.
        let mut attempts = BTreeSet::new();
        for runner in runners {
            if self.answers_for(pool, runner)? && attempts.insert(attempt_key(runner)) {
                self.climb_again(pool, runner).await?;
            }
        }
        Ok(())
    }

    /// Another's stays due, so that the other finds it.
    fn answers_for(&self, pool: &Pool, runner: &Runner) -> Result<bool, Refused> {
        Ok(self.backend(pool.rules.backend)?.answers_for(runner))
    }

    async fn look_later(&self, pool: &Pool, runner: &Runner) -> Result<bool, Refused> {
        if let Some(at) = next_look(runner, &pool.rules.limits, self.now()) {
            self.store.look_again(runner, at).await?;
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

fn attempt_key(runner: &Runner) -> (u32, u32) {
    let attempt = call_of(runner);
    (attempt.number, attempt.from)
}

fn reason(runner: &Runner, pool: &Pool, listening_since: Timestamp, now: Timestamp) -> Reason {
    let seen = look(runner, &pool.rules.limits, listening_since, now);
    if runner.threshold.is_some_and(|threshold| threshold.passed(now)) {
        return Reason::Threshold(seen);
    }
    seen.map_or(Reason::Nothing, Reason::Look)
}

fn silent_while_idle((runner, reason): &(Runner, Reason)) -> bool {
    let silent = matches!(reason, Reason::Look(Look::Silent) | Reason::Threshold(Some(Look::Silent)));
    silent && runner.state.name() == StateName::Idle
}

/// How many idle runners each pool can spare above `min_idle`, counted once a pass, and no further than matters to it.
struct Surplus {
    left: HashMap<PoolName, u32>,
    /// How many are due in this pass: more than these need not be spared.
    due: u32,
}

impl Surplus {
    fn among(judged: &[(Runner, Reason)]) -> Self {
        Self { left: HashMap::new(), due: u32::try_from(judged.len()).unwrap_or(u32::MAX) }
    }

    /// Whether one more idle runner can be spared.
    async fn take(&mut self, control: &Control, record: &PoolRecord) -> Result<bool, Refused> {
        let pool = &record.pool;
        if pool.retired || pool.rules.min_idle == 0 {
            return Ok(true);
        }
        if !self.left.contains_key(&pool.name) {
            let enough = pool.rules.min_idle.saturating_add(self.due);
            let idle = control.store.count_runners(&pool.name, StateName::Idle, enough).await?;
            self.left.insert(pool.name.clone(), idle.saturating_sub(pool.rules.min_idle));
        }
        let left = self.left.entry(pool.name.clone()).or_default();
        let spare = *left > 0;
        *left = left.saturating_sub(1);
        Ok(spare)
    }
}
