//! Starts one command of the operator: shell, user, environment, directory, output pipe. It does not watch it.

use std::io::{self, PipeReader, PipeWriter};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::Pid;
use thiserror::Error;

use super::confinement::{Confinement, RunAs};
use super::environment::{Whose, inherited};
use super::order::Order;
#[cfg(target_os = "linux")]
use super::{init::Entrance, sandbox};

pub(super) const SHELL: &str = "/bin/sh";

/// The variable by which processes of the work are found when their supervisor is gone: `<owner>/<random>`.
pub(super) const MARK: &str = "MOTORPOOL_WORK_ID";

/// A command that was started.
pub(super) struct Started {
    pub(super) pid: Pid,
    /// Where `init` tells how the command ended; it lives on while an orphan does. None: the process is the command itself.
    pub(super) told: Option<PipeReader>,
}

/// Starts the command in a process group of its own. It writes to `output`, which is closed here.
///
/// A job dies with the thread that calls this, so that must be one that lives as long as the supervisor.
pub(super) fn spawn(order: &Order, work_id: &str, output: PipeWriter) -> Result<Started, SpawnError> {
    if !order.cwd.is_dir() {
        return Err(SpawnError::Directory(order.cwd.display().to_string()));
    }
    for name in order.env.keys() {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(SpawnError::VariableName(name.clone()));
        }
    }
    match &order.run_as {
        RunAs::Agent => spawn_as_agent(order, work_id, output),
        RunAs::Job(confinement) => spawn_as_job(order, confinement, work_id, output),
    }
}

fn spawn_as_agent(order: &Order, work_id: &str, output: PipeWriter) -> Result<Started, SpawnError> {
    let also_output = output.try_clone().map_err(SpawnError::Output)?;
    let child = Command::new(SHELL)
        .arg("-c")
        .arg(&order.script)
        .env_clear()
        .envs(inherited(Whose::Agent))
        .envs(&order.env)
        .env(MARK, work_id)
        .current_dir(&order.cwd)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(also_output)
        .process_group(0)
        .spawn()
        .map_err(SpawnError::Shell)?;
    Ok(Started { pid: Pid::from_child(&child), told: None })
}

/// Through this executable's own `enter`, which is given its rights and gives them up itself.
#[cfg(target_os = "linux")]
fn spawn_as_job(
    order: &Order,
    confinement: &Confinement,
    work_id: &str,
    output: PipeWriter,
) -> Result<Started, SpawnError> {
    use std::collections::BTreeMap;
    use std::env;
    use std::io::Write;

    let of_agent = inherited(Whose::Job)
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let own = order.env.clone().into_iter().chain([(MARK.to_owned(), work_id.to_owned())]);
    let env: BTreeMap<String, String> = of_agent.chain(own).collect();
    let (script, cwd) = (order.script.clone(), order.cwd.clone());
    let entrance = Entrance { script, env, cwd, confinement: confinement.clone() };
    let text = serde_json::to_vec(&entrance).map_err(|error| SpawnError::Init(error.into()))?;
    let (told, tells) = io::pipe().map_err(SpawnError::Output)?;
    let mut args: Vec<_> = env::args_os().collect();
    args.pop();
    args.push("enter".into());
    let mut args = args.into_iter();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    // By which others on this host find it, if the supervisor is gone.
    let marks = env::vars_os().filter(|(name, _value)| name == crate::cli::RUNNER_DIR);
    command.args(args).env_clear().envs(marks).env(MARK, work_id).current_dir("/");
    command.stdin(Stdio::piped()).stdout(tells).stderr(output);
    if confinement.sandbox.is_some() {
        sandbox::unshare(rustix::thread::UnshareFlags::NEWPID).map_err(SpawnError::Namespace)?;
    }
    let mut child = command.spawn().map_err(SpawnError::Init)?;
    // Its ends of the pipes are the child's alone from here on.
    drop(command);
    if let Some(mut stdin) = child.stdin.take() {
        // One that has gone meanwhile says why by its end.
        let _gone = stdin.write_all(&text);
    }
    Ok(Started { pid: Pid::from_child(&child), told: Some(told) })
}

#[cfg(not(target_os = "linux"))]
fn spawn_as_job(_: &Order, _: &Confinement, _: &str, _: PipeWriter) -> Result<Started, SpawnError> {
    Err(SpawnError::Init(io::ErrorKind::Unsupported.into()))
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
    #[cfg(target_os = "linux")]
    #[error("no namespace can be made here: {0}")]
    Namespace(#[source] io::Error),
    #[error("the job's first process could not be started: {0}")]
    Init(#[source] io::Error),
}
