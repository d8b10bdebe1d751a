//! Closes a cloud's metadata service to the users that jobs run as, by the script that `infra/` ships. What it needs is the host's to have.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::jobs::UidRange;

const SCRIPT: &str = include_str!("../../infra/runner/guard.sh");
const PATIENCE: Duration = Duration::from_secs(20);

/// Safe to repeat. The error says why it is not closed.
pub(crate) async fn close_metadata(users: UidRange) -> Result<(), String> {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", SCRIPT])
        .env("MOTORPOOL_JOB_UIDS", users.to_string())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    match tokio::time::timeout(PATIENCE, command.output()).await {
        Ok(Ok(ended)) if ended.status.success() => Ok(()),
        Ok(Ok(ended)) => Err(String::from_utf8_lossy(&ended.stderr).trim().to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_elapsed) => Err("it does not end".to_owned()),
    }
}
