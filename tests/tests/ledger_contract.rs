//! Runs the contract of the verbs over every adapter: one line each.

use std::sync::Arc;

use anyhow::Result;
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::store::Store;
use motorpool_ledger::MemoryLedger;
use motorpool_ledger::dynamodb::{DynamoLedger, create_table_on_aws};
use motorpool_ledger::sqlite::SqliteLedger;
use motorpool_tests::harness::emulated_aws;
use motorpool_tests::ledger_contract;
use motorpool_tests::suites::contracts::ledger::Opened;

ledger_contract!(memory, crate::open_memory);
ledger_contract!(sqlite, crate::open_sqlite);
ledger_contract!(dynamodb, crate::open_dynamodb);

async fn open_memory(_: String) -> Result<Opened> {
    Ok(Opened { ledger: over(MemoryLedger::new()), dir: None })
}

async fn open_sqlite(_: String) -> Result<Opened> {
    let dir = tempfile::tempdir()?;
    Ok(Opened { ledger: over(SqliteLedger::open(dir.path())?), dir: Some(dir) })
}

async fn open_dynamodb(table: String) -> Result<Opened> {
    let config = emulated_aws::config().await?;
    create_table_on_aws(&config, &table).await?;
    Ok(Opened { ledger: over(DynamoLedger::on_aws(&config, &table)), dir: None })
}

fn over(ledger: impl Ledger + 'static) -> Arc<Store> {
    Arc::new(Store::new(Arc::new(ledger)))
}
