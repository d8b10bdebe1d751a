//! The work that runs: at most one task's script and one runner program, each under its supervisor. It decides nothing.

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::fs;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use motorpool_domain::ci::CiSystem;
use motorpool_domain::runner::TaskOutcome;
use motorpool_domain::{Epoch, Label, PoolName, RunnerId, TaskId};
use secrecy::{ExposeSecret, SecretString};

use super::{confine, program, report};
use crate::cli::{RUNNER_DIR, SOCKET};
use crate::clock::BootInstant;
use crate::home::Home;
use crate::http::Server;
use crate::jobs::Jobs;
use crate::machine::{Act, Input, Kind, RunEnd, RunStart, TaskStart};
use crate::work::{End, Order, Outcome, RunAs, RunningWork, SupervisorCommand};
use crate::{guard, program_copy};

const LABEL_PREFIX: &str = "motorpool-";

/// `rm` and `find` follow no link. The second try is for directories that a job made unwritable even for itself. GitHub's
/// program has its work and its diagnoses beside itself; another agent's on the same host may too. Where they are elsewhere, a
/// link of root's leads there, an administrator's; no other is believed, not even at its end. It stays, and what it leads to is emptied. That is for
/// agents whose jobs have no user of their own: where they have, each has a copy of the program, which `EMPTY_JOB_DIRS` removes.
const EMPTY_WORK_DIR: &str = r#"
cd / || exit 1
empty() { find "$1" -mindepth 1 -maxdepth 1 -exec rm -rf -- {} +; }
set -- "$MOTORPOOL_WORK_DIR"
used=$MOTORPOOL_RUNNER_DIR/program-used
if [ -e "$used" ]; then
    for dir in "$MOTORPOOL_PROGRAM_DIR/_work" "$MOTORPOOL_PROGRAM_DIR/_diag"; do
        if [ -n "$(find "$dir" -prune -type l -user 0 2>/dev/null)" ]; then
            to=$(readlink "$dir")
            case $to in /*) ;; *) to=$MOTORPOOL_PROGRAM_DIR/$to ;; esac
            if [ -L "$to" ]; then
                rm -f -- "$to" || exit 1
            elif [ -d "$to" ]; then
                empty "$to" 2>/dev/null || {
                    find "$to" -type d ! -perm -700 -exec chmod u+rwx {} \;
                    empty "$to" || exit 1
                }
            fi
        else
            set -- "$@" "$dir"
        fi
    done
fi
for dir; do
    rm -rf -- "$dir" 2>/dev/null || {
        find "$dir" -type d ! -perm -700 -exec chmod u+rwx {} \;
        rm -rf -- "$dir" || exit 1
    }
done
rm -f -- "$used"
mkdir -m 700 -- "$MOTORPOOL_WORK_DIR"
"#;

/// Where the directories of jobs are, for what follows.
const JOBS_DIR: &str = "MOTORPOOL_JOBS_DIR";

/// What jobs have of their own beside the work directory, before any other cleanup; no link is followed.
const EMPTY_JOB_DIRS: &str = r#"
rm -rf -- "$MOTORPOOL_JOBS_DIR/home" "$MOTORPOOL_JOBS_DIR/tmp" "$MOTORPOOL_JOBS_DIR/program" || exit 1
"#;

/// A program that does not tell its version in this time is not waited for.
const VERSION_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(super) struct Works {
    place: Place,
    supervisor: SupervisorCommand,
    task: Option<(TaskId, Kind, RunningWork)>,
    run: Option<Run>,
    version: Option<RunningWork>,
    /// How many processes of all work so far could not be killed.
    left_behind: usize,
    /// Ends of what never began.
    ended: VecDeque<Input>,
}

/// Where work runs, and as whom.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) home: Home,
    /// None: jobs are the agent's own user's.
    pub(super) jobs: Option<Jobs>,
    pub(super) program_dir: PathBuf,
    pub(super) owner: String,
    /// What every command gets.
    pub(super) env: BTreeMap<String, String>,
}

/// Whose a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// It prepares the machine for jobs, or after them. It may need the agent's rights, and so runs nothing that a job could have left.
    Operator,
    /// It is a job, or beside one.
    Job,
}

impl Whose {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Prepare | Kind::Cleanup | Kind::Reset | Kind::Readiness => Self::Operator,
            Kind::Register | Kind::Deregister => Self::Job,
        }
    }
}

#[derive(Debug)]
struct Run {
    work: RunningWork,
    system: Option<CiSystem>,
    /// Which its output is told without.
    secret: Option<SecretString>,
}

/// What every script of this agent gets. Nothing in it is secret.
pub(super) fn environment(
    runner: &RunnerId,
    pool: &PoolName,
    server: &Server,
    home: &Home,
    program_dir: &Path,
    socket: Option<&Path>,
) -> BTreeMap<String, String> {
    let work_dir = home.work_dir().to_string_lossy().into_owned();
    let socket = socket.map(|socket| (SOCKET, socket.to_string_lossy().into_owned()));
    [
        ("MOTORPOOL_RUNNER", runner.to_string()),
        ("MOTORPOOL_POOL", pool.to_string()),
        ("MOTORPOOL_SERVER", server.as_str().to_owned()),
        ("MOTORPOOL_WORK_DIR", work_dir),
        (RUNNER_DIR, home.dir().to_owned()),
        (program::PROGRAM_DIR, program_dir.to_string_lossy().into_owned()),
    ]
    .into_iter()
    .chain(socket)
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

impl Works {
    pub(super) fn new(place: Place, supervisor: SupervisorCommand, left_behind: usize) -> Self {
        let (task, run, version, ended) = (None, None, None, VecDeque::new());
        Self { place, supervisor, task, run, version, left_behind, ended }
    }

    pub(super) async fn start_task(&mut self, start: TaskStart) {
        let TaskStart { id, kind, act, label, epoch, timeout, fence_at, env } = start;
        self.end_version().await;
        tracing::info!(task = %id, kind = kind.as_str(), "a task begins");
        if kind.cleans() && self.left_behind > 0 {
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
        let script = match (kind, &self.place.jobs) {
            (Kind::Cleanup | Kind::Reset, Some(_)) => format!("{EMPTY_JOB_DIRS}{script}"),
            // A machine may need a while, as after a restart of what runs on it; the task's time-out ends this.
            (Kind::Readiness, _) => format!("until (\n{script}\n); do sleep 1; done"),
            (Kind::Cleanup | Kind::Reset, None) | (Kind::Prepare | Kind::Register | Kind::Deregister, _) => {
                script
            }
        };
        let order = self.place.order(Whose::of(kind), script, env);
        let order = Order {
            timeout: Some(timeout),
            fence_at,
            ..self.place.named(order, kind.as_str(), label.as_ref(), epoch)
        };
        match self.start(order).await {
            Ok(work) => self.task = Some((id, kind, work)),
            Err(outcome) => {
                let outcome = report::outcome(&outcome);
                self.ended.push_back(Input::TaskEnded { task: id, outcome });
            }
        }
    }

    pub(super) async fn start_run(&mut self, start: RunStart) {
        let RunStart { program, registration, label, epoch, fence_at, env } = start;
        self.end_version().await;
        let name = registration.as_ref().map(|registration| registration.name.as_str());
        tracing::info!(%label, name, "the runner program begins");
        let system = registration.as_ref().map(|registration| registration.system);
        let script = program.or_else(|| system.map(|system| program::command(system).to_owned()));
        if let Some(Err(error)) = self.place.jobs.as_mut().map(Jobs::look_up_groups) {
            tracing::warn!(error = &error as &dyn Error, "the groups of the jobs' user stay as they were");
        }
        let order = self.place.order(Whose::Job, script.unwrap_or_default(), env);
        let mut order = Order { fence_at, ..self.place.named(order, "run", Some(&label), epoch) };
        for (name, value) in registration.iter().flat_map(|it| program::environment(it, &order.cwd)) {
            order.env.insert(name.to_owned(), value);
        }
        let secret = registration.map(|registration| registration.secret.into());
        if system.is_some_and(program::works_beside_itself)
            && self.place.jobs.is_none()
            && let Err(error) = fs::write(self.place.home.program_used_file(), "")
        {
            tracing::warn!(%error, "what the runner program leaves beside itself may not be cleaned");
        }
        match self.start_with_program(order).await {
            Ok(work) => self.run = Some(Run { work, system, secret }),
            Err(outcome) => {
                let end = self.run_end(outcome, system, secret.as_ref());
                self.ended.push_back(Input::RunEnded(end));
            }
        }
    }

    /// Asks the runner program for its version, if it is there. `ProgramFound` follows, unless it does not tell. Says whether it was asked: not while
    /// a copy of the program is in use, or being removed, since it is asked in a copy that is made for it.
    pub(super) async fn find_version(&mut self) -> bool {
        if self.place.jobs.is_some() && (self.run.is_some() || self.task.is_some()) {
            return false;
        }
        let Some(script) = program::version_command(&self.place.program_dir) else { return true };
        let order = self.place.order(Whose::Job, script.to_owned(), BTreeMap::new());
        let order = Order { timeout: Some(VERSION_TIMEOUT), ..order };
        self.end_version().await;
        // Of the program as it was installed: what a job made of its own copy is not to be run again.
        match self.start_with_program(order).await {
            Ok(work) => self.version = Some(work),
            Err(outcome) => untold(&outcome),
        }
        true
    }

    /// Where the program is a copy, which is made anew for each run and removed by each cleanup, nobody is left in it: one that is still asked for its
    /// version is asked no more, and is gone.
    async fn end_version(&mut self) {
        if self.place.jobs.is_none() {
            return;
        }
        let Some(work) = self.version.take() else { return };
        work.stop(Duration::ZERO);
        untold(&work.outcome().await);
    }

    pub(super) fn stop_task(&self, grace: Duration) {
        if let Some((id, _kind, work)) = &self.task {
            tracing::info!(task = %id, ?grace, "the task is told to end");
            work.stop(grace);
        }
    }

    pub(super) fn stop_run(&self, grace: Duration) {
        if let Some(run) = &self.run {
            tracing::info!(?grace, "the runner program is told to end");
            run.work.stop(grace);
        }
    }

    pub(super) fn renew_fence(&self, at: BootInstant) {
        let task = self.task.as_ref().map(|(_id, _kind, work)| work);
        for work in task.into_iter().chain(self.run.as_ref().map(|run| &run.work)) {
            work.fence_at(at);
        }
    }

    /// Returns when some work is over and its processes are gone. Safe to cancel.
    pub(super) async fn next_end(&mut self) -> Input {
        if let Some(input) = self.ended.pop_front() {
            return input;
        }
        loop {
            tokio::select! {
                outcome = outcome_of(self.task.as_ref().map(|(_id, _kind, work)| work)) => {
                    self.left_behind = self.left_behind.saturating_add(outcome.left_behind);
                    if let Some((task, kind, _work)) = self.task.take() {
                        let how = report::one_line(&outcome);
                        tracing::info!(%task, kind = kind.as_str(), how, "a task has ended");
                        return Input::TaskEnded { task, outcome: report::outcome(&outcome) };
                    }
                }
                outcome = outcome_of(self.run.as_ref().map(|run| &run.work)) => {
                    self.left_behind = self.left_behind.saturating_add(outcome.left_behind);
                    if let Some(Run { work: _, system, secret }) = self.run.take() {
                        return Input::RunEnded(self.run_end(outcome, system, secret.as_ref()));
                    }
                }
                outcome = outcome_of(self.version.as_ref()) => {
                    self.left_behind = self.left_behind.saturating_add(outcome.left_behind);
                    self.version = None;
                    match program::version(&outcome.output.text).filter(|_| outcome.succeeded()) {
                        Some(version) => return Input::ProgramFound { version },
                        None => untold(&outcome),
                    }
                }
            }
        }
    }

    fn run_end(
        &self,
        mut outcome: Outcome,
        system: Option<CiSystem>,
        secret: Option<&SecretString>,
    ) -> RunEnd {
        if let Some(secret) = secret {
            outcome.output.text = program::without(secret.expose_secret(), &outcome.output.text);
        }
        for name in system.map(program::leftovers).unwrap_or_default() {
            match fs::remove_file(self.place.used_program_dir().join(name)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!(name, %error, "what the runner program left could not be deleted")
                }
            }
        }
        let how = report::one_line(&outcome);
        tracing::info!(how, "the runner program has ended");
        RunEnd { well: outcome.succeeded(), how }
    }

    /// Each begins with the program as it was installed, and with the metadata service closed, where there may be one.
    async fn start_with_program(&self, order: Order) -> Result<RunningWork, Outcome> {
        if let Some(jobs) = &self.place.jobs {
            let (program, copy) = (self.place.program_dir.clone(), self.place.home.program_copy_dir());
            let (uid, gid) = (jobs.user.uid, jobs.user.gid);
            let renewed =
                tokio::task::spawn_blocking(move || program_copy::renew(&program, &copy, uid, gid)).await;
            if let Err(error) = renewed.map_err(io::Error::other).flatten() {
                return Err(could_not_start(format!(
                    "its copy of the runner program could not be made: {error}"
                )));
            }
            if jobs.on_ec2
                && let Err(why) = guard::close_metadata(jobs.guarded).await
            {
                return Err(could_not_start(format!("the metadata service is open to it: {why}")));
            }
        }
        self.start(order).await
    }

    async fn start(&self, order: Order) -> Result<RunningWork, Outcome> {
        self.place
            .make_dirs()
            .map_err(|error| could_not_start(format!("the work directory could not be made: {error}")))?;
        self.supervisor.start(order).await.map_err(|error| could_not_start(error.to_string()))
    }
}

impl Place {
    /// Without limits, log and name.
    fn order(&self, whose: Whose, script: String, of_pool: BTreeMap<String, String>) -> Order {
        let mut env = of_pool;
        env.extend(self.env.clone());
        let (run_as, cwd) = match (whose, &self.jobs) {
            (_, None) => (RunAs::Agent, self.home.work_dir()),
            // Not where a job could have left a file that goes by the name of a command.
            (Whose::Operator, Some(_)) => {
                // A search path of the jobs' would have root run what a job left.
                env.clone_from(&self.env);
                let jobs_dir = self.home.jobs_dir().to_string_lossy().into_owned();
                env.insert(JOBS_DIR.to_owned(), jobs_dir);
                (RunAs::Agent, PathBuf::from(self.home.dir()))
            }
            (Whose::Job, Some(jobs)) => {
                for (name, value) in confine::environment(&self.home, jobs) {
                    env.entry(name).or_insert(value);
                }
                let program = self.used_program_dir().to_string_lossy().into_owned();
                env.insert(program::PROGRAM_DIR.to_owned(), program);
                (RunAs::Job(jobs.confinement(&self.home)), self.home.work_dir())
            }
        };
        let owner = self.owner.clone();
        Order { owner, script, env, cwd, run_as, timeout: None, fence_at: None, log_path: None }
    }

    /// With its log, and with what it is for.
    fn named(&self, mut order: Order, name: &str, label: Option<&Label>, epoch: Epoch) -> Order {
        order.env.insert("MOTORPOOL_EPOCH".to_owned(), epoch.to_string());
        if let Some(label) = label {
            let claim = label.as_str().strip_prefix(LABEL_PREFIX).unwrap_or(label.as_str());
            order.env.insert("MOTORPOOL_CLAIM".to_owned(), claim.to_owned());
            order.env.insert("MOTORPOOL_LABEL".to_owned(), label.to_string());
        }
        Order { log_path: Some(self.home.logs_dir().join(format!("{name}.log"))), ..order }
    }

    /// Where the program is that a job runs.
    fn used_program_dir(&self) -> PathBuf {
        match self.jobs {
            Some(_) => self.home.program_copy_dir(),
            None => self.program_dir.clone(),
        }
    }

    fn make_dirs(&self) -> io::Result<()> {
        match &self.jobs {
            Some(jobs) => self.home.make_job_dirs(jobs.user.uid, jobs.user.gid, jobs.sandboxed),
            None => self.home.make_work_dir(),
        }
    }
}

fn could_not_start(message: String) -> Outcome {
    Outcome { end: End::CouldNotStart { message }, output: Default::default(), left_behind: 0 }
}

fn untold(outcome: &Outcome) {
    tracing::debug!(how = report::one_line(outcome), "the runner program did not tell its version");
}

async fn outcome_of(work: Option<&RunningWork>) -> Outcome {
    match work {
        Some(work) => work.outcome().await,
        None => pending().await,
    }
}
