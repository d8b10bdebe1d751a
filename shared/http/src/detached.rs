//! Work that goes on to its end, whether its caller waits for it or not: a handler whose caller hangs up is dropped where it stands,
//! and what the handler had begun would be left to refresh.

use crate::envelope::Refusal;
use motorpool_control::Refused;
use tracing::Instrument;

/// Runs `work` in a task of its own, and tells what came of it. `what` names the work in the log and to the caller.
pub(crate) async fn run_detached<T: Send + 'static>(
    what: &'static str,
    work: impl Future<Output = Result<T, Refused>> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::spawn(work.in_current_span()).await {
        Ok(done) => Ok(done?),
        Err(error) => {
            tracing::error!(%error, "{what} came to no end");
            Err(Refusal::internal(format!("{what} came to no end"), "try again; the server's log says more"))
        }
    }
}
