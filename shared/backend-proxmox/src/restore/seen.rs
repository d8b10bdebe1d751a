//! What Proxmox VE shows of one VM at about one moment, and which of its tasks are an operation's own.

use crate::ids::Vm;
use crate::snapshot_name::SnapshotName;
use crate::snapshots::Snapshot;
use crate::status::VmStatus;
use crate::task::{Task, TaskState};
use crate::upid::{TaskKind, Upid};

use super::operation::{Baseline, Memory};

/// The tasks are read first: what has ended by then shows in all that is read after them.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The newest first.
    pub tasks: Vec<Task>,
    /// None if there is no such VM on its node.
    pub vm: Option<VmStatus>,
    pub snapshots: Vec<Snapshot>,
    /// A call that was made and not answered may still arrive and begin its task, whoever made it.
    pub call_may_arrive: bool,
    /// The name of our token: of tasks that others began we only wait for the end.
    pub token: String,
}

/// An operation beside what is seen of its VM.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) memory: &'a Memory,
    pub(super) seen: &'a Seen,
}

impl<'a> Scene<'a> {
    pub(super) fn running(self) -> Option<&'a Task> {
        let looks_only = |task: &&Task| task.upid.kind() == TaskKind::Console;
        self.seen.tasks.iter().find(|task| task.state == TaskState::Running && !looks_only(task))
    }

    /// The newest task of this kind that this operation has begun.
    pub(super) fn did(self, kind: TaskKind) -> Option<&'a Task> {
        self.own().find(|task| task.upid.kind() == kind)
    }

    pub(super) fn did_since(self, kind: TaskKind, before: &Upid) -> Option<&'a Task> {
        self.own().find(|task| task.upid.kind() == kind && before.began_before(&task.upid))
    }

    pub(super) fn snapshot(self) -> Option<&'a Snapshot> {
        let wanted: &SnapshotName = &self.memory.operation.snapshot;
        self.seen.snapshots.iter().find(|snapshot| snapshot.name == *wanted)
    }

    pub(super) fn vm(self) -> &'a Vm {
        &self.memory.operation.vm
    }

    /// The operation's newest task, if its driver does not know of it.
    pub(super) fn not_noted(self) -> Option<&'a Task> {
        let newest = self.own().next()?;
        let later = self.memory.last.as_ref().is_none_or(|last| last.began_before(&newest.upid));
        later.then_some(newest)
    }

    fn own(self) -> impl Iterator<Item = &'a Task> {
        let Self { memory, seen } = self;
        seen.tasks.iter().filter(move |task| {
            let upid = &task.upid;
            let later = match &memory.baseline {
                None => false,
                Some(Baseline { newest: None }) => true,
                Some(Baseline { newest: Some(newest) }) => newest.began_before(upid),
            };
            memory.last.as_ref() == Some(upid) || (later && upid.user() == seen.token)
        })
    }
}
