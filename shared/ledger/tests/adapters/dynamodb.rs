//! The ledger on DynamoDB: an emulator that other tests use too, so each ledger has a table of its own.

use super::Opened;
use anyhow::{Context, Result};
use motorpool_ledger::dynamodb::{DynamoLedger, create_table_on_aws};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

const ENDPOINT: &str = "MOTORPOOL_AWS_ENDPOINT";

pub(crate) async fn dynamodb() -> Result<Opened> {
    let endpoint = std::env::var(ENDPOINT).ok().filter(|endpoint| !endpoint.is_empty());
    let endpoint = endpoint.with_context(|| {
        format!(
            "this test needs an AWS emulator: run `cargo xtask aws`, and export the ${ENDPOINT} it prints"
        )
    })?;
    let config = motorpool_aws::emulated(&endpoint).await;
    let table = fresh_table();
    create_table_on_aws(&config, &table).await?;
    Ok(Opened { ledger: Arc::new(DynamoLedger::on_aws(&config, &table)), sweep: None, _dir: None })
}

/// Random, since the tables of an earlier run may still be there.
fn fresh_table() -> String {
    format!("ledger-{:016x}", RandomState::new().hash_one(std::process::id()))
}
