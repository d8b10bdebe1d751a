//! Waiting for what must come. No test asserts how long it took; one that waits in vain says for what.

use anyhow::{Result, bail};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Only something that hangs takes so long.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Asks until there is an answer.
pub async fn until<T>(what: &str, ask: impl AsyncFn() -> Result<Option<T>>) -> Result<T> {
    let asking = async {
        loop {
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
            sleep(Duration::from_millis(30)).await;
        }
    };
    match timeout(PATIENCE, asking).await {
        Ok(answer) => answer,
        Err(_) => bail!("waited {} s in vain until {what}", PATIENCE.as_secs()),
    }
}
