//! `refresh`: finds what is due and decides; with the sweep, it alone heals everything. Safe to run at any time, by anybody, at once.

mod budget;
mod due;
mod sweep;
mod top_up;

use crate::alert::PassContext;
use crate::caller::Caller;
use crate::control::Control;
use crate::error::Refused;
use motorpool_domain::Timestamp;
use motorpool_domain::alert::Incident;
use motorpool_domain::pool::PoolRecord;
use motorpool_domain::refresh::RefreshMemory;
use motorpool_wire::api::RefreshReport;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepWish {
    IfDue,
    Now,
}

impl Control {
    pub async fn refresh(&self, caller: &Caller, wish: SweepWish) -> Result<RefreshReport, Refused> {
        caller.must_be_operator("refresh")?;
        let now = self.now();
        let memory = self.store.refresh_memory().await?;
        let listening_since = RefreshMemory::listening_since(memory, self.settings.refresh, now);
        let is_late = self.raise_if_late(memory, now).await;
        let pools = self.store.pools().await?;
        let mut report = RefreshReport::default();
        let pass = PassContext { pools: &pools, is_late };
        self.due_pass(pass, listening_since, &mut report).await?;
        for record in &pools {
            let pool = format!("pool {}", record.pool.name);
            self.heal(&pool, self.reconcile_waiting(record).await);
            self.heal(&pool, self.top_up(record, &mut report).await);
        }
        let RefreshMemory { last_sweep_at, rev, .. } = memory.unwrap_or_default();
        let sweep_due = now.since(last_sweep_at) >= self.settings.sweep;
        if wish == SweepWish::Now || sweep_due {
            self.sweep(&pools, &mut report).await?;
        }
        let memory = RefreshMemory {
            // Its end: a pass that took long is no gap.
            last_pass_at: self.now(),
            last_sweep_at: if report.swept { now } else { last_sweep_at },
            // An outage of ours: who comes back when it is over has the same time for it as ever.
            listening_since: if report.braked { now } else { listening_since },
            rev,
        };
        self.store.put_refresh_memory(&memory).await?;
        Ok(report)
    }

    /// For a control plane that is one process, when it starts: heartbeats that could not arrive while it was away were not missed.
    pub async fn begin_listening(&self) -> Result<(), Refused> {
        let now = self.now();
        let memory = self.store.refresh_memory().await?;
        self.raise_if_late(memory, now).await;
        let memory = RefreshMemory { last_pass_at: now, listening_since: now, ..memory.unwrap_or_default() };
        Ok(self.store.put_refresh_memory(&memory).await?)
    }

    /// Whether so many passes were missed that somebody should hear of it.
    async fn raise_if_late(&self, memory: Option<RefreshMemory>, now: Timestamp) -> bool {
        let every = self.settings.refresh;
        let Some(gap) = RefreshMemory::late_by(memory, every, now) else { return false };
        let (gap_s, every_s) = (gap.as_secs(), every.as_secs());
        tracing::warn!(target: "alert", gap_s, every_s, "refresh comes late: what was due had to wait");
        let details = format!("the last pass was {gap_s} s ago, and one should come every {every_s} s");
        self.raise(Incident::RefreshLate, &details, now).await;
        true
    }
}

pub(super) fn find<'a>(pools: &'a [PoolRecord], name: &motorpool_domain::PoolName) -> Option<&'a PoolRecord> {
    pools.iter().find(|record| &record.pool.name == name)
}
