//! AWS for tests: whatever listens at `MOTORPOOL_AWS_ENDPOINT`, ministack or any other that is like LocalStack. All tests share it, so each
//! uses names of its own. It starts nothing: `cargo xtask` does.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use anyhow::{Context, Result};
use aws_types::SdkConfig;

const ENDPOINT: &str = "MOTORPOOL_AWS_ENDPOINT";

/// The endpoint, or the sentence that says how to get one: a test that is left out in silence proves nothing.
pub fn endpoint() -> Result<String> {
    std::env::var(ENDPOINT).ok().filter(|endpoint| !endpoint.is_empty()).with_context(|| {
        format!(
            "this test needs an AWS emulator, and ${ENDPOINT} does not name one: `cargo xtask test` brings its own; \
             for a test by hand, run `cargo xtask aws` and export what it prints"
        )
    })
}

pub async fn config() -> Result<SdkConfig> {
    Ok(motorpool_aws::emulated(&endpoint()?).await)
}

/// Random, since those of an earlier run may still be there. Short: a queue's name has other parts, too.
pub fn fresh_name(what: &str) -> String {
    format!("{what}-{:08x}", RandomState::new().hash_one(std::process::id()) >> 32)
}
