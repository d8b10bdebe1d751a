//! The sweep: walks everything, page by page, for what no threshold tells: machines without records and records without
//! machines, idle runners that no queue announces, claims that nobody looks at, slot counters.

use crate::control::Control;
use crate::error::{Refused, chain};
use crate::ports::queue::QueueName;
use crate::store::{Found, Page, WhichClaims};
use futures_util::{StreamExt, stream};
use motorpool_domain::alert::Incident;
use motorpool_domain::pool::{Dispatch, Pool, PoolRecord};
use motorpool_domain::runner::{
    Presence, Removal, Runner, RunnerEvent, RunnerState, Whose, is_held_up_by_ci, is_to_be_announced, whose,
};
use motorpool_domain::{Actor, Timestamp};
use motorpool_wire::api::RefreshReport;
use std::collections::HashSet;

const PAGE: u32 = 100;
/// How many queues are asked for their dead letters at the same time: each may take a second to say that it has none.
const ABREAST: usize = 16;

impl Control {
    pub(super) async fn sweep(
        &self,
        pools: &[PoolRecord],
        report: &mut RefreshReport,
    ) -> Result<(), Refused> {
        for record in pools {
            let pool = format!("pool {}", record.pool.name);
            self.heal(&pool, self.sweep_runners(record, report).await);
            self.heal(&pool, self.sweep_machines(&record.pool).await);
            self.heal(&pool, self.sweep_claims(&record.pool).await);
            self.heal(&pool, self.sweep_registrations(&record.pool).await);
        }
        self.sweep_dead_letters(pools).await;
        report.swept = true;
        Ok(())
    }

    /// For a queue that was lost as a whole, as the in-process one is at each start.
    pub async fn announce_all_idle(&self) -> Result<u32, Refused> {
        let mut announced = 0;
        let announced_there = |record: &PoolRecord| record.pool.rules.dispatch == Dispatch::Claim;
        for record in self.store.pools().await?.into_iter().filter(announced_there) {
            for runner in self.all_runners(&record.pool).await? {
                if runner.state == RunnerState::Idle {
                    self.announce(&runner, self.now()).await?;
                    announced += 1;
                }
            }
        }
        Ok(announced)
    }

    async fn sweep_runners(&self, record: &PoolRecord, report: &mut RefreshReport) -> Result<(), Refused> {
        let pool = &record.pool;
        let runners = self.all_runners(pool).await?;
        let now = self.now();
        if Self::is_attended(pool) {
            let pending = runners.iter().filter(|runner| runner.checkpoint.is_some()).count();
            tracing::info!(pool = %pool.name, pending_checkpoints_count = pending, "jobs' checkpoints of a pool were counted");
        }
        let held_up = runners.iter().find(|runner| is_held_up_by_ci(runner, &pool.rules, now));
        if let Some(runner) = held_up {
            self.raise_ci_awaited(pool, runner, now).await;
        }
        for runner in &runners {
            if let RunnerState::Quarantined { why } = &runner.state {
                // Whoever quarantined it may have been cut off before he could say so.
                self.raise(Incident::RunnerQuarantined { runner: runner.id.clone() }, why, now).await;
            }
            if !pool.retired && Self::is_attended(pool) {
                self.heal(&format!("runner {}", runner.id), self.assert_in_ci(pool, runner).await);
            }
            if runner.state != RunnerState::Idle {
                continue;
            }
            if pool.retired {
                let event = RunnerEvent::OperatorRemove { removal: Removal::IfFree };
                let outcome = self.transition(pool, runner, &event, &Actor::Refresh, now).await;
                self.heal(&format!("runner {}", runner.id), outcome.map(|_| ()));
            } else if pool.rules.dispatch == Dispatch::Claim && is_to_be_announced(runner, now) {
                self.announce(runner, now).await?;
                report.announced += 1;
            }
        }
        // A slot and its runner are written in one transaction, so this can only be a change made while counting, or a bug.
        let listed = u32::try_from(runners.len()).unwrap_or(u32::MAX);
        let used = self.store.pool(&pool.name).await?.map_or(0, |record| record.used);
        if listed != record.used && listed != used {
            tracing::warn!(target: "alert", pool = %pool.name, listed, used, "the slot counter differs from the runners listed");
        }
        Ok(())
    }

    /// Refresh asks the CI system again and again, and gives nobody up for it: so a person should hear of it.
    async fn raise_ci_awaited(&self, pool: &Pool, runner: &Runner, now: Timestamp) {
        let (state, waits_s) = (runner.state.name(), now.since(runner.entered_at).as_secs());
        tracing::warn!(target: "alert", pool = %pool.name, runner = %runner.id, %state, waits_s, "machines wait for their CI system");
        let ci = pool.rules.ci.as_ref();
        let trouble = ci.and_then(|binding| self.ci.get(binding.system)?.trouble(&binding.scope));
        let said = trouble.map(|trouble| format!("; {}", trouble.what)).unwrap_or_default();
        let details = format!("runner {} for one, {state} for {waits_s} s{said}", runner.id);
        self.raise(Incident::CiSystemAwaited { pool: pool.name.clone() }, &details, now).await;
    }

    /// The provider's inventory, both ways.
    async fn sweep_machines(&self, pool: &Pool) -> Result<(), Refused> {
        let backend = self.backend(pool.rules.backend)?;
        if !pool.rules.backend.launches() {
            return Ok(());
        }
        let machines = match backend.inventory(&pool.name).await {
            Ok(machines) => machines,
            Err(error) => {
                tracing::warn!(pool = %pool.name, error = chain(&error), "the backend's inventory can't be read; the next sweep tries again");
                return Ok(());
            }
        };
        let mut known = HashSet::new();
        let named: Vec<_> = machines.iter().map(|machine| machine.runner.clone()).collect();
        for (machine, record) in machines.iter().zip(self.store.find_runners(&named).await?) {
            // A machine whose record can't be read is somebody's, who is of another version.
            if record == Found::Unreadable {
                continue;
            }
            match whose(&machine.provider_id, record.record()) {
                Whose::Known => {
                    known.insert(machine.runner.clone());
                    continue;
                }
                Whose::Nobodys => {
                    tracing::warn!(runner = %machine.runner, provider_id = machine.provider_id, "a machine has no record, and is ended");
                }
                Whose::Doubled { provider_id } => {
                    tracing::warn!(runner = %machine.runner, provider_id = machine.provider_id, other = provider_id, "a runner has another machine, and this one is ended");
                }
            }
            if let Err(error) = backend.discard(machine).await {
                tracing::warn!(runner = %machine.runner, error = chain(&error), "a machine without a record could not be ended");
            }
        }
        for runner in self.all_runners(pool).await?.iter().filter(|runner| !known.contains(&runner.id)) {
            // The inventory was read before the runners: whoever came since is asked for by name.
            if let Ok(Presence::Gone) = backend.describe(runner).await {
                let now = self.now();
                let gone = RunnerEvent::ProviderGone;
                let applied = self.transition(pool, runner, &gone, &Actor::Refresh, now).await?;
                self.notify_dependents(&applied, now).await?;
            }
        }
        Ok(())
    }

    /// Messages that nobody could use, which only a person can do something about.
    async fn sweep_dead_letters(&self, pools: &[PoolRecord]) {
        let idle = pools.iter().map(|record| QueueName::Idle(record.pool.name.clone()));
        let attended = pools.iter().any(|record| Self::is_attended(&record.pool));
        let queues = idle.chain(attended.then_some(QueueName::Finalize));
        let looks: Vec<_> = queues.map(|queue| self.dead_letters_of(queue)).collect();
        stream::iter(looks).buffer_unordered(ABREAST).collect::<()>().await;
    }

    async fn dead_letters_of(&self, queue: QueueName) {
        match self.queue.dead_letters(&queue, 1).await {
            Ok(letters) if letters.is_empty() => {}
            Ok(_) => {
                tracing::warn!(target: "alert", %queue, "a queue has messages that nobody could use");
                let details = "look at its dead letters, and then delete them";
                self.raise(Incident::DeadLetters { queue: queue.to_string() }, details, self.now()).await;
            }
            Err(error) => {
                tracing::warn!(%queue, error = chain(&error), "a queue's dead letters can't be read; the next sweep tries again");
            }
        }
    }

    async fn sweep_claims(&self, pool: &Pool) -> Result<(), Refused> {
        let mut page = Page::first(PAGE);
        let room = self.has_room(pool).await?;
        loop {
            let listed = self.store.list_claims(&pool.name, WhichClaims::Open, page).await?;
            // Thousands may wait for room alone: there is nothing about them that nobody has seen.
            for claim in listed.items.iter().filter(|claim| room || !claim.waits_for_room_only()) {
                self.heal(
                    &format!("claim {}", claim.id),
                    self.reconcile(&claim.id, self.now()).await.map(|_| ()),
                );
            }
            match listed.next {
                Some(after) => page = Page { at_most: PAGE, after: Some(after) },
                None => return Ok(()),
            }
        }
    }

    pub(crate) async fn all_runners(&self, pool: &Pool) -> Result<Vec<Runner>, Refused> {
        let mut all = Vec::new();
        let mut page = Page::first(PAGE);
        loop {
            let listed = self.store.list_runners(&pool.name, None, page).await?;
            all.extend(listed.items);
            match listed.next {
                Some(after) => page = Page { at_most: PAGE, after: Some(after) },
                None => return Ok(all),
            }
        }
    }
}
