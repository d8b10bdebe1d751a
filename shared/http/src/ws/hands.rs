//! The sync of an agent that knows none: for a peer that speaks nothing but what travels over its WebSocket, the control plane plays the agent's part
//! beside the connection. It says what an agent would say, keeps the runner's heartbeat while the connection lives, and has the operator's own scripts
//! run over it. That the peer's CI runner is registered or not is taken as done: it is a service of its own.

use super::connection::Session;
use super::ending::Ending;
use crate::clock;
use crate::detached::run_detached;
use crate::envelope::Refusal;
use crate::notify::{Notifier, Woken};
use axum::http::StatusCode;
use motorpool_control::Synced;
use motorpool_control::ports::channels::ExecError;
use motorpool_domain::record::Key;
use motorpool_domain::runner::{TaskOutcome, TaskResult};
use motorpool_domain::text::visible;
use motorpool_domain::time::millis;
use motorpool_domain::{Epoch, Label, RunnerId, TaskId};
use motorpool_wire::agent::{Protocol, SyncAnswer, SyncRequest, TaskKind, TaskOrder};
use motorpool_wire::channel::ExecAnswer;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Such a machine does not say when it started anew.
const BOOT_ID: &str = "websocket";
const VERSION: &str = "websocket";
/// After a sync that failed, and between two looks at whether a machine is ready.
const AGAIN: Duration = Duration::from_secs(1);
/// Of what a script wrote.
const OUTPUT_CHARS: usize = 400;

/// Plays until the runner's token or its place is gone, or the connection ends and with it this.
pub(super) async fn play(session: &Arc<Session>, notifier: &Arc<Notifier>) -> Ending {
    let mut part = Part::new(session.agent.runner.clone(), session.agent.epoch);
    let mut waiter = notifier.waiter(Key::from(&part.runner));
    let mut running: Option<Running> = None;
    loop {
        let rest = match sync(session, part.report()).await {
            Ok(answer) => match part.hear(answer) {
                Next::Sync => continue,
                Next::End => return Ending::Unauthorized,
                Next::Run(work, rest) => {
                    running = Some(Box::pin(run(Arc::clone(session), work)));
                    rest
                }
                Next::Rest(rest) => rest,
            },
            Err(refusal) if is_over(&refusal) => return Ending::Unauthorized,
            Err(refusal) => {
                tracing::warn!(runner = %part.runner, error = refusal.message(), "the sync for an agent that is connected failed; it is tried again");
                AGAIN
            }
        };
        tokio::select! {
            result = ended(&mut running) => {
                running = None;
                part.ended(result);
            }
            woken = waiter.woken(rest) => match woken {
                Woken::Changed | Woken::TimedOut => {}
                // The connection ends by itself.
                Woken::Closed => std::future::pending().await,
            },
        }
    }
}

type Running = Pin<Box<dyn Future<Output = TaskResult> + Send>>;

async fn ended(running: &mut Option<Running>) -> TaskResult {
    match running {
        Some(running) => running.await,
        None => std::future::pending().await,
    }
}

async fn sync(session: &Arc<Session>, report: SyncRequest) -> Result<SyncAnswer, Refusal> {
    let its = Arc::clone(session);
    // As an agent's own: what it began is not left half done where the connection ends meanwhile.
    let syncing = async move { its.control.sync(its.token(), &report).await };
    let Synced { answer, news: _ } = run_detached("the sync", syncing).await?;
    Ok(answer)
}

fn is_over(refusal: &Refusal) -> bool {
    matches!(refusal.status(), StatusCode::UNAUTHORIZED | StatusCode::GONE)
}

/// What the agent would know.
#[derive(Debug)]
struct Part {
    runner: RunnerId,
    epoch: Epoch,
    registered: Option<Label>,
    busy: Option<TaskId>,
    results: Vec<TaskResult>,
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// There is something to say at once.
    Sync,
    Rest(Duration),
    /// And at the latest after this there is something to say.
    Run(Work, Duration),
    End,
}

#[derive(Debug, PartialEq, Eq)]
struct Work {
    task: TaskId,
    script: String,
    within: Duration,
    /// Until it succeeds: a machine may need a while.
    again: bool,
}

impl Part {
    fn new(runner: RunnerId, epoch: Epoch) -> Self {
        Self { runner, epoch, registered: None, busy: None, results: Vec::new() }
    }

    fn report(&self) -> SyncRequest {
        SyncRequest {
            protocol: Protocol::OURS,
            runner: self.runner.clone(),
            epoch: self.epoch,
            boot_id: BOOT_ID.to_owned(),
            agent_version: VERSION.to_owned(),
            registered: self.registered.clone(),
            busy: self.busy.clone(),
            results: self.results.clone(),
            notice: None,
            program_version: None,
            session: None,
            next_token_sha256: None,
            wait_ms: 0,
        }
    }

    fn hear(&mut self, answer: SyncAnswer) -> Next {
        let SyncAnswer { epoch, task, end, next_sync_in_ms, .. } = answer;
        if end {
            return Next::End;
        }
        if epoch != self.epoch {
            self.epoch = epoch;
            self.results.clear();
            return Next::Sync;
        }
        let rest = Duration::from_millis(next_sync_in_ms).max(AGAIN);
        match task {
            // One at a time, and each once.
            Some(task) if self.busy.is_none() && !self.has_done(&task) => self.begin(task, rest),
            Some(_) | None => Next::Rest(rest),
        }
    }

    fn has_done(&self, task: &TaskOrder) -> bool {
        let is_it = |result: &TaskResult| result.task == task.id;
        match &task.kind {
            // What it is registered as says whether that is done.
            TaskKind::Register { .. } | TaskKind::Deregister { .. } => false,
            TaskKind::Prepare { .. }
            | TaskKind::Cleanup { .. }
            | TaskKind::Reset { .. }
            | TaskKind::Readiness { .. } => self.results.iter().any(is_it),
        }
    }

    fn begin(&mut self, order: TaskOrder, rest: Duration) -> Next {
        let TaskOrder { id: task, kind, timeout_ms, env: _ } = order;
        let again = matches!(kind, TaskKind::Readiness { .. });
        let script = match kind {
            TaskKind::Register { label, .. } => {
                self.registered = Some(label);
                None
            }
            TaskKind::Deregister { .. } => {
                self.registered = None;
                None
            }
            TaskKind::Cleanup { script: None } => {
                let why =
                    "this machine has no agent that could clean it: its runner or its pool needs cleanup_cmd";
                let outcome = TaskOutcome::Failed { why: why.to_owned() };
                self.ended(TaskResult { task, outcome, took_ms: None });
                return Next::Sync;
            }
            TaskKind::Prepare { script } | TaskKind::Cleanup { script } => script,
            TaskKind::Reset { script } | TaskKind::Readiness { script } => Some(script),
        };
        let Some(script) = script else {
            self.ended(TaskResult { task, outcome: TaskOutcome::Done, took_ms: None });
            return Next::Sync;
        };
        self.busy = Some(task.clone());
        Next::Run(Work { task, script, within: Duration::from_millis(timeout_ms), again }, rest)
    }

    fn ended(&mut self, ended: TaskResult) {
        self.busy = None;
        self.results.retain(|result| result.task != ended.task);
        self.results.push(ended);
    }
}

async fn run(session: Arc<Session>, work: Work) -> TaskResult {
    let Work { task, script, within, again } = work;
    tracing::info!(runner = %session.agent.runner, %task, "a script of the pool runs over an agent's connection");
    let begun = clock::now();
    let mut last = TaskOutcome::Failed { why: "it took too long".to_owned() };
    let trying = async {
        loop {
            last = outcome(session.line.run(&script, within).await);
            if !again || last == TaskOutcome::Done {
                return;
            }
            sleep(AGAIN).await;
        }
    };
    // One that is tried again has so long in all; one that is not, ends by its own time.
    let most = if again { within } else { Duration::MAX };
    let _ = timeout(most, trying).await;
    TaskResult { task, outcome: last, took_ms: Some(millis(clock::now() - begun)) }
}

fn outcome(ran: Result<ExecAnswer, ExecError>) -> TaskOutcome {
    match ran {
        Ok(ExecAnswer { exit_code: 0, .. }) => TaskOutcome::Done,
        Ok(answer) => TaskOutcome::Failed { why: one_line(&answer) },
        Err(error) => TaskOutcome::Failed { why: error.to_string() },
    }
}

/// How a script failed, with the end of what it wrote.
fn one_line(ExecAnswer { exit_code, stdout, stderr }: &ExecAnswer) -> String {
    let lines = stdout.lines().chain(stderr.lines()).map(str::trim).filter(|line| !line.is_empty());
    let output = lines.collect::<Vec<_>>().join(" | ");
    let beyond = output.chars().count().saturating_sub(OUTPUT_CHARS);
    let end: String = output.chars().skip(beyond).collect();
    let cut = if beyond > 0 { "…" } else { "" };
    let colon = if end.is_empty() { "" } else { ": " };
    visible(&format!("it ended with exit code {exit_code}{colon}{cut}{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::runner::StateName;
    use std::collections::BTreeMap;

    const BEAT: Duration = Duration::from_secs(15);

    fn part() -> Part {
        Part::new(RunnerId::parse("mac-01").unwrap(), Epoch(2))
    }

    fn told(epoch: u64, task: Option<(&str, TaskKind)>) -> SyncAnswer {
        SyncAnswer {
            protocol: Protocol::OURS,
            epoch: Epoch(epoch),
            state: StateName::Resetting,
            task: task.map(|(id, kind)| TaskOrder {
                id: id.parse().unwrap(),
                kind,
                timeout_ms: 60_000,
                env: BTreeMap::new(),
            }),
            end: false,
            kept: true,
            threshold_in_ms: None,
            fence_in_ms: None,
            next_sync_in_ms: 15_000,
            token_due: true,
            token_taken: false,
        }
    }

    fn work(task: &str, script: &str, again: bool) -> Next {
        let (task, script) = (task.parse().unwrap(), script.to_owned());
        Next::Run(Work { task, script, within: Duration::from_secs(60), again }, BEAT)
    }

    #[test]
    fn a_registration_is_taken_as_done() {
        let (mut part, label) = (part(), Label::parse("motorpool-macs").unwrap());
        let register =
            || TaskKind::Register { label: label.clone(), script: Some("x".to_owned()), run: None, ci: None };
        assert_eq!(part.hear(told(2, Some(("2-register-1", register())))), Next::Sync);
        assert_eq!(part.report().registered, Some(label.clone()));
        let deregister = TaskKind::Deregister { label: label.clone(), script: None };
        assert_eq!(part.hear(told(2, Some(("2-deregister-1", deregister)))), Next::Sync);
        assert_eq!(part.report().registered, None);
        // Once more in the same epoch, as after a connection that was lost.
        assert_eq!(part.hear(told(2, Some(("2-register-1", register())))), Next::Sync);
        assert_eq!(part.report().registered, Some(label));
        assert_eq!(part.hear(told(2, None)), Next::Rest(BEAT));
    }

    #[test]
    fn a_script_is_run_once_and_one_at_a_time() {
        let mut part = part();
        let reset = || Some(("2-reset-1", TaskKind::Reset { script: "reset".to_owned() }));
        assert_eq!(part.hear(told(2, reset())), work("2-reset-1", "reset", false));
        assert_eq!(part.report().busy, Some("2-reset-1".parse().unwrap()));
        assert_eq!(part.hear(told(2, reset())), Next::Rest(BEAT));
        part.ended(TaskResult {
            task: "2-reset-1".parse().unwrap(),
            outcome: TaskOutcome::Done,
            took_ms: Some(7),
        });
        assert_eq!(part.report().results.len(), 1);
        assert_eq!(part.hear(told(2, reset())), Next::Rest(BEAT));
        let ready = TaskKind::Readiness { script: "ready".to_owned() };
        assert_eq!(part.hear(told(2, Some(("2-readiness-1", ready)))), work("2-readiness-1", "ready", true));
        // Another epoch: what was done in the last one says nothing of this one.
        assert_eq!(part.hear(told(3, None)), Next::Sync);
        assert_eq!((part.report().epoch, part.report().results.len()), (Epoch(3), 0));
        assert_eq!(part.hear(SyncAnswer { end: true, ..told(3, None) }), Next::End);
    }

    #[test]
    fn where_there_is_no_script_nothing_is_prepared_and_nothing_can_be_cleaned() {
        let mut part = part();
        assert_eq!(part.hear(told(2, Some(("2-prepare-1", TaskKind::Prepare { script: None })))), Next::Sync);
        assert_eq!(part.report().results.first().map(|result| &result.outcome), Some(&TaskOutcome::Done));
        assert_eq!(part.hear(told(2, Some(("2-cleanup-1", TaskKind::Cleanup { script: None })))), Next::Sync);
        let results = part.report().results;
        let Some(TaskOutcome::Failed { why }) = results.last().map(|result| &result.outcome) else {
            panic!("{results:?}")
        };
        assert!(why.contains("needs cleanup_cmd"), "{why}");
    }

    #[test]
    fn a_failure_is_one_short_line_with_the_end_of_what_was_written() {
        let answer = |stdout: &str, stderr: &str| ExecAnswer {
            exit_code: 3,
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
        };
        assert_eq!(one_line(&answer("a\n\n b\n", "c\x1b[0m")), "it ended with exit code 3: a | b | c␛[0m");
        assert_eq!(one_line(&answer("", "")), "it ended with exit code 3");
        let long = one_line(&answer(&"ä".repeat(2_000), "the end"));
        assert!(long.contains(": …ä") && long.ends_with("the end") && long.chars().count() < 500, "{long}");
        assert_eq!(outcome(Ok(ExecAnswer { exit_code: 0, ..answer("x", "y") })), TaskOutcome::Done);
        assert!(matches!(outcome(Err(ExecError::CutOff)), TaskOutcome::Failed { .. }));
    }
}
