//! Every adapter that is built, opened empty: each call gives a ledger of its own.

#[cfg(feature = "dynamodb")]
mod dynamodb;
#[cfg(feature = "dynamodb")]
mod emulator;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "dynamodb")]
pub(crate) use dynamodb::dynamodb;
#[cfg(feature = "sqlite")]
pub(crate) use sqlite::sqlite;

use anyhow::Result;
use futures_util::future::BoxFuture;
use motorpool_control::ports::ledger::Ledger;
use motorpool_domain::Timestamp;
use motorpool_ledger::MemoryLedger;
use std::sync::Arc;
use tempfile::TempDir;

/// Hands the name of each adapter to `$then!`.
macro_rules! each_adapter {
    ($then:ident) => {
        $then!(memory);
        #[cfg(feature = "sqlite")]
        $then!(sqlite);
        #[cfg(feature = "dynamodb")]
        $then!(dynamodb);
    };
}
pub(crate) use each_adapter;

pub(crate) type Shared = Arc<dyn Ledger>;
type Sweep = Box<dyn Fn(Timestamp) -> BoxFuture<'static, Result<()>> + Send + Sync>;

pub(crate) struct Opened {
    pub(crate) ledger: Shared,
    sweep: Option<Sweep>,
    /// Lives as long as the ledger does.
    _dir: Option<TempDir>,
}

impl Opened {
    /// Deletes what need not be kept at `now`; not where the store does so by itself, in its own time.
    #[allow(dead_code, reason = "not every suite sweeps")]
    pub(crate) async fn sweep(&self, now: Timestamp) -> Result<bool> {
        match &self.sweep {
            Some(sweep) => sweep(now).await.map(|()| true),
            None => Ok(false),
        }
    }
}

pub(crate) async fn memory() -> Result<Opened> {
    let ledger = Arc::new(MemoryLedger::new());
    let swept = Arc::clone(&ledger);
    let sweep: Sweep = Box::new(move |now| {
        swept.sweep_expired(now);
        Box::pin(std::future::ready(Ok(())))
    });
    Ok(Opened { ledger, sweep: Some(sweep), _dir: None })
}
