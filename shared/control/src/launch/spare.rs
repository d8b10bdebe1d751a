//! Launches runners that nobody holds, for a pool that keeps some idle.

use super::{Launch, Launched};
use crate::control::Control;
use crate::error::Refused;
use crate::store::Store;
use motorpool_domain::ladder::Choice;
use motorpool_domain::pool::PoolRecord;
use motorpool_domain::spec::Want;
use motorpool_domain::{Actor, AuditEntry, Timestamp};

impl Control {
    /// Launches up to `count`, if the pool is still as it was read, slots and all. Says how many.
    pub(crate) async fn launch_spare(
        &self,
        record: &PoolRecord,
        count: u32,
        why: &str,
        now: Timestamp,
    ) -> Result<u32, Refused> {
        let pool = &record.pool;
        let count = count.min(pool.free_slots(record.used)).min(Store::MOST_TOGETHER);
        if count == 0 {
            return Ok(0);
        }
        let want = Want::default();
        let option = match self.choose_option(pool, &want).await? {
            Choice::Try(option) => option,
            Choice::Wait { why, .. } | Choice::NoneFits { why } => {
                tracing::warn!(pool = %pool.name, why, "no spare runner can be launched");
                return Ok(0);
            }
        };
        let launch = Launch {
            record,
            runners: self.intents(pool, count, option, None, now)?,
            claim: None,
            only_if_used: Some(record.used),
            entry: &AuditEntry::of_new(now, Actor::Refresh, "launch intent", "created", why),
            want: &want,
        };
        match self.launch(launch).await? {
            Launched::UnderWay => Ok(count),
            // What the provider refused gave its slot back already, so the slots are no longer as they were read.
            Launched::Short(_)
            | Launched::PoolRefused { .. }
            | Launched::PoolGone
            | Launched::ClaimLost
            | Launched::Exists => Ok(0),
        }
    }
}
