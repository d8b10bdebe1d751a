//! Attends to runners as notices of them come: what refresh would do as well, but later. It ends with the process.

use motorpool_control::Control;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// How long one look at the queue may wait.
const WAIT: Duration = Duration::from_secs(20);
const AFTER_TROUBLE: Duration = Duration::from_secs(5);

pub(super) fn start(control: Arc<Control>) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            if let Err(error) = control.attend_to_notices(WAIT).await {
                tracing::warn!(%error, "the notices of runners could not be read; refresh attends to them meanwhile");
                sleep(AFTER_TROUBLE).await;
            }
        }
    })
}
