//! For tests of work: orders with a mark of their own, a look at the process table, and an agent in a process of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use motorpool_agent::clock::BootClock;
use motorpool_agent::work::{Order, Outcome, RunAs, RunningWork, SupervisorCommand};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const OVERALL: Duration = Duration::from_secs(60);
const STAND_IN_DIR: &str = "STAND_IN_DIR";

/// One test's directory, and the mark that all its processes carry in their environment or arguments.
pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    pub(crate) mark: String,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mark = format!("mark-{}-{}", std::process::id(), dir.path().file_name().unwrap().display());
        Self { dir, mark }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn order(&self, script: &str) -> Order {
        Order {
            owner: format!("owner-{}", self.mark),
            script: script.to_owned(),
            env: BTreeMap::from([("MARK".to_owned(), self.mark.clone())]),
            cwd: self.dir.path().to_owned(),
            run_as: RunAs::Agent,
            timeout: None,
            fence_at: None,
            log_path: None,
        }
    }

    pub(crate) async fn start(&self, order: Order) -> RunningWork {
        supervisor().start(order).await.unwrap()
    }

    pub(crate) async fn run(&self, order: Order) -> Outcome {
        let work = self.start(order).await;
        within(work.outcome()).await
    }

    pub(crate) fn processes(&self) -> Vec<Pid> {
        processes_with(&self.mark)
    }

    pub(crate) async fn until_file(&self, name: &str) {
        eventually(&format!("{name} is written"), || self.path(name).exists()).await;
    }

    pub(crate) async fn until_gone(&self) {
        eventually("no process of the work is left", || self.processes().is_empty()).await;
    }

    /// A process that starts the order and waits for its outcome, as the agent does.
    pub(crate) fn stand_in(&self, order: &Order, env: &[(&str, &str)]) -> StandIn {
        fs::write(self.path("order.json"), serde_json::to_vec(order).unwrap()).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "agent_stand_in"])
            .env(STAND_IN_DIR, self.dir.path())
            .envs(env.iter().copied())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        StandIn { child }
    }
}

impl Drop for Bench {
    /// A failed test leaves nothing behind either.
    fn drop(&mut self) {
        for pid in self.processes() {
            let _gone = kill_process(pid, Signal::KILL);
        }
    }
}

pub(crate) struct StandIn {
    child: Child,
}

impl StandIn {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The body of the stand-in, in its own process; nothing in any other.
pub(crate) async fn be_stand_in() {
    let Some(dir) = std::env::var_os(STAND_IN_DIR).map(PathBuf::from) else { return };
    let order: Order = serde_json::from_slice(&fs::read(dir.join("order.json")).unwrap()).unwrap();
    let work = supervisor().start(order).await.unwrap();
    let outcome = work.outcome().await;
    fs::write(dir.join("outcome.new"), serde_json::to_vec(&outcome).unwrap()).unwrap();
    fs::rename(dir.join("outcome.new"), dir.join("outcome.json")).unwrap();
}

pub(crate) fn supervisor() -> SupervisorCommand {
    let program = env!("CARGO_BIN_EXE_motorpool-agent").into();
    SupervisorCommand { program, args: vec!["supervise".into()], env: vec![] }
}

/// All processes with this text in their environment or arguments. A zombie has neither.
pub(crate) fn processes_with(text: &str) -> Vec<Pid> {
    let contains = |path: &Path| {
        fs::read(path).is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    };
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| contains(&entry.path().join("environ")) || contains(&entry.path().join("cmdline")))
        .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

pub(crate) fn parent_of(pid: Pid) -> Pid {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    Pid::from_raw(parent.trim().parse().unwrap()).unwrap()
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(OVERALL, future).await.expect("in time")
}

pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up_at = BootClock.now() + OVERALL;
    while !holds() {
        assert!(!give_up_at.passed(BootClock.now()), "gave up waiting until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
