//! Runs the ledger contract over every adapter: one line each.

use std::sync::Arc;

use anyhow::Result;
use motorpool_ledger::embedded::EmbeddedEngine;
use motorpool_ledger::table::ensure_table;
use motorpool_ledger::{DynamoLedger, MemoryLedger, create_table_on_aws};
use motorpool_tests::contracts::ledger::Opened;
use motorpool_tests::{emulated_aws, ledger_contract};

ledger_contract!(memory, crate::open_memory);
ledger_contract!(embedded_in_memory, crate::open_embedded_in_memory);
ledger_contract!(embedded_on_file, crate::open_embedded_on_file);
ledger_contract!(dynamodb, crate::open_dynamodb);

async fn open_memory(_: String) -> Result<Opened> {
    Ok(Opened { ledger: Arc::new(MemoryLedger::new()), dir: None })
}

async fn open_embedded_in_memory(table: String) -> Result<Opened> {
    Ok(Opened { ledger: over(&EmbeddedEngine::in_memory()?, table).await?, dir: None })
}

async fn open_embedded_on_file(table: String) -> Result<Opened> {
    let dir = tempfile::tempdir()?;
    Ok(Opened { ledger: over(&EmbeddedEngine::open(dir.path())?, table).await?, dir: Some(dir) })
}

async fn open_dynamodb(table: String) -> Result<Opened> {
    let config = emulated_aws::config().await?;
    create_table_on_aws(&config, &table).await?;
    Ok(Opened { ledger: Arc::new(DynamoLedger::on_aws(&config, &table)), dir: None })
}

async fn over(engine: &EmbeddedEngine, table: String) -> Result<Arc<DynamoLedger>> {
    let client = engine.client();
    ensure_table(&client, &table).await?;
    Ok(Arc::new(DynamoLedger::new(client, table)))
}
