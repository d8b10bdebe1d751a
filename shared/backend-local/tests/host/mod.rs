//! A host for tests of the local backend, the stand-in for the agent's program, and what is to be seen of its processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use motorpool_backend_local::{JobUsers, LocalBackend, LocalConfig};
use motorpool_control::ports::backend::{Backend, LaunchError, LaunchOrder, Machine, Ordered};
use motorpool_domain::ladder::{CapacityOption, LaunchCall};
use motorpool_domain::runner::{NewRunner, Presence, Runner};
use motorpool_domain::samples;
use motorpool_domain::{LaunchId, PoolName, RunnerId, Timestamp};
use rustix::process::Pid;
use tempfile::TempDir;

pub(crate) const SITE: &str = "here";
pub(crate) const SECRET: &str = "canary-of-the-launch";

/// Nobody comes near it, unless the machine hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A directory to keep runners in, which goes with the test.
pub(crate) struct Host {
    pub(crate) root: TempDir,
}

impl Host {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { root: TempDir::new()? })
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.root.path().join("data/runners")
    }

    pub(crate) fn dir(&self, runner: &Runner) -> PathBuf {
        self.root().join(runner.id.as_str())
    }

    pub(crate) fn config(&self, manner: &str) -> LocalConfig {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand-in-agent.sh");
        LocalConfig {
            site: SITE.to_owned(),
            program: "sh".into(),
            args: vec![script.into(), manner.into()],
            root: self.root(),
            server_url: "https://127.0.0.1:1".to_owned(),
            ca_file: None,
            insecure_http: false,
            users: JobUsers::Same,
            hidden: Vec::new(),
            has_teams: false,
        }
    }

    pub(crate) fn backend(&self, manner: &str) -> LocalBackend {
        LocalBackend::new(self.config(manner))
    }

    /// The agent's process, once it has its lock and has left the shell behind.
    pub(crate) async fn agent(&self, runner: &Runner) -> Result<Pid> {
        let lock = self.dir(runner).join("agent.lock");
        let mut found = None;
        eventually("an agent has the lock", async || {
            found = pid_in(&lock).ok().filter(|pid| program(*pid) == "sleep");
            Ok(found.is_some())
        })
        .await?;
        found.context("no agent")
    }
}

/// A host, its backend for agents of this manner, and a runner that it could launch.
pub(crate) fn ready(manner: &str) -> Result<(Host, LocalBackend, Runner)> {
    let host = Host::new()?;
    let backend = host.backend(manner);
    Ok((host, backend, runner("small")?))
}

/// The same once the runner is launched, and its agent's process.
pub(crate) async fn running(manner: &str) -> Result<(Host, LocalBackend, Runner, Pid)> {
    let (host, backend, runner) = ready(manner)?;
    launch(&backend, &runner).await?;
    let agent = host.agent(&runner).await?;
    Ok((host, backend, runner, agent))
}

pub(crate) async fn launch_outcome(
    backend: &LocalBackend,
    runner: &Runner,
) -> Result<Result<Machine, LaunchError>> {
    let order = LaunchOrder {
        pool: &samples::pool(runner.pool.as_str(), samples::rules()),
        launch: &runner.launch,
        attempt: &LaunchCall::first(1, CapacityOption::only(runner.offer.clone()), None),
        machines: vec![Ordered { runner: runner.id.clone(), secret: SECRET.to_owned() }],
        launch_secret: String::new(),
    };
    Ok(match backend.launch(&order).await {
        Ok(machines) => Ok(machines.into_iter().next().context("no machine came of it")?),
        Err(error) => Err(error),
    })
}

pub(crate) async fn launch(backend: &LocalBackend, runner: &Runner) -> Result<Machine> {
    Ok(launch_outcome(backend, runner).await??)
}

pub(crate) async fn ended(backend: &LocalBackend, runner: &Runner) -> Result<()> {
    ensure!(backend.ensure_gone(runner).await? == Presence::Gone, "it could not be ended");
    ensure!(backend.describe(runner).await? == Presence::Gone, "it is there again");
    Ok(())
}

pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let poll = async {
        while !holds().await? {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    };
    tokio::time::timeout(PATIENCE, poll).await.with_context(|| format!("not in time: {what}"))?
}

pub(crate) fn pid_in(file: &Path) -> Result<Pid> {
    let text = fs::read_to_string(file)?;
    Pid::from_raw(text.trim().parse()?).context("no process number")
}

/// As a process or as a zombie.
pub(crate) fn exists(pid: Pid) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

pub(crate) fn runs(pid: Pid) -> bool {
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| !environment.is_empty())
}

pub(crate) fn program(pid: Pid) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// Every process that was started for this directory.
pub(crate) fn marked(dir: &Path) -> Result<Vec<Pid>> {
    let mark = format!("MOTORPOOL_RUNNER_DIR={}", dir.display());
    let pids = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids
        .filter_map(Pid::from_raw)
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        })
        .collect())
}

pub(crate) fn provider_id(site: &str, runner: &RunnerId) -> String {
    format!("local:{site}:{runner}")
}

/// As its record is once the launch is noted.
pub(crate) fn runner(pool: &str) -> Result<Runner> {
    static MADE: AtomicU32 = AtomicU32::new(1);
    let n = MADE.fetch_add(1, Ordering::SeqCst);
    let now = Timestamp::from_millis(0);
    let new = NewRunner {
        pool: PoolName::parse(pool)?,
        launch: LaunchId::parse(format!("l-{n}"))?,
        ..samples::new_runner(&format!("r-{n:03}"), now)
    };
    let intent = Runner::intent(new, now);
    Ok(Runner { provider_id: Some(provider_id(SITE, &intent.id)), ..intent })
}
