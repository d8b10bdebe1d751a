//! The supervisor: runs one command, watches it, and ends only when its whole tree is gone. It takes its orders from
//! stdin, reports once on stdout, and decides nothing that the agent did not order.

use std::convert::Infallible;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, PipeWriter, Read, Write};
use std::process::ExitCode;
use std::sync::mpsc as std_mpsc;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use super::command::{self, Started};
use super::order::{Begin, End, Message, Order, Outcome};
use super::output::{BoundedLog, Collector};
use super::tree::Tree;
use crate::clock::{BootClock, BootInstant};

const EVENTS: usize = 16;
const LINE_BYTES: u64 = 4 * 1024 * 1024;

/// About fifteen seconds in all. What is left then is not ours to kill, or hangs in the kernel with the kill pending.
const KILL_PASSES: u32 = 64;
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Runs the supervisor in this process: the agent's `supervise` command.
///
/// This process must have no other children. Return from `main` right after it: a thread may still wait on stdin.
pub async fn supervise() -> ExitCode {
    let outcome = run().await.unwrap_or_else(Outcome::without_output);
    match report(&outcome) {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody is there to be told, and the work is gone.
        Err(_) => ExitCode::FAILURE,
    }
}

/// `Err` is an end that came before the command was started.
async fn run() -> Result<Outcome, End> {
    let (sender, mut events) = mpsc::channel(EVENTS);
    become_reaper().map_err(could_not_start)?;
    listen_for_signals(&sender).map_err(could_not_start)?;
    listen_to_agent(sender.clone()).map_err(could_not_start)?;
    let Begin { work_id, order } = first_line(&mut events).await?;
    if order.fence_at.is_some_and(|fence_at| fence_at.passed(BootClock.now())) {
        return Err(End::Fenced);
    }
    let log = match &order.log_path {
        Some(path) => Some(BoundedLog::create(path).map_err(|error| {
            could_not_start(format!("its log {} could not be made: {error}", path.display()))
        })?),
        None => None,
    };
    let (reader, writer) = io::pipe().map_err(could_not_start)?;
    let collector = Collector::start(reader, log).map_err(could_not_start)?;
    let reaper = Reaper::start(sender.clone()).map_err(could_not_start)?;
    let command = start(order.clone(), work_id, writer, sender).await?;
    // From here on nothing fails, and nothing returns before the tree is gone.
    let pid = command.pid;
    reaper.begin(command);
    let mut watch = Watch { tree: Tree::of_command(pid), events, none_left: false };
    let end = watch.until_end(&order).await;
    let left_behind = watch.kill_all().await;
    Ok(Outcome { end, output: collector.finish().await, left_behind })
}

fn could_not_start(error: impl Display) -> End {
    End::CouldNotStart { message: error.to_string() }
}

/// Makes every orphan of the work a child of this process, and lets no signal to the agent's group or terminal come here.
fn become_reaper() -> io::Result<()> {
    rustix::process::setsid()?;
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

enum Event {
    Line(String),
    AgentGone,
    Signal(i32),
    CommandEnded(End),
    /// There is no child left, and so no descendant.
    NoneLeft,
}

/// All signals that would end this process and can be caught: nothing may end it while the tree lives.
fn listen_for_signals(events: &mpsc::Sender<Event>) -> io::Result<()> {
    let kinds = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
        SignalKind::quit(),
        SignalKind::alarm(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ];
    for kind in kinds {
        let mut received = signal(kind)?;
        let events = events.clone();
        tokio::spawn(async move {
            while received.recv().await.is_some() {
                if events.send(Event::Signal(kind.as_raw_value())).await.is_err() {
                    return;
                }
            }
        });
    }
    Ok(())
}

/// A thread of its own, since a blocked read of stdin must not keep the runtime from ending.
fn listen_to_agent(events: mpsc::Sender<Event>) -> io::Result<()> {
    thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut stdin = BufReader::new(io::stdin());
        loop {
            let mut line = String::new();
            let whole = stdin.by_ref().take(LINE_BYTES).read_line(&mut line).is_ok() && line.ends_with('\n');
            let event = if whole { Event::Line(line) } else { Event::AgentGone };
            if events.blocking_send(event).is_err() || !whole {
                return;
            }
        }
    })?;
    Ok(())
}

async fn first_line(events: &mut mpsc::Receiver<Event>) -> Result<Begin, End> {
    match events.recv().await {
        Some(Event::Line(line)) => serde_json::from_str(&line).map_err(|error| {
            // Not the error's own text: it may quote a value.
            could_not_start(format!("its order was not understood ({:?} error)", error.classify()))
        }),
        Some(Event::Signal(signal)) => Err(End::Interrupted { signal }),
        Some(Event::AgentGone | Event::CommandEnded(_) | Event::NoneLeft) | None => Err(End::Abandoned),
    }
}

/// What the reaper waits for.
struct Running {
    pid: Pid,
    /// Ends when all is told that `init` had to tell. None: the process is the command itself.
    told: Option<std_mpsc::Receiver<Infallible>>,
}

/// In a thread of its own, which lives as long as the command: a job dies with it. It passes on what `init` tells.
async fn start(
    order: Order,
    work_id: String,
    output: PipeWriter,
    events: mpsc::Sender<Event>,
) -> Result<Running, End> {
    let (started, start) = oneshot::channel();
    thread::Builder::new()
        .name("command".to_owned())
        .spawn(move || {
            let command = match command::spawn(&order, &work_id, output) {
                Ok(command) => command,
                Err(error) => {
                    // Whoever asked has gone with the supervisor, if it fails.
                    let _nobody_asks = started.send(Err(could_not_start(error)));
                    return;
                }
            };
            let Started { pid, told } = command;
            let (_ends_with_this, all_told) = std_mpsc::channel();
            let running = Running { pid, told: told.is_some().then_some(all_told) };
            let _nobody_asks = started.send(Ok(running));
            for line in told.into_iter().flat_map(|told| BufReader::new(told).lines().map_while(Result::ok)) {
                let end = serde_json::from_str(&line).unwrap_or_else(|_| End::Lost {
                    message: "what it told of its end was not understood".to_owned(),
                });
                let _nobody_listens = events.blocking_send(Event::CommandEnded(end));
            }
        })
        .map_err(could_not_start)?;
    start.await.map_err(could_not_start)?
}

/// A thread that collects every child that ends, the command and the orphans, until there is none.
struct Reaper {
    begin: std_mpsc::Sender<Running>,
}

impl Reaper {
    /// The thread is there before the command is, since afterwards nothing may fail.
    fn start(events: mpsc::Sender<Event>) -> io::Result<Self> {
        let (begin, begun) = std_mpsc::channel();
        thread::Builder::new().name("reaper".to_owned()).spawn(move || {
            let Ok(Running { pid: command, told }) = begun.recv() else { return };
            loop {
                let event = match rustix::process::wait(WaitOptions::empty()) {
                    Ok(Some((pid, status))) if pid == command => {
                        if let Some(told) = &told {
                            // It fails at the end of the thread that holds the other end, and until then it waits.
                            let Err(_all_is_told) = told.recv();
                        }
                        // After what `init` told itself, this one says nothing new.
                        Event::CommandEnded(command_end(status))
                    }
                    Ok(_) | Err(Errno::INTR) => continue,
                    Err(_) => Event::NoneLeft,
                };
                let last = matches!(event, Event::NoneLeft);
                if events.blocking_send(event).is_err() || last {
                    return;
                }
            }
        })?;
        Ok(Self { begin })
    }

    fn begin(self, command: Running) {
        // It can fail only if the thread is gone; then the kill passes find no end, and say so.
        let _sent = self.begin.send(command);
    }
}

pub(super) fn command_end(status: WaitStatus) -> End {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => End::Exited { code },
        (None, Some(signal)) => End::Signaled { signal },
        (None, None) => End::Lost { message: format!("unknown wait status {}", status.as_raw()) },
    }
}

/// The work while it runs.
struct Watch {
    tree: Tree,
    events: mpsc::Receiver<Event>,
    none_left: bool,
}

impl Watch {
    /// Returns when the work must end, or has.
    async fn until_end(&mut self, order: &Order) -> End {
        let timeout_at = order.timeout.map(|timeout| BootClock.now() + timeout);
        let mut limits = Limits { timeout_at, fence_at: order.fence_at, stop_at: None };
        loop {
            let event = tokio::select! {
                event = self.events.recv() => event,
                end = limits.reached() => return end,
            };
            match event {
                Some(Event::Line(line)) => match serde_json::from_str(&line) {
                    Ok(Message::FenceAtBootMs(fence_at)) => limits.fence_at = Some(fence_at),
                    Ok(Message::Stop { grace_ms }) => {
                        if limits.stop_at.is_none() {
                            self.tree.terminate();
                        }
                        limits.stop_at = Some(BootClock.now() + Duration::from_millis(grace_ms));
                    }
                    // Both sides are one executable. Whoever wrote this is not our agent.
                    Err(_) => return End::Abandoned,
                },
                Some(Event::Signal(signal)) => return End::Interrupted { signal },
                Some(Event::AgentGone) | None => return End::Abandoned,
                // During a stop, the others have their grace too.
                Some(Event::CommandEnded(_)) if limits.stop_at.is_some() => {}
                Some(Event::CommandEnded(end)) => return end,
                // It follows the command's end, so this is the end of a stop.
                Some(Event::NoneLeft) => {
                    self.none_left = true;
                    return End::Stopped;
                }
            }
        }
    }

    /// Kills until nothing is left, and tells how many could not be killed.
    async fn kill_all(&mut self) -> usize {
        let mut pause = FIRST_PAUSE;
        let mut seen = 0;
        for _pass in 0..KILL_PASSES {
            seen = self.tree.kill();
            if self.none_left || tokio::time::timeout(pause, self.until_none_left()).await.is_ok() {
                return 0;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        seen.max(1)
    }

    async fn until_none_left(&mut self) {
        loop {
            match self.events.recv().await {
                Some(Event::NoneLeft) => return,
                Some(Event::Line(_) | Event::AgentGone | Event::Signal(_) | Event::CommandEnded(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}

/// The instants at which the work must end.
#[derive(Debug, Clone, Copy)]
struct Limits {
    timeout_at: Option<BootInstant>,
    fence_at: Option<BootInstant>,
    stop_at: Option<BootInstant>,
}

impl Limits {
    async fn reached(self) -> End {
        match self.first() {
            Some((at, end)) => {
                BootClock.sleep_until(at).await;
                end
            }
            None => std::future::pending().await,
        }
    }

    fn first(self) -> Option<(BootInstant, End)> {
        let Self { timeout_at, fence_at, stop_at } = self;
        let ends = [(fence_at, End::Fenced), (timeout_at, End::TimedOut), (stop_at, End::Stopped)];
        ends.into_iter().filter_map(|(at, end)| Some((at?, end))).min_by_key(|(at, _end)| *at)
    }
}

fn report(outcome: &Outcome) -> io::Result<()> {
    let mut line = serde_json::to_vec(outcome)?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_limit_decides_and_the_fence_wins_a_tie() {
        let at = |boot_ms| Some(BootInstant::from_boot_ms(boot_ms));
        let first = |timeout_at, fence_at, stop_at| {
            Limits { timeout_at, fence_at, stop_at }.first().map(|(at, end)| (at.boot_ms(), end))
        };
        assert_eq!(first(None, None, None), None);
        assert_eq!(first(at(5), at(9), None), Some((5, End::TimedOut)));
        assert_eq!(first(at(5), at(9), at(3)), Some((3, End::Stopped)));
        assert_eq!(first(at(5), at(5), at(5)), Some((5, End::Fenced)));
    }
}
