//! What can go wrong here, each with what was attempted. What to do about it is the caller's.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use motorpool_control::ports::backend::BackendError;
use motorpool_domain::RunnerId;
use rustix::io::Errno;
use tokio::task::JoinError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{} could not be {attempted}", path.display())]
    File { path: PathBuf, attempted: &'static str, source: io::Error },
    #[error("process {pid} could not be signalled")]
    Signal { pid: i32, source: Errno },
    #[error("the agent's program {} could not be started", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("some process of {runner} is still there")]
    StillThere { runner: RunnerId },
    #[error("every user of --job-uids has a runner already")]
    NoUser,
    #[error("a step on the file system was broken off")]
    Step(#[from] JoinError),
}

impl Failure {
    pub(crate) fn while_trying(self, attempted: String) -> BackendError {
        BackendError { attempted, source: Box::new(self) }
    }

    /// With its cause, for a log line.
    pub(crate) fn in_full(&self) -> String {
        match self.source() {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

/// For `map_err`: the file that was touched, and how.
pub(crate) fn file(path: &Path, attempted: &'static str) -> impl FnOnce(io::Error) -> Failure {
    let path = path.to_owned();
    move |source| Failure::File { path, attempted, source }
}

/// Runs `step` where it may block.
pub(crate) async fn blocking<T: Send + 'static>(
    step: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    Ok(tokio::task::spawn_blocking(step).await?)
}
