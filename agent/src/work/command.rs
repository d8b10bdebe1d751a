//! Starts one command of the operator: shell, environment, directory, output pipe. It does not watch it.

use std::env;
use std::ffi::OsString;
use std::io::{self, PipeWriter};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::Pid;
use thiserror::Error;

use super::order::Order;

const SHELL: &str = "/bin/sh";
const OWN_PREFIX: &str = "MOTORPOOL_";

/// The variable by which processes of the work are found when their supervisor is gone: `<owner>/<random>`.
pub(super) const MARK: &str = "MOTORPOOL_WORK_ID";

/// Starts the command in a process group of its own. It writes to `output`, which is closed here.
pub(super) fn spawn(order: &Order, work_id: &str, output: PipeWriter) -> Result<Pid, SpawnError> {
    if !order.cwd.is_dir() {
        return Err(SpawnError::Directory(order.cwd.display().to_string()));
    }
    for name in order.env.keys() {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(SpawnError::VariableName(name.clone()));
        }
    }
    let also_output = output.try_clone().map_err(SpawnError::Output)?;
    let mut command = Command::new(SHELL);
    for name in own_variables() {
        command.env_remove(name);
    }
    let child = command
        .arg("-c")
        .arg(&order.script)
        .envs(&order.env)
        .env(MARK, work_id)
        .current_dir(&order.cwd)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(also_output)
        .process_group(0)
        .spawn()
        .map_err(SpawnError::Shell)?;
    Ok(Pid::from_child(&child))
}

/// What the agent was told through its environment is not for the work.
pub(super) fn own_variables() -> impl Iterator<Item = OsString> {
    env::vars_os()
        .map(|(name, _value)| name)
        .filter(|name| name.as_encoded_bytes().starts_with(OWN_PREFIX.as_bytes()))
}

#[derive(Debug, Error)]
pub(super) enum SpawnError {
    #[error("the working directory {0} does not exist or is not a directory")]
    Directory(String),
    #[error("{0:?} cannot be the name of an environment variable")]
    VariableName(String),
    #[error("the pipe for its output could not be doubled: {0}")]
    Output(#[source] io::Error),
    #[error("{SHELL} could not be run: {0}")]
    Shell(#[source] io::Error),
}
