//! A pool as the API shows it. Nothing is decided here.

use crate::caller::Caller;
use crate::control::Control;
use crate::error::Refused;
use motorpool_domain::pool::{PoolRecord, Source};
use motorpool_domain::runner::StateName;
use motorpool_wire::api::PoolView;
use std::collections::BTreeMap;

/// Displayed counts stop here: they are read from an index, and never decide anything.
const COUNTED: u32 = 1_000;

impl Control {
    pub(super) async fn pool_view(&self, caller: &Caller, record: &PoolRecord) -> Result<PoolView, Refused> {
        let PoolRecord { pool, used, rev: _ } = record;
        let mut counts = BTreeMap::new();
        for state in StateName::ALL.into_iter().filter(|state| state.live()) {
            let count = self.store.count_runners(&pool.name, state, COUNTED).await?;
            counts.insert(state.to_string(), count);
        }
        Ok(PoolView {
            pool: pool.name.clone(),
            backend: pool.rules.backend.name().to_owned(),
            dispatch: pool.rules.dispatch.name().to_owned(),
            clean: pool.rules.clean.name().to_owned(),
            max: pool.rules.max,
            min_idle: pool.rules.min_idle,
            used: *used,
            counts,
            waiting: self.count_waiting(&pool.name).await?,
            pending_checkpoints: self.store.count_active_checkpoints(&pool.name, COUNTED).await?,
            retired: pool.retired,
            ci: pool.rules.ci.as_ref().map(|binding| self.ci_view(binding)),
            source: match pool.source {
                Source::File => "file",
                Source::Api => "api",
            }
            .to_owned(),
            warnings: self.warnings(&pool.rules),
            // Which other teams there are is the operator's to know.
            teams: match caller {
                Caller::Operator => pool.rules.teams.clone(),
                Caller::Team(_) => Vec::new(),
            },
        })
    }
}
