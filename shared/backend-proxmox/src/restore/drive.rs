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
use crate::wait::{Limits, Pace, Pauses};

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
        let mut time = Time::of(self.limits.of(memory.operation.goal), self.pace);
        loop {
            let seen = match self.look(memory, doubt.lasts().await).await {
                Ok(seen) => seen,
                Err(error) if error.is_passing() && !time.is_over().await => {
                    tracing::debug!(operation = memory.operation.id, %error, "the VM can't be looked at");
                    time.pauses.pause().await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            match self.noted(memory, doubt, seen).await? {
                Next::Ask(ask) => {
                    time.waits(Waiting::ToGoOn).await?;
                    if let Some(upid) = self.asked(memory, doubt, ask).await? {
                        self.await_end(upid, &mut time).await?;
                    }
                }
                Next::Await(upid) => self.await_end(upid, &mut time).await?,
                Next::LookAgain(why) => {
                    time.waits(why).await?;
                    time.pauses.pause().await;
                }
                Next::End(outcome) => return Ok(outcome),
                // Noted already.
                Next::Remember(_) | Next::Adopt(_) => {}
            }
        }
    }

    /// What is next after all that is to be noted was noted: that changes nothing of what was seen.
    async fn noted(
        &self,
        memory: &mut Memory,
        doubt: &mut Doubt,
        mut seen: Seen,
    ) -> Result<Next, DriveError> {
        loop {
            let next = memory.step(&seen);
            tracing::debug!(operation = memory.operation.id, vm = %memory.operation.vm, ?next, "what is next");
            match next {
                Next::Remember(more) => self.note(memory, more).await?,
                Next::Adopt(upid) => {
                    doubt.resolved();
                    seen.call_may_arrive = false;
                    self.note(memory, memory.noting(&upid)).await?;
                }
                next @ (Next::Ask(_) | Next::Await(_) | Next::LookAgain(_) | Next::End(_)) => {
                    return Ok(next);
                }
            }
        }
    }

    /// The task that a call has begun; nothing where nobody knows whether one has.
    async fn asked(
        &self,
        memory: &mut Memory,
        doubt: &mut Doubt,
        ask: Ask,
    ) -> Result<Option<Upid>, DriveError> {
        match self.ask(memory, ask).await {
            Ok(upid) => {
                doubt.resolved();
                self.note(memory, memory.noting(&upid)).await?;
                Ok(Some(upid))
            }
            Err(error) if error.may_have_begun() => {
                tracing::warn!(operation = memory.operation.id, %error, "nobody knows whether a task has begun");
                *doubt = Doubt::lasting(self.pace.may_arrive_for);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// However it ended: that is looked at next.
    async fn await_end(&self, upid: Upid, time: &mut Time) -> Result<(), DriveError> {
        let within = time.within;
        tokio::select! {
            biased;
            ended = self.proxmox.ended(&upid, within, self.pace) => {
                ended?;
            }
            () = time.deadline.as_mut() => time.waits(Waiting::ForTask(upid)).await?,
        }
        time.pauses = self.pace.pauses();
        Ok(())
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

/// What an operation has of it.
#[derive(Debug)]
struct Time {
    within: Duration,
    deadline: Pin<Box<Sleep>>,
    pauses: Pauses,
}

impl Time {
    fn of(within: Duration, pace: &Pace) -> Self {
        Self { within, deadline: Box::pin(tokio::time::sleep(within)), pauses: pace.pauses() }
    }

    async fn is_over(&mut self) -> bool {
        has_passed(self.deadline.as_mut()).await
    }

    /// An error if there is none left to wait in.
    async fn waits(&mut self, waiting: Waiting) -> Result<(), DriveError> {
        if self.is_over().await {
            return Err(DriveError::NotInTime { within: self.within, waiting });
        }
        Ok(())
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
