//! Ends the host with the operator's command. All work is gone before this is called.

use std::process::{ExitCode, Stdio};
use std::time::Duration;

use tokio::process::Command;

/// A host that was told to power off may take a while, and then takes us with it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A failure is the exit code's: whoever starts the agent again has it try again, since its deadlines are kept on disk.
pub(super) async fn end(command: Option<&str>, why: &str) -> ExitCode {
    let Some(command) = command else {
        tracing::info!(
            why,
            "the runner is over; no command to end its host was given, so only the agent ends"
        );
        return ExitCode::SUCCESS;
    };
    tracing::info!(why, "the runner is over; its host is ended");
    let child = Command::new("/bin/sh").arg("-c").arg(command).stdin(Stdio::null()).status();
    match tokio::time::timeout(PATIENCE, child).await {
        Ok(Ok(status)) if status.success() => ExitCode::SUCCESS,
        Ok(Ok(status)) => {
            tracing::error!(%status, "the command that ends the host failed");
            ExitCode::FAILURE
        }
        Ok(Err(error)) => {
            tracing::error!(%error, "the command that ends the host could not be run");
            ExitCode::FAILURE
        }
        Err(_elapsed) => {
            tracing::error!("the command that ends the host does not end");
            ExitCode::FAILURE
        }
    }
}
