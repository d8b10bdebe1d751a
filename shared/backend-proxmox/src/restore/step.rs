//! What is next: first what holds of every operation, then what its goal asks for. Pure: it has no clock, and makes no call.

use std::fmt;

use crate::error::Problem;
use crate::ids::Vm;
use crate::status::Lock;
use crate::task::{Task, TaskEnd, TaskState};
use crate::upid::Upid;

use super::goals;
use super::operation::{Baseline, Goal, Memory};
use super::seen::{Scene, Seen};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Write this down, then look again.
    Remember(Memory),
    /// A call that was not answered has begun this task: note it. There is no call to wait for any more.
    Adopt(Upid),
    /// Make this call, note the task that it begins, then look again.
    Ask(Ask),
    /// Look again when this task has ended, however that is.
    Await(Upid),
    /// Look again in a while.
    LookAgain(Waiting),
    End(Outcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    Stop,
    Rollback,
    Start,
    Snapshot { memory: bool },
    DeleteSnapshot,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    ForTask(Upid),
    /// For nothing: what was next was not asked for any more.
    ToGoOn,
    /// A call of ours that was not answered.
    ForACall,
    /// Somebody is at the VM whose task we may not see.
    ForLock(Lock),
    /// The task that was to stop it has ended well.
    ForTheStop,
    /// The task that was to start it has ended well.
    ForTheStart,
    /// The task that was to take or delete the snapshot has ended well.
    ForTheList,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done(Done),
    Failed(Failure),
}

/// The goal is reached, and by which task: the proof. None where it had been reached before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    pub by: Option<Upid>,
    pub warnings: u64,
}

/// Final: the operation does nothing more to the VM.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("there is no {vm}")]
    VmMissing { vm: Vm },
    #[error(
        "{vm} was left in the middle of a rollback: its disks may be of two states. Only a person can clear that: look at the \
         task's log, then run `qm unlock {}` on {}",
        .vm.id, .vm.node
    )]
    LeftLocked { vm: Vm },
    #[error("the snapshot is not there")]
    SnapshotMissing,
    #[error("the snapshot was never finished: delete it, and take another")]
    SnapshotUnfinished,
    #[error("the task {upid} failed: {problem} ({exit_status})")]
    Task { upid: Upid, problem: Problem, exit_status: String },
}

impl Memory {
    pub fn step(&self, seen: &Seen) -> Next {
        let scene = Scene { memory: self, seen };
        if let Some(task) = scene.not_noted() {
            return Next::Adopt(task.upid.clone());
        }
        if let Some(task) = scene.running() {
            return Next::Await(task.upid.clone());
        }
        if seen.call_may_arrive {
            return Next::LookAgain(Waiting::ForACall);
        }
        let Some(vm) = &seen.vm else {
            return Next::failed(Failure::VmMissing { vm: scene.vm().clone() });
        };
        match &vm.lock {
            None => {}
            Some(Lock::Rollback) => return Next::failed(Failure::LeftLocked { vm: scene.vm().clone() }),
            Some(lock) => return Next::LookAgain(Waiting::ForLock(lock.clone())),
        }
        if self.baseline.is_none() {
            let newest = seen.tasks.first().map(|task| task.upid.clone());
            return Next::Remember(Self { baseline: Some(Baseline { newest }), ..self.clone() });
        }
        match self.operation.goal {
            Goal::Snapshot { memory } => goals::snapshot(scene, memory),
            Goal::Rollback => goals::rollback(scene, vm.power),
            Goal::Delete => goals::delete(scene),
        }
    }
}

impl Next {
    pub(super) fn failed(failure: Failure) -> Self {
        Self::End(Outcome::Failed(failure))
    }

    pub(super) fn done(by: Option<&Task>) -> Self {
        let warnings = match by.map(|task| &task.state) {
            Some(TaskState::Ended(TaskEnd::Warnings(count))) => *count,
            Some(TaskState::Ended(TaskEnd::Ok | TaskEnd::Failed { .. }) | TaskState::Running) | None => 0,
        };
        Self::End(Outcome::Done(Done { by: by.map(|task| task.upid.clone()), warnings }))
    }

    /// What is next because this task has not ended well; nothing if it has.
    pub(super) fn unless_well(task: &Task) -> Option<Self> {
        let end = match &task.state {
            TaskState::Running => return Some(Self::Await(task.upid.clone())),
            TaskState::Ended(end) => end,
        };
        let problem = end.problem()?;
        let exit_status = match end {
            TaskEnd::Failed { exit_status } => exit_status.clone(),
            TaskEnd::Ok | TaskEnd::Warnings(_) => String::new(),
        };
        Some(Self::failed(Failure::Task { upid: task.upid.clone(), problem, exit_status }))
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForTask(upid) => write!(f, "the task {upid} still runs"),
            Self::ToGoOn => f.write_str("there was no time left for the next step"),
            Self::ForACall => f.write_str("a call that was not answered may still arrive"),
            Self::ForLock(lock) => {
                write!(
                    f,
                    "the VM is locked ({lock}); if nobody is at it any more, a person can run `qm unlock`"
                )
            }
            Self::ForTheStop => f.write_str("the VM was stopped, and still runs"),
            Self::ForTheStart => f.write_str("the VM was started, and does not run"),
            Self::ForTheList => f.write_str("the list of snapshots does not show yet what was done"),
        }
    }
}
