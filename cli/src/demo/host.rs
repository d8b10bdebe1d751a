//! The demo's own `serve`, in a directory of its own: started, spied on, and stopped.

use super::litter::RUN_CMD;
use crate::errors::Failure;
use motorpool_domain::RunnerId;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

const STARTS_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Host {
    dir: TempDir,
    serve: Child,
    url: String,
}

impl Host {
    /// Without cleaning, the pool gives its runners on as they are.
    pub(super) async fn start(verbose: bool, without_cleaning: bool) -> Result<Self, Failure> {
        let dir =
            TempDir::with_prefix("motorpool-demo-").map_err(|error| cannot("make a directory", &error))?;
        let clean = if without_cleaning { "keep" } else { "cleanup" };
        let file = dir.path().join("pools.toml");
        std::fs::write(&file, pools(clean)).map_err(|error| cannot("write the pools file", &error))?;
        let log = if verbose {
            Stdio::inherit()
        } else {
            let log = File::create(dir.path().join("serve.log"));
            Stdio::from(log.map_err(|error| cannot("make the log", &error))?)
        };
        let program = std::env::current_exe().map_err(|error| cannot("find this program", &error))?;
        let mut serve = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data_dir(dir.path()))
            .arg("--pools")
            .arg(&file)
            .env_remove("MOTORPOOL_ADMIN_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| cannot("start serve", &error))?;
        let stdout = serve.stdout.take().ok_or_else(|| Failure::failed("serve has no stdout", ""))?;
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(STARTS_WITHIN, lines.next_line()).await;
        let url = line.ok().and_then(Result::ok).flatten();
        let url = url.as_deref().and_then(|line| line.strip_prefix("listening on ")).map(str::to_owned);
        let Some(url) = url else {
            let log = std::fs::read_to_string(dir.path().join("serve.log")).unwrap_or_default();
            return Err(Failure::failed(
                format!("serve did not start: {}", log.trim()),
                "run the demo with --verbose",
            ));
        };
        Ok(Self { dir, serve, url })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn token_file(&self) -> PathBuf {
        data_dir(self.dir.path()).join("admin-token")
    }

    /// Ends an agent as a power cut would.
    pub(super) fn kill_agent(&self, runner: &RunnerId) -> Result<i32, Failure> {
        let pid =
            self.agent_pid(runner).ok_or_else(|| Failure::failed(format!("{runner} has no agent"), ""))?;
        kill_process(pid, Signal::KILL).map_err(|error| cannot("kill an agent", &error.into()))?;
        Ok(pid.as_raw_nonzero().get())
    }

    /// No process of this runner is left: neither its agent, nor any that has its directory.
    pub(super) fn agent_is_gone(&self, runner: &RunnerId) -> bool {
        let dir = self.runner_dir(runner);
        let Ok(processes) = std::fs::read_dir("/proc") else { return false };
        let has_it = |cwd: PathBuf| cwd.starts_with(&dir);
        !processes.flatten().any(|process| std::fs::read_link(process.path().join("cwd")).is_ok_and(has_it))
            && self.agent_pid(runner).is_none_or(|pid| rustix::process::test_kill_process(pid).is_err())
    }

    /// Lets serve finish, and removes what the demo made unless it is to be kept. A demo that failed leaves no agent either.
    pub(super) async fn stop(&mut self, keep: bool) -> Result<(), Failure> {
        let runners = std::fs::read_dir(data_dir(self.dir.path()).join("runners"));
        for left in runners.into_iter().flatten().flatten() {
            let name = left.file_name().to_string_lossy().into_owned();
            if let Some(pid) = RunnerId::parse(name).ok().and_then(|runner| self.agent_pid(&runner)) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        if let Some(pid) = self.serve.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM).map_err(|error| cannot("stop serve", &error.into()))?;
        }
        let ended = tokio::time::timeout(Duration::from_secs(20), self.serve.wait()).await;
        let status = ended
            .map_err(|_| Failure::failed("serve did not stop when told to", ""))?
            .map_err(|error| cannot("wait for serve", &error))?;
        if keep {
            self.dir.disable_cleanup(true);
            eprintln!("kept: {}", self.dir.path().display());
        }
        if status.success() { Ok(()) } else { Err(Failure::failed(format!("serve ended with {status}"), "")) }
    }

    fn agent_pid(&self, runner: &RunnerId) -> Option<Pid> {
        let text = std::fs::read_to_string(self.runner_dir(runner).join("agent.lock")).ok()?;
        Pid::from_raw(text.trim().parse().ok()?)
    }

    pub(super) fn runner_dir(&self, runner: &RunnerId) -> PathBuf {
        data_dir(self.dir.path()).join("runners").join(runner.as_str())
    }
}

/// Short intervals, so that a lost machine is noticed in seconds. `sleep` stands in for what a new machine takes to get ready.
fn pools(clean: &str) -> String {
    format!(
        r#"
refresh_seconds = 1
sweep_seconds = 5

[pools.demo]
backend = "local"
clean = "{clean}"
max = 4
heartbeat_seconds = 1
pre_runner_cmd = "sleep 2"
run_cmd = '''{RUN_CMD}'''
"#
    )
}

fn data_dir(dir: &Path) -> PathBuf {
    dir.join("data")
}

fn cannot(what: &str, error: &std::io::Error) -> Failure {
    Failure::failed(format!("the demo cannot {what}: {error}"), "")
}
