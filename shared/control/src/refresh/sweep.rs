//! The sweep: walks everything, page by page, for what no threshold tells: machines without records and records without
//! machines, idle runners that no queue announces, claims that nobody looks at, slot counters.

use crate::control::Control;
use crate::ports::backend::Machine;
use crate::refused::{Refused, chain};
use crate::store::{Page, WhichClaims};
use motorpool_domain::Actor;
use motorpool_domain::pool::Pool;
use motorpool_domain::pool::PoolRecord;
use motorpool_domain::runner::{Presence, Removal, Runner, RunnerEvent, RunnerState};
use motorpool_wire::api::RefreshReport;
use std::collections::HashSet;
use std::time::Duration;

const PAGE: u32 = 100;
/// An idle runner is announced again so long after its last announcement.
const ANNOUNCE_AGAIN: Duration = Duration::from_secs(300);

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
        report.swept = true;
        Ok(())
    }

    /// For a queue that was lost as a whole, as the in-process one is at each start.
    pub async fn announce_all_idle(&self) -> Result<u32, Refused> {
        let mut announced = 0;
        for record in self.store.pools().await? {
            for runner in self.all_runners(&record.pool).await? {
                if runner.state == RunnerState::Idle {
                    self.announce(&runner).await?;
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
        for runner in &runners {
            if runner.state != RunnerState::Idle {
                continue;
            }
            if pool.retired {
                let event = RunnerEvent::OperatorRemove { removal: Removal::IfFree };
                let outcome = self.apply(pool, runner, &event, &Actor::Refresh).await;
                self.heal(&format!("runner {}", runner.id), outcome.map(|_| ()));
            } else if runner
                .announced_at
                .is_none_or(|at| at < runner.entered_at || now.since(at) >= ANNOUNCE_AGAIN)
            {
                self.announce(runner).await?;
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
        for machine in &machines {
            let record = self.store.runner(&machine.runner).await?;
            match whose(machine, record.as_ref()) {
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
                let applied = self.apply(pool, runner, &RunnerEvent::ProviderGone, &Actor::Refresh).await?;
                self.follow(&applied).await?;
            }
        }
        Ok(())
    }

    async fn sweep_claims(&self, pool: &Pool) -> Result<(), Refused> {
        let mut page = Page::first(PAGE);
        loop {
            let listed = self.store.list_claims(&pool.name, WhichClaims::Open, page).await?;
            for claim in &listed.items {
                self.heal(&format!("claim {}", claim.id), self.advance(&claim.id).await.map(|_| ()));
            }
            match listed.next {
                Some(after) => page = Page { at_most: PAGE, after: Some(after) },
                None => return Ok(()),
            }
        }
    }

    pub(super) async fn all_runners(&self, pool: &Pool) -> Result<Vec<Runner>, Refused> {
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

#[derive(Debug, PartialEq, Eq)]
enum Whose<'a> {
    Known,
    Nobodys,
    /// Two control planes launched one intent, and the other's answer was noted.
    Doubled {
        provider_id: &'a str,
    },
}

/// A record that names no machine may be of any: the answer to its launch is not noted yet, or was lost.
fn whose<'a>(machine: &Machine, record: Option<&'a Runner>) -> Whose<'a> {
    let Some(runner) = record.filter(|runner| runner.state.name().live()) else { return Whose::Nobodys };
    match runner.provider_id.as_deref() {
        Some(provider_id) if provider_id != machine.provider_id => Whose::Doubled { provider_id },
        Some(_) | None => Whose::Known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::runner::NewRunner;
    use motorpool_domain::spec::{Offer, Spec, Usage};
    use motorpool_domain::{Epoch, LaunchId, PoolName, RunnerId, Threshold, Timestamp};

    fn intent() -> Runner {
        let now = Timestamp::from_millis(0);
        let new = NewRunner {
            id: RunnerId::parse("r-1").unwrap(),
            pool: PoolName::parse("small").unwrap(),
            launch: LaunchId::parse("l-1").unwrap(),
            index: 0,
            attempt: None,
            offer: Offer {
                instance_type: "local".to_owned(),
                usage: Usage::OnDemand,
                spec: Spec { cpu: 1, memory_mb: 1_024 },
            },
            kept: false,
            hold: None,
            epoch: Epoch::FIRST,
            threshold: Threshold::in_(Duration::from_secs(600), now),
        };
        Runner::intent(new, now)
    }

    #[test]
    fn inv_16_a_machine_is_of_its_record_unless_that_is_ended_or_names_another() {
        let machine = Machine { runner: intent().id, provider_id: "local:a:r-1".to_owned() };
        let launched = |by: &str| Runner { provider_id: Some(format!("local:{by}:r-1")), ..intent() };
        assert_eq!(whose(&machine, None), Whose::Nobodys);
        assert_eq!(whose(&machine, Some(&intent())), Whose::Known);
        assert_eq!(whose(&machine, Some(&launched("a"))), Whose::Known);
        assert_eq!(whose(&machine, Some(&launched("b"))), Whose::Doubled { provider_id: "local:b:r-1" });
        let ended = RunnerState::Terminated { why: "its time was over".to_owned() };
        assert_eq!(whose(&machine, Some(&Runner { state: ended, ..launched("b") })), Whose::Nobodys);
    }
}
