//! Keeps `min_idle` runners ready: launches what is missing, counting those that are on their way.

use crate::control::Control;
use crate::error::Refused;
use crate::store::Page;
use motorpool_domain::pool::{PoolRecord, Spares};
use motorpool_domain::runner::StateName;
use motorpool_wire::api::RefreshReport;

impl Control {
    pub(super) async fn top_up(
        &self,
        record: &PoolRecord,
        report: &mut RefreshReport,
    ) -> Result<(), Refused> {
        let pool = &record.pool;
        let wanted = pool.wanted_idle();
        if wanted == 0 {
            return Ok(());
        }
        let now = self.now();
        // The slots are read before the counts: whoever launches meanwhile changes them, and the rest is left to the next pass.
        let mut record = self.pool_record(&pool.name).await?;
        let idle = self.store.count_runners(&pool.name, StateName::Idle, wanted).await?;
        let resetting = self.store.count_runners(&pool.name, StateName::Resetting, wanted).await?;
        let page = Page::first(pool.rules.max);
        let created = self.store.list_runners(&pool.name, Some(StateName::Created), page).await?.items;
        let starting = created.iter().filter(|runner| runner.holder().is_none()).count();
        let starting = u32::try_from(starting).unwrap_or(u32::MAX);
        let mut missing = pool.lacks(Spares { idle, resetting, starting });
        while missing > 0 {
            let why = "the pool has fewer idle runners than min_idle";
            let launched = self.launch_spare(&record, missing, why, now).await?;
            if launched == 0 {
                break;
            }
            report.launched += launched;
            missing -= launched;
            record.used += launched;
        }
        Ok(())
    }
}
