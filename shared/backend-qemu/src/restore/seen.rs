//! What a VM shows at one moment to whoever alone is at it.

use crate::generation::Generation;
use crate::names::SnapshotName;
use crate::qmp::{BlockSnapshot, Job, JobState, RunState};

use super::operation::{Memory, Operation};

#[derive(Debug, Clone)]
pub struct Seen {
    /// None: nothing of the VM runs.
    pub process: Option<Process>,
    /// The one that was begun last. That there is a process of it is not said.
    pub generation: Generation,
    /// Empty where the process does not answer.
    pub snapshots: Vec<Snapshot>,
    /// Of the process.
    pub jobs: Vec<Job>,
    pub this_driver: ThisDriver,
}

/// What the driver has done itself, since it is at the VM, in this operation. It is forgotten when the driver is killed, and may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThisDriver {
    /// The disk is as in the snapshot, and nobody else was at it.
    pub restored_disk: bool,
    /// It has started the VM, and QEMU has answered.
    pub launched: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// As it says itself; none: it has not said.
    pub generation: Option<u64>,
    pub responds: Responds,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Responds {
    With(RunState),
    /// Not now: it begins, ends, or is at something that it answers nothing beside.
    NotYet,
    /// It had its time.
    Never,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub name: SnapshotName,
    pub memory: Memory,
}

impl Snapshot {
    /// None: a name that is none of ours.
    pub(super) fn read(listed: BlockSnapshot) -> Option<Self> {
        let BlockSnapshot { name, memory_bytes } = listed;
        let memory = if memory_bytes > 0 { Memory::Included } else { Memory::DiskOnly };
        Some(Self { name: name.parse().ok()?, memory })
    }
}

impl Seen {
    pub(super) fn snapshot(&self, name: &SnapshotName) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snapshot| snapshot.name == *name)
    }

    /// Why this job has failed, if it has.
    pub(super) fn failure_of(&self, job: &str) -> Option<&str> {
        self.jobs.iter().find(|found| found.id == job).and_then(|found| match &found.state {
            JobState::Failed(why) => Some(why.as_str()),
            JobState::Done | JobState::Active => None,
        })
    }

    pub(super) fn is_done(&self, job: &str) -> bool {
        self.jobs.iter().any(|found| found.id == job && found.state == JobState::Done)
    }

    /// Whether this operation has set the process going: it is of the generation that the operation began.
    pub(super) fn is_of(&self, process: &Process, operation: &Operation) -> bool {
        let Generation { number, by, entry: _ } = &self.generation;
        // One that has not said which it is, is of the generation that was begun last: there is never a second process.
        by.as_ref() == Some(&operation.id) && process.generation.is_none_or(|said| said == *number)
    }
}
