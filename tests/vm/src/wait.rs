//! Waiting for what a machine under emulation does in its own time. A machine that ended before is not waited for.

use crate::machine::Machine;
use anyhow::{Result, bail};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Only something that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(12 * 60);
const PAUSE: Duration = Duration::from_millis(500);

/// Asks until there is an answer.
pub(crate) async fn until<T>(
    what: &str,
    machine: &mut Machine,
    ask: impl AsyncFn() -> Result<Option<T>>,
) -> Result<T> {
    let asking = async {
        loop {
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
            if let Some(status) = machine.ended()? {
                bail!("the machine ended ({status}) before this: {what}");
            }
            sleep(PAUSE).await;
        }
    };
    match timeout(PATIENCE, asking).await {
        Ok(answer) => answer,
        Err(_) => bail!("waited {} s in vain until {what}", PATIENCE.as_secs()),
    }
}
