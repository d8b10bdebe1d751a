//! The agent's side: starts a supervisor, passes on renewals and stops, and waits for its report. It reads no process
//! table itself, except when a supervisor is lost.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Pid;
use serde::Serialize;
use thiserror::Error;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use super::environment::{Whose, inherited};
use super::order::{Begin, End, Message, Order, Outcome};
use super::tree::{self, Mark, Tree};
use crate::clock::{BootClock, BootInstant};

const REPORT_BYTES: u64 = 1024 * 1024;
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// How long after its last deadline a supervisor may take to kill and report, before it counts as hung. Longer than
/// its kill passes and its wait for output together.
const PATIENCE: Duration = Duration::from_secs(30);

const SWEEP_PASSES: u32 = 40;
const SWEEP_PAUSE: Duration = Duration::from_millis(250);

/// How to start the supervisor: a program and all its arguments, such as `motorpool agent supervise`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupervisorCommand {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// By which others on the host can tell whose it is.
    pub env: Vec<(OsString, OsString)>,
}

impl SupervisorCommand {
    /// This very executable, also after its file was replaced by an upgrade. `prefix` is what comes before `supervise`:
    /// nothing for `motorpool-agent`, `agent` for `motorpool`.
    pub fn this_executable<I>(prefix: I) -> io::Result<Self>
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        let program = if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { env::current_exe()? };
        let args = prefix.into_iter().map(Into::into).chain([OsString::from("supervise")]).collect();
        Ok(Self { program, args, env: Vec::new() })
    }

    /// Starts a supervisor and gives it its order. Whether the command itself could start is told by the outcome.
    pub async fn start(&self, order: Order) -> Result<RunningWork, StartError> {
        let timeout_at = order.timeout.map(|timeout| BootClock.now() + timeout);
        let wants = Wants { fence_at: order.fence_at, stop: None };
        let work_id = format!("{}/{:016x}", order.owner, rand::random::<u64>());
        let line = json_line(&Begin { work_id: work_id.clone(), order }).map_err(StartError::Encode)?;
        let mut child =
            self.spawn().map_err(|source| StartError::Spawn { program: self.program.clone(), source })?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(StartError::Send(io::ErrorKind::BrokenPipe.into()));
        };
        // If this fails, stdin is closed: a supervisor that has no whole order ends without starting anything.
        send(&mut stdin, &line).await.map_err(StartError::Send)?;
        let (wants_sender, wants_receiver) = watch::channel(wants);
        let (outcome_sender, outcome) = watch::channel(None);
        let follower = Follower { child, stdin: Some(stdin), work_id, timeout_at, sent: wants };
        tokio::spawn(async move {
            let outcome = follower.follow(stdout, wants_receiver).await;
            // If nobody asks any more, nobody wants to know.
            let _nobody_asks = outcome_sender.send(Some(outcome));
        });
        Ok(RunningWork { wants: wants_sender, outcome })
    }

    fn spawn(&self) -> io::Result<Child> {
        let Self { program, args, env: marks } = self;
        let mut command = Command::new(program);
        // Where it is the same user's, the work may read its supervisor's environment; so what is not for the work is not for the supervisor.
        command.env_clear().envs(inherited(Whose::Agent));
        if let Some(name) = env::args_os().next() {
            command.arg0(name);
        }
        let marks = marks.iter().map(|(name, value)| (name, value));
        command.args(args).envs(marks).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    }
}

#[derive(Debug, Error)]
pub enum StartError {
    #[error("the order could not be written as JSON")]
    Encode(#[source] serde_json::Error),
    #[error("the supervisor {program} could not be started", program = program.display())]
    Spawn { program: PathBuf, source: io::Error },
    #[error("the order could not be sent to the supervisor")]
    Send(#[source] io::Error),
}

/// Work under a supervisor. Dropping it kills the work.
#[derive(Debug)]
pub struct RunningWork {
    wants: watch::Sender<Wants>,
    outcome: watch::Receiver<Option<Outcome>>,
}

impl RunningWork {
    /// Moves the fence to this instant: the moment at which the request was *sent*, plus what the answer allowed.
    pub fn fence_at(&self, fence_at: BootInstant) {
        self.wants.send_modify(|wants| wants.fence_at = Some(fence_at));
    }

    /// Moves the fence to this time from now.
    pub fn renew_fence(&self, fence_in: Duration) {
        self.fence_at(BootClock.now() + fence_in);
    }

    /// Asks all processes of the work to end (SIGTERM), and kills what is left after `grace`.
    pub fn stop(&self, grace: Duration) {
        self.wants.send_modify(|wants| wants.stop = Some(Stop { grace, asked_at: BootClock.now() }));
    }

    /// Resolves when the whole tree is gone. It borrows nothing, may be dropped and asked for again at any time.
    pub fn outcome(&self) -> impl Future<Output = Outcome> + Send + use<> {
        let mut outcome = self.outcome.clone();
        async move {
            let told = outcome.wait_for(Option::is_some).await;
            told.ok().and_then(|outcome| outcome.clone()).unwrap_or_else(|| {
                let message = "the task that followed it ended early".to_owned();
                Outcome::without_output(End::Lost { message })
            })
        }
    }
}

/// Kills all that earlier agents of this owner left behind, and tells how many could not be killed. To be called at
/// the agent's start, before any work: it finds something only if agent and supervisor were both killed.
pub async fn sweep(owner: &str) -> usize {
    sweep_marked(Mark::AnyOf { owner: owner.to_owned() }).await
}

/// What the supervisor should know. Only the latest counts, so nothing queues up before a frozen supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wants {
    fence_at: Option<BootInstant>,
    stop: Option<Stop>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stop {
    grace: Duration,
    asked_at: BootInstant,
}

/// The task beside one supervisor.
struct Follower {
    child: Child,
    /// `None` when the supervisor has been told to end, by closing it.
    stdin: Option<ChildStdin>,
    work_id: String,
    timeout_at: Option<BootInstant>,
    sent: Wants,
}

impl Follower {
    async fn follow(mut self, stdout: ChildStdout, mut wants: watch::Receiver<Wants>) -> Outcome {
        let mut report = pin!(read_report(stdout));
        let mut deadline = self.deadline();
        let mut overdue = pin!(overdue_after(deadline));
        let reported = loop {
            tokio::select! {
                biased;
                reported = &mut report => break reported,
                changed = wants.changed(), if self.stdin.is_some() => match changed {
                    Ok(()) => {
                        let latest = *wants.borrow_and_update();
                        self.tell(latest).await;
                    }
                    Err(_dropped) => self.stdin = None,
                },
                () = &mut overdue => break Err("it did not end the work in time".to_owned()),
            }
            // Not started afresh while the deadline stays: renewals of the fence must not put off the end of a stop.
            let latest = self.deadline();
            if latest != deadline {
                deadline = latest;
                overdue.set(overdue_after(deadline));
            }
        };
        match reported {
            Ok(outcome) => {
                self.reap().await;
                outcome
            }
            Err(message) => self.clean_up(message).await,
        }
    }

    /// When the work must be over, by what the supervisor was told.
    fn deadline(&self) -> Option<BootInstant> {
        let Wants { fence_at, stop } = self.sent;
        let stop_at = stop.map(|stop| stop.asked_at + stop.grace);
        let closed_at = self.stdin.is_none().then(|| BootInstant::from_boot_ms(0));
        [self.timeout_at, fence_at, stop_at, closed_at].into_iter().flatten().min()
    }

    /// A supervisor that cannot be told is ended by closing its stdin.
    async fn tell(&mut self, latest: Wants) {
        let before = std::mem::replace(&mut self.sent, latest);
        let fence =
            latest.fence_at.filter(|_| latest.fence_at != before.fence_at).map(Message::FenceAtBootMs);
        let stop = latest.stop.filter(|_| latest.stop != before.stop).map(|stop| {
            let left = (stop.asked_at + stop.grace).since(BootClock.now());
            Message::Stop { grace_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX) }
        });
        for message in [fence, stop].into_iter().flatten() {
            let Some(stdin) = &mut self.stdin else { return };
            let sent = match json_line(&message) {
                Ok(line) => send(stdin, &line).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = sent {
                tracing::warn!(work = self.work_id, %error, "the supervisor cannot be told; its work is ended");
                self.stdin = None;
            }
        }
    }

    /// The supervisor has reported and so is about to exit.
    async fn reap(&mut self) {
        if tokio::time::timeout(PATIENCE, self.child.wait()).await.is_err() {
            let _already_gone = self.child.kill().await;
        }
    }

    /// The supervisor is dead or hangs: does its work in its place.
    async fn clean_up(mut self, message: String) -> Outcome {
        // While it lives, even frozen, it keeps the orphans in its tree.
        if let Some(supervisor) = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            let tree = Tree::under(supervisor);
            let _left = in_passes(move || tree.kill()).await;
        }
        let _already_gone = self.child.start_kill();
        let status = match self.child.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let left_behind = sweep_marked(Mark::Work(self.work_id.clone())).await;
        tracing::warn!(
            work = self.work_id,
            message,
            status,
            left_behind,
            "a supervisor was lost, its work is swept"
        );
        let end = End::Lost { message: format!("{message} ({status})") };
        Outcome { left_behind, ..Outcome::without_output(end) }
    }
}

async fn overdue_after(deadline: Option<BootInstant>) {
    match deadline {
        Some(deadline) => {
            BootClock.sleep_until(deadline).await;
            // In running time: after a suspend the supervisor needs its time as we do.
            tokio::time::sleep(PATIENCE).await;
        }
        None => std::future::pending().await,
    }
}

async fn read_report(stdout: ChildStdout) -> Result<Outcome, String> {
    let mut line = String::new();
    match BufReader::new(stdout.take(REPORT_BYTES)).read_line(&mut line).await {
        Ok(0) => Err("it ended without a report".to_owned()),
        Ok(_) => {
            serde_json::from_str(&line).map_err(|error| format!("its report was not understood: {error}"))
        }
        Err(error) => Err(format!("its report could not be read: {error}")),
    }
}

async fn sweep_marked(mark: Mark) -> usize {
    in_passes(move || tree::kill_marked(&mark)).await
}

/// Repeats a kill pass until it finds nothing, and tells how many the last one found.
async fn in_passes(pass: impl Fn() -> usize + Send + 'static) -> usize {
    let passes = tokio::task::spawn_blocking(move || {
        let mut found = pass();
        for _again in 1..SWEEP_PASSES {
            if found == 0 {
                break;
            }
            std::thread::sleep(SWEEP_PAUSE);
            found = pass();
        }
        found
    });
    // Only a panic or the runtime's end stops it early; then nobody knows what is left.
    passes.await.unwrap_or(1)
}

fn json_line(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

async fn send(stdin: &mut ChildStdin, line: &[u8]) -> io::Result<()> {
    tokio::time::timeout(SEND_TIMEOUT, stdin.write_all(line)).await?
}
