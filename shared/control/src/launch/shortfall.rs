//! Launches what a claim lacks, as far as the pool has slots and the provider has machines.

use super::{Launch, Launched};
use crate::claim::{Draft, Filled, Waits};
use crate::control::Control;
use crate::error::Refused;
use crate::store::Store;
use motorpool_domain::claim::Member;
use motorpool_domain::ladder::{Choice, cannot_launch};
use motorpool_domain::pool::PoolRecord;
use motorpool_domain::{Actor, AuditEntry, Timestamp};

impl Control {
    pub(crate) async fn launch_shortfall(
        &self,
        record: &PoolRecord,
        draft: &mut Draft,
        now: Timestamp,
    ) -> Result<Filled, Refused> {
        let short = |reason, not_before| Ok(Filled::Short(Waits::new(reason, not_before)));
        let want = draft.claim.ask.want.clone();
        let mut record = record.clone();
        while draft.claim.short() > 0 {
            let pool = &record.pool;
            if let Some(reason) = cannot_launch(pool, &want) {
                return short(reason, None);
            }
            if let Some(not_before) = draft.claim.launch_not_before.filter(|at| *at > now) {
                let refused = || "the provider refused a launch".to_owned();
                let reason = draft.claim.waits_for.clone().unwrap_or_else(refused);
                return short(reason, Some(not_before));
            }
            let option = match self.choose_option(pool, &want).await? {
                Choice::Try(option) => option,
                Choice::Wait { until, why } => return short(why, Some(until)),
                Choice::NoneFits { why } => {
                    return short(format!("no machine of pool {} fits: {why}", pool.name), None);
                }
            };
            let claim = &draft.claim;
            let count = claim.short().min(pool.free_slots(record.used)).min(Store::MOST_TOGETHER);
            if count == 0 {
                return short(at_its_maximum(&record), None);
            }
            let runners = self.intents(pool, count, option, Some(claim), now)?;
            let gained = claim.gaining(runners.iter().map(|runner| Member {
                runner: runner.id.clone(),
                epoch: runner.epoch,
                warm: false,
            }));
            let (who, why) =
                (Actor::Owner(claim.key.owner.clone()), format!("launching {count} for the shortfall"));
            let entry = AuditEntry::of_new(now, who, "launch intent", "created", why);
            let launch = Launch {
                record: &record,
                runners,
                claim: Some(draft.gain(&gained, &entry)),
                only_if_used: None,
                entry: &entry,
                want: &want,
            };
            tracing::info!(claim = %claim.id, pool = %pool.name, count, "launching runners for a claim");
            match self.launch(launch).await? {
                Launched::UnderWay => {
                    draft.wrote(gained);
                    record.used += count;
                }
                Launched::Short(waits) => {
                    draft.wrote(gained);
                    return Ok(Filled::Short(waits));
                }
                // Another launch was quicker, or the pool is another now: see what is left.
                Launched::PoolRefused { found } => record = *found,
                Launched::ClaimLost | Launched::Exists => return Ok(Filled::ClaimLost),
                Launched::PoolGone => return Ok(Filled::PoolGone),
            }
        }
        Ok(Filled::Whole)
    }
}

pub(crate) fn at_its_maximum(record: &PoolRecord) -> String {
    format!(
        "pool {} is at its maximum: {} of {} slots taken",
        record.pool.name, record.used, record.pool.rules.max
    )
}
