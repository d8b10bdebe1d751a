//! The AWS emulator that all tests share. It starts nothing: `cargo xtask` does.

use anyhow::{Context, Result};
use aws_types::SdkConfig;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

const ENDPOINT: &str = "MOTORPOOL_AWS_ENDPOINT";

pub(crate) async fn config() -> Result<SdkConfig> {
    let endpoint = std::env::var(ENDPOINT).ok().filter(|endpoint| !endpoint.is_empty());
    let endpoint = endpoint.with_context(|| {
        format!(
            "this test needs an AWS emulator, and ${ENDPOINT} does not name one: `cargo xtask test` brings its own; \
             for a test by hand, run `cargo xtask aws` and export what it prints"
        )
    })?;
    Ok(motorpool_aws::emulated(&endpoint).await)
}

/// Random, since those of an earlier run may still be there.
pub(crate) fn fresh_table() -> String {
    format!("ledger-{:016x}", RandomState::new().hash_one(std::process::id()))
}
