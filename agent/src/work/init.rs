//! What stands between a supervisor and a job: the first process of the job's namespaces, root still, which becomes nobody else. It sets up what the
//! job sees, starts the job's command as its user, tells once how that ended, and collects orphans until none is left. If it dies, the kernel
//! kills all of its namespace; and it dies with its supervisor.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::thread;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};
use rustix::thread::{Gid, Uid};
use serde::{Deserialize, Serialize};

use super::command::SHELL;
use super::confinement::Confinement;
use super::order::End;
use super::sandbox;
use super::supervisor::command_end;

/// What a job makes can be read by others, as everywhere; the directories above are closed.
const UMASK: u32 = 0o022;

/// What this process is told on stdin, to its end.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entrance {
    pub(super) script: String,
    /// All of the job's environment.
    pub(super) env: BTreeMap<String, String>,
    pub(super) cwd: PathBuf,
    pub(super) confinement: Confinement,
}

/// Runs it in this process, which has no thread yet: the agent's `enter` command. What it has to tell goes to stdout, what the job writes to stderr.
pub fn enter() -> ExitCode {
    let end = match begin() {
        Ok(command) => collect_until(command),
        Err(end) => end,
    };
    let told = tell(&end);
    while !matches!(rustix::process::wait(WaitOptions::empty()), Err(Errno::CHILD)) {}
    if told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn begin() -> Result<Pid, End> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(could_not_start)?;
    rustix::process::setsid().map_err(could_not_start)?;
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text).map_err(could_not_start)?;
    // Not the error's own text: it may quote a value.
    let entrance: Entrance = serde_json::from_slice(&text).map_err(|error| {
        could_not_start(format!("its order was not understood ({:?} error)", error.classify()))
    })?;
    // Before the sandbox: what it makes on the way to the job's directories must be passable for the job.
    rustix::process::umask(Mode::from_raw_mode(UMASK));
    if let Some(sandbox) = &entrance.confinement.sandbox {
        sandbox::enter(sandbox).map_err(could_not_start)?;
    }
    // In a thread of its own, which alone gives up its rights: a job can neither signal nor trace this process.
    thread::spawn(move || spawn(entrance)).join().map_err(|_| could_not_start("it panicked"))?
}

fn spawn(entrance: Entrance) -> Result<Pid, End> {
    let Entrance { script, env, cwd, confinement } = entrance;
    let Confinement { uid, gid, groups, may_gain_privileges, sandbox: _ } = confinement;
    let output = io::stderr().as_fd().try_clone_to_owned().map_err(could_not_start)?;
    let also_output = output.try_clone().map_err(could_not_start)?;
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    let groups: Vec<Gid> = groups.into_iter().map(Gid::from_raw).collect();
    if !may_gain_privileges {
        rustix::thread::set_no_new_privs(true).map_err(could_not_start)?;
    }
    rustix::thread::set_thread_groups(&groups)
        .and_then(|()| rustix::thread::set_thread_res_gid(gid, gid, gid))
        .and_then(|()| rustix::thread::set_thread_res_uid(uid, uid, uid))
        .map_err(|error| could_not_start(format!("it cannot become user {}: {error}", uid.as_raw())))?;
    let child = Command::new(SHELL)
        .arg("-c")
        .arg(script)
        .env_clear()
        .envs(env)
        .current_dir(cwd)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(also_output)
        .process_group(0)
        .spawn()
        .map_err(|error| could_not_start(format!("{SHELL} could not be run in its directory: {error}")))?;
    Ok(Pid::from_child(&child))
}

fn collect_until(command: Pid) -> End {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == command => return command_end(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return End::Lost { message: format!("it could not be waited for: {error}") },
        }
    }
}

/// One line. Nobody else has this pipe.
fn tell(end: &End) -> io::Result<()> {
    let mut line = serde_json::to_vec(end)?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()
}

fn could_not_start(error: impl Display) -> End {
    End::CouldNotStart { message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::chown;

    /// Only root can become somebody else. The thread that does so ends with it.
    #[test]
    fn refuse_21_a_job_is_its_user_gains_nothing_and_has_its_own_environment() {
        const UID: u32 = 50_322;
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        chown(dir.path(), Some(UID), Some(UID)).unwrap();
        let script = "{ id -u; id -g; id -G; grep NoNewPrivs /proc/self/status; env; } >said";
        let env = [("PATH", "/usr/bin:/bin"), ("GREETING", "hello job")];
        let entrance = Entrance {
            script: script.to_owned(),
            env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            cwd: dir.path().to_owned(),
            confinement: Confinement {
                uid: UID,
                gid: UID,
                groups: vec![UID],
                may_gain_privileges: false,
                sandbox: None,
            },
        };
        let job = thread::spawn(move || spawn(entrance)).join().unwrap().unwrap();
        let (_, ended) = rustix::process::waitpid(Some(job), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(ended.exit_status(), Some(0));
        let said = fs::read_to_string(dir.path().join("said")).unwrap();
        let uid = UID.to_string();
        let mut lines = said.lines();
        for expected in [uid.as_str(), &uid, &uid, "NoNewPrivs:\t1"] {
            assert_eq!(lines.next(), Some(expected), "{said}");
        }
        // A shell sets some of its own.
        let own = ["PATH", "GREETING", "PWD", "OLDPWD", "SHLVL", "_"];
        for (name, _value) in lines.filter_map(|line| line.split_once('=')) {
            assert!(own.contains(&name), "{name} in {said}");
        }
        assert!(said.contains("GREETING=hello job"), "{said}");
    }
}
