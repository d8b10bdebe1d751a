//! Whether an open incident is over, where nobody has said so: refresh looks at what the incident is about.

use crate::control::Control;
use crate::error::Refused;
use crate::ports::queue::QueueName;
use crate::store::Found;
use motorpool_domain::alert::{Alert, Incident};
use motorpool_domain::pool::{Pool, PoolRecord};
use motorpool_domain::runner::{StateName, is_held_up_by_ci};
use motorpool_domain::{CheckpointName, RunnerId, Timestamp};
use std::time::Duration;

/// What a pass of refresh knows of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PassContext<'a> {
    pub(crate) pools: &'a [PoolRecord],
    /// It came after a gap.
    pub(crate) is_late: bool,
}

/// Who has a copied secret and did not come with it for so long has given up, or was shut out.
const NOT_MISUSED_FOR: Duration = Duration::from_secs(3600);
/// Whoever waits for a machine has it tried again within minutes.
const NOT_REFUSED_FOR: Duration = Duration::from_secs(20 * 60);
/// So many passes that did not find it again, a few minutes at least.
const PASSES_WITHOUT: u32 = 3;
const FEW_MINUTES: Duration = Duration::from_secs(5 * 60);

impl Control {
    pub(super) async fn is_over(
        &self,
        alert: &Alert,
        pass: PassContext<'_>,
        now: Timestamp,
    ) -> Result<bool, Refused> {
        match &alert.incident {
            Incident::RunnerQuarantined { runner } => Ok(!self.is_quarantined(runner).await?),
            Incident::TokenMisused { .. } | Incident::LaunchSecretMisused { .. } => {
                Ok(alert.is_quiet_for(NOT_MISUSED_FOR, now))
            }
            Incident::LaunchRefused { .. } => Ok(alert.is_quiet_for(NOT_REFUSED_FOR, now)),
            Incident::DeadLetters { queue } => match QueueName::parse(queue) {
                Some(queue) => Ok(self.queue.dead_letters(&queue, 1).await?.is_empty()),
                // Of a newer version, which knows it.
                None => Ok(false),
            },
            Incident::StaleCheckpoint { checkpoint } => match CheckpointName::parse(checkpoint) {
                Ok(name) => {
                    Ok(!self.store.checkpoint(&name).await?.is_some_and(|found| found.state.is_active()))
                }
                // Of a newer version, which knows it.
                Err(_) => Ok(false),
            },
            Incident::CiSystemAwaited { pool } => {
                match pass.pools.iter().find(|record| record.pool.name == *pool) {
                    Some(record) => Ok(!self.is_held_up_by_ci(&record.pool, now).await?),
                    None => Ok(true),
                }
            }
            Incident::RefreshLate => Ok(!pass.is_late),
            // From the beginning of time: what was heard lately counts, and not what was excused.
            Incident::MassSilence => {
                let heard = self.count_heartbeats(pass.pools, Timestamp::default(), now).await?;
                Ok(!heard.brake())
            }
            Incident::LedgerUnreadable { .. } => {
                let passes = self.settings.refresh.saturating_mul(PASSES_WITHOUT);
                Ok(alert.is_quiet_for(passes.max(FEW_MINUTES), now))
            }
        }
    }

    async fn is_held_up_by_ci(&self, pool: &Pool, now: Timestamp) -> Result<bool, Refused> {
        let runners = self.all_runners(pool).await?;
        Ok(runners.iter().any(|runner| is_held_up_by_ci(runner, &pool.rules, now)))
    }

    /// A runner whose record can't be read is another version's to judge.
    async fn is_quarantined(&self, runner: &RunnerId) -> Result<bool, Refused> {
        let found = self.store.find_runners(std::slice::from_ref(runner)).await?;
        Ok(found.iter().any(|found| match found {
            Found::Record(runner) => runner.state.name() == StateName::Quarantined,
            Found::Unreadable => true,
            Found::Missing => false,
        }))
    }
}
