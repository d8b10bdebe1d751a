//! The hands of an operation: looks at the VM, makes the calls, waits. It decides nothing but for how long.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Sleep;

use crate::error::{Error, Problem};
use crate::ids::Vm;
use crate::proxmox::Proxmox;
use crate::task::{Task, TaskEnd, TaskState};
use crate::upid::Upid;
use crate::wait::{Limits, Pace};

use super::operation::{Goal, Memory};
use super::seen::Seen;
use super::step::{Ask, Next, Outcome, Waiting};

/// Where an operation's memory is kept, so that it outlives the driver.
pub trait Journal: Sync {
    /// Returns when it is on disk.
    fn note(&self, memory: &Memory) -> impl Future<Output = io::Result<()>> + Send;
}

#[derive(Debug)]
pub struct Driver<'a, J> {
    pub proxmox: &'a Proxmox,
    pub journal: &'a J,
    pub limits: &'a Limits,
    pub pace: &'a Pace,
}

/// The operation is where it is: it may be gone on with, with what was noted last.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    #[error(transparent)]
    Call(#[from] Error),
    #[error("not done within {} s: {waiting}", .within.as_secs())]
    NotInTime { within: Duration, waiting: Waiting },
    #[error("cannot note how far the operation is")]
    Journal(#[source] io::Error),
}

impl Limits {
    /// Of a whole operation.
    pub fn of(&self, goal: Goal) -> Duration {
        match goal {
            Goal::Snapshot { .. } => self.snapshot,
            Goal::Rollback => self.rollback.saturating_add(self.delete_snapshot),
            Goal::Delete => self.delete_snapshot,
        }
    }
}

impl<J: Journal> Driver<'_, J> {
    /// To the operation's end. `may_arrive_for` is zero, unless somebody was at this VM before and may have been killed in a call: then it is
    /// what is left of [`Pace::may_arrive_for`]. It does not return while a call of its own may still arrive.
    pub async fn drive(&self, mut memory: Memory, may_arrive_for: Duration) -> Result<Outcome, DriveError> {
        let mut doubt = Doubt::lasting(may_arrive_for);
        let outcome = self.steps(&mut memory, &mut doubt).await;
        if !matches!(outcome, Ok(Outcome::Done(_))) {
            doubt.over().await;
        }
        outcome
    }

    async fn steps(&self, memory: &mut Memory, doubt: &mut Doubt) -> Result<Outcome, DriveError> {
        let within = self.limits.of(memory.operation.goal);
        let mut deadline = std::pin::pin!(tokio::time::sleep(within));
        let mut pauses = self.pace.pauses();
        let mut waiting = Waiting::ForACall;
        loop {
            if has_passed(deadline.as_mut()).await {
                return Err(DriveError::NotInTime { within, waiting });
            }
            let seen = match self.look(memory, doubt.lasts().await).await {
                Ok(seen) => seen,
                Err(error) if error.is_passing() && !has_passed(deadline.as_mut()).await => {
                    tracing::debug!(operation = memory.operation.id, %error, "the VM can't be looked at");
                    pauses.pause().await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let next = memory.step(&seen);
            tracing::debug!(operation = memory.operation.id, vm = %memory.operation.vm, ?next, "what is next");
            match next {
                Next::Remember(more) => self.note(memory, more).await?,
                Next::Adopt(upid) => {
                    doubt.resolved();
                    self.note(memory, memory.noting(&upid)).await?;
                }
                Next::Ask(ask) => {
                    match self.ask(memory, ask).await {
                        Ok(upid) => {
                            doubt.resolved();
                            self.note(memory, memory.noting(&upid)).await?;
                        }
                        Err(error) if error.may_have_begun() => {
                            tracing::warn!(operation = memory.operation.id, %error, "nobody knows whether a task has begun");
                            *doubt = Doubt::lasting(self.pace.may_arrive_for);
                        }
                        Err(error) => return Err(error.into()),
                    }
                    pauses = self.pace.pauses();
                }
                Next::Await(upid) => {
                    waiting = Waiting::ForTask(upid.clone());
                    tokio::select! {
                        ended = self.proxmox.ended(&upid, within, self.pace) => {
                            ended?;
                        }
                        () = deadline.as_mut() => {}
                    }
                    pauses = self.pace.pauses();
                }
                Next::LookAgain(why) => {
                    waiting = why;
                    pauses.pause().await;
                }
                Next::End(outcome) => return Ok(outcome),
            }
        }
    }

    /// The tasks first. One that the list calls running is asked for itself: the list may be late.
    async fn look(&self, memory: &Memory, call_may_arrive: bool) -> Result<Seen, Error> {
        let Self { proxmox, .. } = self;
        let vm: &Vm = &memory.operation.vm;
        let mut tasks = proxmox.tasks(vm).await?;
        if let Some(last) = memory.last.as_ref().filter(|last| tasks.iter().all(|task| task.upid != **last)) {
            tasks.push(Task { upid: last.clone(), state: TaskState::Running });
        }
        for task in tasks.iter_mut().filter(|task| task.state == TaskState::Running) {
            task.state = match proxmox.task(&task.upid).await {
                Ok(state) => state,
                // Its log was removed: whatever it did, there is no proof of it any more.
                Err(Error { problem: Problem::TaskUnknown, said, .. }) => {
                    TaskState::Ended(TaskEnd::Failed { exit_status: said })
                }
                Err(error) => return Err(error),
            };
        }
        let status = match proxmox.status(vm).await {
            Ok(status) => Some(status),
            Err(Error { problem: Problem::VmMissing, .. }) => None,
            Err(error) => return Err(error),
        };
        let snapshots = if status.is_some() { proxmox.snapshots(vm).await? } else { Vec::new() };
        let token = proxmox.token().as_str().to_owned();
        Ok(Seen { tasks, vm: status, snapshots, call_may_arrive, token })
    }

    async fn ask(&self, memory: &Memory, ask: Ask) -> Result<Upid, Error> {
        let (vm, name) = (&memory.operation.vm, &memory.operation.snapshot);
        match ask {
            Ask::Stop => self.proxmox.stop(vm).await,
            Ask::Rollback => self.proxmox.rollback(vm, name).await,
            Ask::Start => self.proxmox.start(vm).await,
            Ask::Snapshot { memory } => self.proxmox.snapshot(vm, name, memory).await,
            Ask::DeleteSnapshot => self.proxmox.delete_snapshot(vm, name).await,
        }
    }

    async fn note(&self, memory: &mut Memory, more: Memory) -> Result<(), DriveError> {
        *memory = more;
        self.journal.note(memory).await.map_err(DriveError::Journal)
    }
}

/// For how long a call that was not answered may still arrive.
#[derive(Debug)]
struct Doubt(Option<Pin<Box<Sleep>>>);

impl Doubt {
    fn lasting(duration: Duration) -> Self {
        Self((!duration.is_zero()).then(|| Box::pin(tokio::time::sleep(duration))))
    }

    async fn lasts(&mut self) -> bool {
        match &mut self.0 {
            Some(sleep) => !has_passed(sleep.as_mut()).await,
            None => false,
        }
    }

    fn resolved(&mut self) {
        self.0 = None;
    }

    async fn over(&mut self) {
        if let Some(sleep) = self.0.take() {
            sleep.await;
        }
    }
}

/// Without waiting for it. A timer counts only once it was polled.
async fn has_passed(mut sleep: Pin<&mut Sleep>) -> bool {
    poll_fn(|context| Poll::Ready(sleep.as_mut().poll(context).is_ready())).await
}
