//! The ledger on DynamoDB: an emulator that other tests use too, so each ledger has a table of its own.

use super::Opened;
use super::emulator::{config, fresh_table};
use anyhow::Result;
use motorpool_ledger::dynamodb::{DynamoLedger, create_table_on_aws};
use std::sync::Arc;

pub(crate) async fn dynamodb() -> Result<Opened> {
    let (config, table) = (config().await?, fresh_table());
    create_table_on_aws(&config, &table).await?;
    Ok(Opened { ledger: Arc::new(DynamoLedger::on_aws(&config, &table)), sweep: None, _dir: None })
}
