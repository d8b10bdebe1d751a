//! Keeps `min_idle` runners ready: launches what is missing, counting those that are on their way.

use crate::control::Control;
use crate::refused::Refused;
use crate::store::Page;
use motorpool_domain::pool::PoolRecord;
use motorpool_domain::runner::StateName;
use motorpool_wire::api::RefreshReport;

impl Control {
    pub(super) async fn top_up(
        &self,
        record: &PoolRecord,
        report: &mut RefreshReport,
    ) -> Result<(), Refused> {
        let pool = &record.pool;
        if pool.retired || pool.rules.min_idle == 0 {
            return Ok(());
        }
        let wanted = pool.rules.min_idle;
        // The slots are read before the counts: whoever launches meanwhile changes them, and the rest is left to the next pass.
        let mut record = self.pool_record(&pool.name).await?;
        let idle = self.store.count_runners(&pool.name, StateName::Idle, wanted).await?;
        let resetting = self.store.count_runners(&pool.name, StateName::Resetting, wanted).await?;
        let created = self
            .store
            .list_runners(&pool.name, Some(StateName::Created), Page::first(pool.rules.max))
            .await?;
        let spare = created.items.iter().filter(|runner| runner.state.hold().is_none()).count();
        let coming = resetting.saturating_add(u32::try_from(spare).unwrap_or(u32::MAX));
        let mut missing = wanted.saturating_sub(idle.saturating_add(coming));
        while missing > 0 {
            let why = "the pool has fewer idle runners than min_idle";
            let launched = self.launch_spare(&record, missing, why).await?;
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
