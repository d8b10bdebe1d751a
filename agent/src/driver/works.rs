//! The work that runs: at most one task's script and one runner program, each under its supervisor. It decides nothing.

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::time::Duration;

use motorpool_domain::runner::TaskOutcome;
use motorpool_domain::{Epoch, Label, PoolName, RunnerId, TaskId};

use super::report;
use crate::cli::RUNNER_DIR;
use crate::clock::BootInstant;
use crate::home::Home;
use crate::http::Server;
use crate::machine::{Act, Input, Kind, RunStart, TaskStart};
use crate::work::{End, Order, Outcome, RunningWork, SupervisorCommand};

const LABEL_PREFIX: &str = "motorpool-";

/// `rm` and `find` follow no link. The second try is for directories that a job made unwritable even for itself.
const EMPTY_WORK_DIR: &str = r#"
dir=$MOTORPOOL_WORK_DIR
cd / || exit 1
rm -rf -- "$dir" 2>/dev/null || {
    find "$dir" -type d ! -perm -700 -exec chmod u+rwx {} \;
    rm -rf -- "$dir" || exit 1
}
mkdir -m 700 -- "$dir"
"#;

#[derive(Debug)]
pub(super) struct Works {
    home: Home,
    supervisor: SupervisorCommand,
    owner: String,
    env: BTreeMap<String, String>,
    task: Option<(TaskId, Kind, RunningWork)>,
    run: Option<RunningWork>,
    /// How many processes of all work so far could not be killed.
    left_behind: usize,
    /// Ends of what never began.
    ended: VecDeque<Input>,
}

/// What every script of this agent gets. Nothing in it is secret.
pub(super) fn environment(
    runner: &RunnerId,
    pool: &PoolName,
    server: &Server,
    home: &Home,
) -> BTreeMap<String, String> {
    let work_dir = home.work_dir().to_string_lossy().into_owned();
    [
        ("MOTORPOOL_RUNNER", runner.to_string()),
        ("MOTORPOOL_POOL", pool.to_string()),
        ("MOTORPOOL_SERVER", server.as_str().to_owned()),
        ("MOTORPOOL_WORK_DIR", work_dir),
        (RUNNER_DIR, home.dir().to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

impl Works {
    pub(super) fn new(
        home: Home,
        supervisor: SupervisorCommand,
        owner: String,
        env: BTreeMap<String, String>,
        left_behind: usize,
    ) -> Self {
        Self { home, supervisor, owner, env, task: None, run: None, left_behind, ended: VecDeque::new() }
    }

    pub(super) async fn start_task(&mut self, start: TaskStart) {
        let TaskStart { id, kind, act, label, epoch, timeout, fence_at } = start;
        tracing::info!(task = %id, kind = kind.as_str(), "a task begins");
        if kind == Kind::Cleanup && self.left_behind > 0 {
            let why = format!(
                "{} processes of earlier work could not be killed; end them and restart the agent",
                self.left_behind
            );
            self.ended.push_back(Input::TaskEnded { task: id, outcome: TaskOutcome::Failed { why } });
            return;
        }
        let script = match act {
            Act::Script(script) => script,
            Act::EmptyWorkDir => EMPTY_WORK_DIR.to_owned(),
        };
        let name = kind.as_str();
        let order = self.order(name, script, label.as_ref(), epoch, Some(timeout), fence_at);
        match self.start(order).await {
            Ok(work) => self.task = Some((id, kind, work)),
            Err(outcome) => {
                let outcome = report::outcome(&outcome);
                self.ended.push_back(Input::TaskEnded { task: id, outcome });
            }
        }
    }

    pub(super) async fn start_run(&mut self, start: RunStart) {
        let RunStart { program, label, epoch, fence_at } = start;
        tracing::info!(%label, "the runner program begins");
        let order = self.order("run", program, Some(&label), epoch, None, fence_at);
        match self.start(order).await {
            Ok(work) => self.run = Some(work),
            Err(outcome) => {
                tracing::warn!(why = report::one_line(&outcome), "the runner program has ended");
                self.ended.push_back(Input::RunEnded);
            }
        }
    }

    pub(super) fn stop_task(&self, grace: Duration) {
        if let Some((id, _kind, work)) = &self.task {
            tracing::info!(task = %id, ?grace, "the task is told to end");
            work.stop(grace);
        }
    }

    pub(super) fn stop_run(&self, grace: Duration) {
        if let Some(work) = &self.run {
            tracing::info!(?grace, "the runner program is told to end");
            work.stop(grace);
        }
    }

    pub(super) fn renew_fence(&self, at: BootInstant) {
        let task = self.task.as_ref().map(|(_id, _kind, work)| work);
        for work in task.into_iter().chain(&self.run) {
            work.fence_at(at);
        }
    }

    /// Returns when some work is over and its processes are gone. Safe to cancel.
    pub(super) async fn next_end(&mut self) -> Input {
        if let Some(input) = self.ended.pop_front() {
            return input;
        }
        tokio::select! {
            outcome = outcome_of(self.task.as_ref().map(|(_id, _kind, work)| work)) => {
                self.left_behind = self.left_behind.saturating_add(outcome.left_behind);
                match self.task.take() {
                    Some((task, kind, _work)) => {
                        let how = report::one_line(&outcome);
                        tracing::info!(%task, kind = kind.as_str(), how, "a task has ended");
                        Input::TaskEnded { task, outcome: report::outcome(&outcome) }
                    }
                    // There was one a moment ago: its outcome came.
                    None => pending().await,
                }
            }
            outcome = outcome_of(self.run.as_ref()) => {
                self.left_behind = self.left_behind.saturating_add(outcome.left_behind);
                self.run = None;
                tracing::info!(how = report::one_line(&outcome), "the runner program has ended");
                Input::RunEnded
            }
        }
    }

    async fn start(&self, order: Order) -> Result<RunningWork, Outcome> {
        let could_not_start = |message| {
            let end = End::CouldNotStart { message };
            Outcome { end, output: Default::default(), left_behind: 0 }
        };
        self.home
            .make_work_dir()
            .map_err(|error| could_not_start(format!("the work directory could not be made: {error}")))?;
        self.supervisor.start(order).await.map_err(|error| could_not_start(error.to_string()))
    }

    fn order(
        &self,
        name: &str,
        script: String,
        label: Option<&Label>,
        epoch: Epoch,
        timeout: Option<Duration>,
        fence_at: Option<BootInstant>,
    ) -> Order {
        let mut env = self.env.clone();
        env.insert("MOTORPOOL_EPOCH".to_owned(), epoch.to_string());
        if let Some(label) = label {
            let claim = label.as_str().strip_prefix(LABEL_PREFIX).unwrap_or(label.as_str());
            env.insert("MOTORPOOL_CLAIM".to_owned(), claim.to_owned());
            env.insert("MOTORPOOL_LABEL".to_owned(), label.to_string());
        }
        Order {
            owner: self.owner.clone(),
            script,
            env,
            cwd: self.home.work_dir(),
            timeout,
            fence_at,
            log_path: Some(self.home.logs_dir().join(format!("{name}.log"))),
        }
    }
}

async fn outcome_of(work: Option<&RunningWork>) -> Outcome {
    match work {
        Some(work) => work.outcome().await,
        None => pending().await,
    }
}
