//! The embedded ledger, in a directory of its own.

use super::{Opened, Sweep};
use anyhow::Result;
use motorpool_ledger::sqlite::SqliteLedger;
use std::sync::Arc;

pub(crate) async fn sqlite() -> Result<Opened> {
    const AT_ONCE: usize = 1_000;
    let dir = tempfile::tempdir()?;
    let ledger = Arc::new(SqliteLedger::open(dir.path())?);
    let swept = Arc::clone(&ledger);
    let sweep: Sweep = Box::new(move |now| {
        let ledger = Arc::clone(&swept);
        Box::pin(async move {
            ledger.sweep_expired(now, AT_ONCE).await?;
            Ok(())
        })
    });
    Ok(Opened { ledger, sweep: Some(sweep), _dir: Some(dir) })
}
