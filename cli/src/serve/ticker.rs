//! Calls refresh again and again, and clears what has expired from the embedded ledger.

use crate::serve::stores::StoreLocation;
use motorpool_control::ports::clock::{Clock, SystemClock};
use motorpool_control::{Caller, Control, SweepWish};
use motorpool_ledger::sqlite::{SqliteLedger, Swept};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

#[derive(Debug)]
pub(super) struct Ticker {
    task: JoinHandle<()>,
    stop: watch::Sender<()>,
}

/// Nobody looks at expired entries: clearing them is housekeeping, a part of the ledger at a time.
const CLEAR_EVERY: Duration = Duration::from_secs(60);
const CLEAR_AT_ONCE: usize = 2_000;

/// Each request sets time limits and drops them again. One that is nearer than all others wakes the thread that waits for the next; with a timer that
/// is always nearer than theirs, none of them does.
const EARLIEST: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub(super) struct Every {
    pub(super) refresh: Duration,
    pub(super) sweep: Duration,
}

pub(super) fn start(control: Arc<Control>, location: StoreLocation, every: Every) -> Ticker {
    let (stop, mut stopped) = watch::channel(());
    let task = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(every.refresh);
        let mut sweeps = tokio::time::interval(every.sweep);
        let mut clearings = tokio::time::interval(CLEAR_EVERY);
        let mut seconds = tokio::time::interval(EARLIEST);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for interval in [&mut ticks, &mut sweeps] {
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        // The first pass sweeps: nobody knows what happened while no serve ran. And so do passes later on, by this process's own
        // count: on a shared ledger others sweep, too, and none of them sees the machines of this host.
        let mut wish = SweepWish::Now;
        loop {
            tokio::select! {
                biased;
                _ = stopped.changed() => return,
                _ = sweeps.tick() => wish = SweepWish::Now,
                _ = ticks.tick() => wish = pass(&control, wish).await,
                _ = seconds.tick() => {}
                _ = clearings.tick() => match &location {
                    StoreLocation::InProcess(ledger) => clear(ledger).await,
                    // DynamoDB does so by itself.
                    #[cfg(feature = "aws")]
                    StoreLocation::OnAws { .. } => {}
                },
            }
        }
    });
    Ticker { task, stop }
}

impl Ticker {
    /// Waits for the pass under way: each of its steps is safe to cut off, but need not be.
    pub(super) async fn stop(self) {
        self.stop.send_replace(());
        if tokio::time::timeout(Duration::from_secs(10), self.task).await.is_err() {
            tracing::warn!("a refresh pass was cut off; the next start goes on where it was");
        }
    }
}

async fn pass(control: &Control, wish: SweepWish) -> SweepWish {
    match control.refresh(&Caller::Operator, wish).await {
        Ok(report) => {
            let calm = report.reaped == 0 && report.launched == 0 && report.announced == 0;
            if calm {
                tracing::debug!(examined = report.examined, swept = report.swept, "refreshed");
            } else {
                tracing::info!(
                    examined = report.examined,
                    reaped = report.reaped,
                    announced = report.announced,
                    launched = report.launched,
                    swept = report.swept,
                    "refreshed"
                );
            }
            SweepWish::IfDue
        }
        Err(refused) => {
            tracing::error!(error = %refused, "a refresh pass failed; the next one tries again");
            wish
        }
    }
}

async fn clear(ledger: &SqliteLedger) {
    match ledger.sweep_expired(SystemClock.now(), CLEAR_AT_ONCE).await {
        Ok(Swept { looked_at, deleted, ended: _ }) => {
            tracing::debug!(looked_at, deleted, "expired entries are cleared from the ledger")
        }
        Err(error) => tracing::warn!(%error, "expired entries could not be cleared from the ledger"),
    }
}
