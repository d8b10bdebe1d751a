//! A real `motorpool serve` with a data directory of its own. Whatever becomes of the test, none of its processes outlives it.

use crate::harness::api::Api;
use crate::harness::functions_target::SharedLedger;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

pub const ADMIN_TOKEN: &str = "mp_admin_for_tests_only_0123456789";
/// Of GitHub's webhooks, where they are taken.
pub const WEBHOOK_SECRET: &str = "mp_webhook_for_tests_only_0123456789";

#[derive(Debug)]
pub struct Serve {
    dir: TempDir,
    args: Vec<OsString>,
    environment: Vec<(String, String)>,
    child: Child,
    api: Api,
}

impl Serve {
    pub fn start(pools: &str) -> Result<Self> {
        Self::start_in(fresh_dir()?, pools, Vec::new())
    }

    /// In a directory that may hold something already, with more arguments.
    pub fn start_in(dir: TempDir, pools: &str, args: Vec<OsString>) -> Result<Self> {
        Self::start_with(dir, pools, args, Vec::new())
    }

    /// On a ledger that others have too.
    pub fn start_on(ledger: &SharedLedger, pools: &str) -> Result<Self> {
        let args = ["--ledger", "dynamodb"].map(OsString::from).to_vec();
        Self::start_with(fresh_dir()?, pools, args, ledger.environment_outside()?)
    }

    /// With more arguments, and more in its environment.
    pub fn start_where(pools: &str, args: &[&str], environment: Vec<(String, String)>) -> Result<Self> {
        let args = args.iter().map(OsString::from).collect();
        Self::start_with(fresh_dir()?, pools, args, environment)
    }

    /// All of it together.
    pub fn start_with(
        dir: TempDir,
        pools: &str,
        args: Vec<OsString>,
        environment: Vec<(String, String)>,
    ) -> Result<Self> {
        std::fs::write(dir.path().join("pools.toml"), pools).context("the pools file")?;
        let (child, url) = spawn(dir.path(), "127.0.0.1:0", &args, &environment)?;
        let api = Api::new(url, ADMIN_TOKEN)?;
        Ok(Self { dir, args, environment, child, api })
    }

    pub fn api(&self) -> &Api {
        &self.api
    }

    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("serve.log")).unwrap_or_default()
    }

    /// The end that nobody can prepare for.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().context("SIGKILL to serve")?;
        self.child.wait().context("serve's end")?;
        Ok(())
    }

    /// Starts again where it was: the same data, the same address, which its agents know.
    pub fn start_again(&mut self) -> Result<()> {
        let address = self.api.base().trim_start_matches("http://").to_owned();
        let (child, url) = spawn(self.dir.path(), &address, &self.args, &self.environment)?;
        ensure!(url == self.api.base(), "it listens on {url}");
        self.child = child;
        Ok(())
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("serve's pid")?;
        kill_process(pid, signal).context("a signal to serve")
    }

    /// Asks it to stop, and gives its exit code.
    pub fn stop(&mut self) -> Result<Option<i32>> {
        self.signal(Signal::TERM)?;
        Ok(self.child.wait().context("serve's end")?.code())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn runner_dir(&self, runner: &str) -> PathBuf {
        self.data_dir().join("runners").join(runner)
    }

    pub fn agent_pid(&self, runner: &str) -> Option<Pid> {
        agent_pid(&self.runner_dir(runner))
    }

    pub fn signal_agent(&self, runner: &str, signal: Signal) -> Result<()> {
        let pid = self.agent_pid(runner).with_context(|| format!("{runner} has no agent"))?;
        kill_process(pid, signal).context("a signal to an agent")
    }

    /// Every process that works in this runner's directory: its agent, its agent's supervisors and their work.
    pub fn processes_of(&self, runner: &str) -> Vec<i32> {
        processes_in(&self.runner_dir(runner))
    }

    fn end_agents(&self) {
        let runners = std::fs::read_dir(self.data_dir().join("runners"));
        for runner in runners.into_iter().flatten().flatten() {
            if let Some(pid) = agent_pid(&runner.path()) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.end_agents();
        if std::thread::panicking() {
            eprintln!("--- serve's log ---\n{}", self.log());
        }
    }
}

/// Every process of the agent with this directory: itself, its supervisors and their work.
pub fn processes_in(dir: &Path) -> Vec<i32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mark = format!("MOTORPOOL_RUNNER_DIR={}", dir.display());
    processes
        .flatten()
        .filter_map(|process| {
            let pid: i32 = process.file_name().to_str()?.parse().ok()?;
            let here = std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir));
            let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
            let marked = environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes());
            let agent = agent_pid(dir).is_some_and(|agent| agent.as_raw_nonzero().get() == pid);
            (here || marked || agent).then_some(pid)
        })
        .filter(|pid| !is_zombie(*pid))
        .collect()
}

/// The command under test: the one that `cargo xtask test` built, or else the one beside the test.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("MOTORPOOL_BIN") {
        return Ok(PathBuf::from(path));
    }
    let test = std::env::current_exe().context("this test's own path")?;
    let beside = test.ancestors().nth(2).map(|dir| dir.join("motorpool")).filter(|path| path.exists());
    beside.context("build the command first: `cargo build -p motorpool`, or run `cargo xtask test`")
}

/// A directory for a serve that is not started yet.
pub fn fresh_dir() -> Result<TempDir> {
    TempDir::with_prefix("motorpool-test-").context("a directory for the test")
}

fn spawn(
    dir: &Path,
    listen: &str,
    args: &[OsString],
    environment: &[(String, String)],
) -> Result<(Child, String)> {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(dir.join("serve.log"))?;
    let mut child = Command::new(binary()?)
        .args(["serve", "--listen", listen, "--data-dir"])
        .arg(dir.join("data"))
        .arg("--pools")
        .arg(dir.join("pools.toml"))
        .args(args)
        .env("MOTORPOOL_ADMIN_TOKEN", ADMIN_TOKEN)
        .envs(environment.iter().cloned())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .context("serve could not be started")?;
    let stdout = child.stdout.take().context("serve's stdout")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).context("serve's first line")?;
    match line.trim_end().strip_prefix("listening on ") {
        Some(url) => Ok((child, url.to_owned())),
        None => {
            let _ = child.kill();
            let _ = child.wait();
            bail!(
                "serve did not start: {}",
                std::fs::read_to_string(dir.join("serve.log")).unwrap_or_default()
            )
        }
    }
}

fn agent_pid(dir: &Path) -> Option<Pid> {
    let text = std::fs::read_to_string(dir.join("agent.lock")).ok()?;
    Pid::from_raw(text.trim().parse().ok()?)
}

fn is_zombie(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}
