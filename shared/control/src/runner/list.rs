//! Runners as operators list and look them up: of one pool or of all, and those that are removed too, for as long as their records are kept.

use crate::caller::Caller;
use crate::control::Control;
use crate::error::Refused;
use crate::store::{Listed, Page, RunnerList};
use motorpool_domain::pool::PoolRecord;
use motorpool_domain::runner::{Runner, StateName};
use motorpool_domain::{PoolName, RunnerId};
use motorpool_wire::api::{RunnerView, RunnersPage};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WhichRunners {
    /// All pools', if left out.
    pub pool: Option<PoolName>,
    /// Those in this state alone.
    pub state: Option<StateName>,
    /// Where no state is asked for: also those that are removed or gone.
    pub include_inactive: bool,
}

impl WhichRunners {
    /// Of one pool, those that live or those in this state.
    pub fn of_pool(pool: &PoolName, state: Option<StateName>) -> Self {
        Self { pool: Some(pool.clone()), state, include_inactive: false }
    }
}

impl Control {
    /// Pool by pool in the order of their names, and of each those that live before those that do not.
    pub async fn list_runners(
        &self,
        caller: &Caller,
        which: &WhichRunners,
        page: Page,
    ) -> Result<RunnersPage, Refused> {
        caller.must_be_operator("list runners")?;
        let WhichRunners { pool, state, include_inactive } = which;
        let records = match pool {
            Some(pool) => vec![self.pool_record(pool).await?],
            None => self.store.pools().await?,
        };
        let pools: BTreeMap<&PoolName, &PoolRecord> =
            records.iter().map(|record| (&record.pool.name, record)).collect();
        let states = match (state, include_inactive) {
            (Some(state), _) => vec![Some(*state)],
            (None, false) => vec![None],
            (None, true) => vec![None, Some(StateName::Terminated)],
        };
        let lists: Vec<RunnerList<'_>> = pools
            .keys()
            .flat_map(|pool| states.iter().map(|state| RunnerList { pool, state: *state }))
            .collect();
        let Listed { items, next } = match (pool, lists.as_slice()) {
            (Some(_), [RunnerList { pool, state }]) => self.store.list_runners(pool, *state, page).await?,
            (Some(_) | None, lists) => self.store.list_runners_of_all(lists, page).await?,
        };
        let now = self.now();
        let view =
            |runner: &Runner| Some(self.runner_view(runner, &pools.get(&runner.pool)?.pool.rules, now));
        Ok(RunnersPage { runners: items.iter().filter_map(view).collect(), next })
    }

    pub async fn view_runner(&self, caller: &Caller, runner: &RunnerId) -> Result<RunnerView, Refused> {
        caller.must_be_operator("look at a runner")?;
        let runner = self.runner_record(runner).await?;
        let rules = self.pool_record(&runner.pool).await?.pool.rules;
        Ok(self.runner_view(&runner, &rules, self.now()))
    }
}
