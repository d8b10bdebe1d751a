//! The due pass: its cost follows what is due, not how much there is.

use super::budget::Due;
use super::find;
use crate::alert::PassContext;
use crate::control::Control;
use crate::error::{Refused, chain};
use crate::runner::Applied;
use crate::store::{Page, WhichClaims};
use futures_util::{StreamExt, future, stream};
use motorpool_domain::alert::Incident;
use motorpool_domain::brake::Heartbeats;
use motorpool_domain::claim::Claim;
use motorpool_domain::pool::{Pool, PoolRecord, Surplus};
use motorpool_domain::runner::{
    DueFor, Look, Presence, Runner, RunnerEvent, StateName, call_of, due_for, is_silent_while_idle,
    next_look, outlives_silence, overdue,
};
use motorpool_domain::{Actor, CheckpointName, LaunchId, PoolName, RunnerId, Timestamp};
use motorpool_wire::api::RefreshReport;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How many waiting claims of a pool one pass brings further, oldest first.
const WAITING: u32 = 200;
/// And of those whose turn is next, if there is room.
const IN_TURN: usize = 50;

/// How many records are treated at the same time: one whose provider is slow must not keep the others waiting.
const ABREAST: usize = 16;

impl Control {
    /// Claims, runners and alerts side by side: neither waits for a provider or a receiver that is slow to answer another.
    pub(super) async fn due_pass(
        &self,
        pass: PassContext<'_>,
        listening_since: Timestamp,
        report: &mut RefreshReport,
    ) -> Result<(), Refused> {
        let Due { runners, claims, checkpoints, alerts, examined } = self.what_is_due().await?;
        report.examined += u32::try_from(examined).unwrap_or(u32::MAX);
        let claims = Box::pin(self.due_claims(claims));
        let checkpoints = Box::pin(self.due_checkpoints(checkpoints));
        let alerts = Box::pin(self.send_due_alerts(alerts, pass));
        let runners = Box::pin(self.due_runners(pass.pools, runners, listening_since, report));
        future::join4(claims, checkpoints, alerts, runners).await.3
    }

    async fn due_checkpoints(&self, names: Vec<CheckpointName>) {
        let looks = names.into_iter().map(|name| async move {
            let outcome = self.look_at_checkpoint(&name, self.now()).await;
            self.heal(&format!("checkpoint {name}"), outcome);
        });
        let looks: Vec<_> = looks.collect();
        stream::iter(looks).buffer_unordered(ABREAST).collect::<()>().await;
    }

    async fn due_claims(&self, claims: Vec<Claim>) {
        let reconciled = claims.into_iter().map(|claim| async move {
            let subject = format!("claim {}", claim.id);
            self.heal(&subject, self.reconcile_claim(claim, self.now()).await.map(|_| ()));
        });
        // Collected, since a stream of closures' futures is not known to be `Send`.
        let reconciled: Vec<_> = reconciled.collect();
        stream::iter(reconciled).buffer_unordered(ABREAST).collect::<()>().await;
    }

    async fn due_runners(
        &self,
        pools: &[PoolRecord],
        runners: Vec<Runner>,
        listening_since: Timestamp,
        report: &mut RefreshReport,
    ) -> Result<(), Refused> {
        let now = self.now();
        let judged: Vec<(Runner, DueFor)> = runners
            .into_iter()
            .filter_map(|runner| {
                let limits = &find(pools, &runner.pool)?.pool.rules.limits;
                let due_for = due_for(&runner, limits, listening_since, now);
                Some((runner, due_for))
            })
            .collect();
        report.braked = self.brake(pools, &judged, listening_since, now).await?;
        let at_most = u32::try_from(judged.len()).unwrap_or(u32::MAX);
        let mut surplus: HashMap<PoolName, Surplus> = HashMap::new();
        let (unlaunched, judged): (Vec<_>, Vec<_>) =
            judged.into_iter().partition(|(_, due_for)| *due_for == DueFor::Look(Look::Unlaunched));
        self.launch_all_again(pools, unlaunched.into_iter().map(|(runner, _)| runner).collect()).await;
        let mut cases = Vec::new();
        for (runner, due_for) in judged {
            let Some(PoolRecord { pool, .. }) = find(pools, &runner.pool) else { continue };
            let needed = match (&due_for, runner.state.name()) {
                (DueFor::Threshold(_), StateName::Idle) => {
                    if !surplus.contains_key(&pool.name) {
                        surplus.insert(pool.name.clone(), self.surplus(pool, at_most).await?);
                    }
                    !surplus.get_mut(&pool.name).is_some_and(Surplus::spare)
                }
                (DueFor::Threshold(_) | DueFor::Look(_) | DueFor::Nothing, _) => false,
            };
            cases.push(self.treat(pool, runner, due_for, needed, report.braked));
        }
        let mut treated = stream::iter(cases).buffer_unordered(ABREAST);
        while let Some((runner, outcome)) = treated.next().await {
            match outcome {
                Ok(reaped) => report.reaped += u32::from(reaped),
                Err(error) => self.heal(&format!("runner {runner}"), Err(error)),
            }
        }
        Ok(())
    }

    /// How many idle runners the pool can spare, counted no further than matters to `at_most`.
    async fn surplus(&self, pool: &Pool, at_most: u32) -> Result<Surplus, Refused> {
        let wanted = pool.wanted_idle();
        let idle = match wanted {
            0 => at_most,
            _ => {
                self.store.count_runners(&pool.name, StateName::Idle, wanted.saturating_add(at_most)).await?
            }
        };
        Ok(Surplus::of(pool, idle))
    }

    /// Says whether the runner was reaped.
    async fn treat(
        &self,
        pool: &Pool,
        runner: Runner,
        due_for: DueFor,
        needed: bool,
        braked: bool,
    ) -> (RunnerId, Result<bool, Refused>) {
        let outcome = match due_for {
            DueFor::Threshold(seen) => self.on_threshold(pool, &runner, needed, seen, braked).await,
            DueFor::Look(Look::Silent) => self.on_silence(pool, &runner, braked).await,
            DueFor::Look(Look::Unlaunched | Look::Heard) | DueFor::Nothing => {
                self.attend_and_look_later(pool, &runner).await
            }
        };
        (runner.id, outcome)
    }

    /// Claims that wait are brought further: those whose turn is next, then those that wait longest.
    pub(super) async fn reconcile_waiting(&self, record: &PoolRecord) -> Result<(), Refused> {
        let waiting =
            self.store.list_claims(&record.pool.name, WhichClaims::Waiting, Page::first(WAITING)).await?;
        if waiting.items.is_empty() {
            return Ok(());
        }
        let pool = &record.pool;
        let room = self.has_room(pool).await?;
        let mut claims = match room {
            true => self.next_in_turn(&pool.name, IN_TURN).await?,
            false => Vec::new(),
        };
        let oldest = waiting.items.into_iter().filter(|claim| room || !claim.waits_for_room_only());
        for claim in oldest {
            if !claims.contains(&claim.id) {
                claims.push(claim.id);
            }
        }
        for claim in claims {
            let outcome = self.reconcile(&claim, self.now()).await;
            self.heal(&format!("claim {claim}"), outcome.map(|_| ()));
        }
        Ok(())
    }

    /// One record that can't be healed does not keep the others from it; it stays due.
    pub(crate) fn heal(&self, subject: &str, outcome: Result<(), Refused>) {
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

    async fn on_silence(&self, pool: &Pool, runner: &Runner, braked: bool) -> Result<bool, Refused> {
        let presence = self.backend(pool.rules.backend)?.describe(runner).await.unwrap_or_else(|error| {
            tracing::warn!(runner = %runner.id, error = chain(&error), "the backend can't say whether a silent runner is there");
            Presence::Unknown
        });
        if !outlives_silence(presence, braked)
            && self.reap(pool, runner, &RunnerEvent::Silent { presence }).await?
        {
            return Ok(true);
        }
        if self.answers_for(pool, runner)? { self.look_later(pool, runner).await } else { Ok(false) }
    }

    /// Counted among all runners, once one is to be reaped for silence: they fall due one after the other, and each few of them
    /// would be taken for dead.
    async fn brake(
        &self,
        pools: &[PoolRecord],
        judged: &[(Runner, DueFor)],
        listening_since: Timestamp,
        now: Timestamp,
    ) -> Result<bool, Refused> {
        if !judged.iter().any(|(runner, due_for)| is_silent_while_idle(runner, *due_for)) {
            return Ok(false);
        }
        let seen = self.count_heartbeats(pools, listening_since, now).await?;
        if seen.brake() {
            tracing::warn!(target: "alert", overdue = seen.overdue, heard = seen.heard, "most heartbeats are missing at once: nobody is reaped for silence");
            let details = format!("{} are overdue, {} are heard", seen.overdue, seen.heard);
            self.raise(Incident::MassSilence, &details, now).await;
        }
        Ok(seen.brake())
    }

    pub(crate) async fn count_heartbeats(
        &self,
        pools: &[PoolRecord],
        listening_since: Timestamp,
        now: Timestamp,
    ) -> Result<Heartbeats, Refused> {
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
        Ok(seen)
    }

    /// Launches that nobody confirmed: one call a launch, however many of its runners are due.
    async fn launch_all_again(&self, pools: &[PoolRecord], unlaunched: Vec<Runner>) {
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
        let mut done = stream::iter(cases).buffer_unordered(ABREAST);
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
            // First, so that whatever the launch writes down about when to look again stands.
            self.look_later(pool, runner).await?;
        }
        // One of each call stands for all of it: a launch of which some came is in parts.
        let mut calls = BTreeSet::new();
        for runner in runners {
            if self.answers_for(pool, runner)? && calls.insert(call_key(runner)) {
                self.launch_again(pool, runner).await?;
            }
        }
        Ok(())
    }

    /// Another's stays due, so that the other finds it.
    fn answers_for(&self, pool: &Pool, runner: &Runner) -> Result<bool, Refused> {
        Ok(self.backend(pool.rules.backend)?.answers_for(runner))
    }

    /// What somebody else than its agent does for it, where there is something, and when it is due again.
    async fn attend_and_look_later(&self, pool: &Pool, runner: &Runner) -> Result<bool, Refused> {
        self.look_later(pool, runner).await?;
        if Self::is_attended(pool) || runner.checkpoint.is_some() {
            Box::pin(self.attend(pool, runner.clone(), self.now())).await?;
        }
        Ok(false)
    }

    async fn look_later(&self, pool: &Pool, runner: &Runner) -> Result<bool, Refused> {
        if let Some(at) = next_look(runner, &pool.rules, self.now()) {
            self.store.look_again(runner, at).await?;
        }
        Ok(false)
    }

    async fn reap(&self, pool: &Pool, runner: &Runner, event: &RunnerEvent) -> Result<bool, Refused> {
        let now = self.now();
        let applied = self.transition(pool, runner, event, &Actor::Refresh, now).await?;
        self.notify_dependents(&applied, now).await?;
        Ok(match &applied {
            Applied::Changed { before, after } => before.state.name() != after.state.name(),
            Applied::Stayed | Applied::Refused(_) | Applied::Overtaken => false,
        })
    }
}

fn call_key(runner: &Runner) -> (u32, u32) {
    let call = call_of(runner);
    (call.number, call.from)
}
