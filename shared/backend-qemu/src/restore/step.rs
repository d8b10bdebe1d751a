//! What is next: first what holds of every operation, then what its goal asks for. Pure: it has no clock, and asks nobody.

use std::fmt;

use crate::generation::Entry;
use crate::qmp::JobState;

use super::goals;
use super::operation::{Goal, Operation};
use super::seen::{Process, Responds, Seen};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Do this, then look again.
    Ask(Ask),
    /// Look again in a while.
    LookAgain(Waiting),
    End(Result<Done, Failure>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// End the process, as by a power cut.
    CutOff,
    /// The disk as it was, while nothing runs.
    RestoreDisk,
    /// A new process in a new generation. It stands still.
    Launch(Entry),
    /// The process that stands still goes on.
    GoOn,
    /// Disk and memory, by a job of the running process.
    SaveMemory,
    /// The disk alone, by the running process.
    SaveDisk,
    /// The disk alone, while nothing runs.
    SaveImage,
    /// By a job of the process.
    Delete,
    /// While nothing runs.
    DeleteInImage,
    /// The process forgets a job of another operation that has ended.
    Dismiss(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    ForJob(String),
    /// The process answers nothing now.
    ForQemu,
    /// The list of snapshots does not show yet what its job has done.
    ForTheList,
    /// There was no time left for what was next.
    ToGoOn,
}

/// The goal is reached: the VM shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// The VM's at that moment.
    pub generation: u64,
}

/// Final: the operation does nothing more to the VM.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("there is no such snapshot")]
    SnapshotMissing,
    #[error("the snapshot has the disk alone, and no memory to go back to")]
    NoMemory,
    #[error("there is a snapshot of that name, and it has the disk alone")]
    NameTaken,
    #[error("the VM does not run, so there is no memory to save")]
    DoesNotRun,
    #[error("the job {job} of QEMU failed: {why}")]
    Job { job: String, why: String },
    #[error("the VM was taken back and ended again by itself")]
    EndedAgain,
    #[error("the VM can't go on: QEMU calls it {state}")]
    Broken { state: String },
}

impl Operation {
    pub fn step(&self, seen: &Seen) -> Next {
        if let Some(process) = &seen.process
            && let Some(next) = self.unless_it_answers(seen, process)
        {
            return next;
        }
        for job in &seen.jobs {
            let own = job.id == self.save_job() || job.id == self.delete_job();
            match &job.state {
                JobState::Active => return Next::LookAgain(Waiting::ForJob(job.id.clone())),
                JobState::Done | JobState::Failed(_) if !own => {
                    return Next::Ask(Ask::Dismiss(job.id.clone()));
                }
                // How its own ended is read by the goal, for as long as the operation goes on.
                JobState::Done | JobState::Failed(_) => {}
            }
        }
        match self.goal {
            Goal::Snapshot(memory) => goals::snapshot(self, seen, memory),
            Goal::Rollback(memory, afterwards) => goals::rollback(self, seen, memory, afterwards),
            Goal::Delete => goals::delete(self, seen),
        }
    }

    /// A process that does not answer may be in the middle of anything. Only one that is to be thrown away, and had its time, is not waited for.
    fn unless_it_answers(&self, seen: &Seen, process: &Process) -> Option<Next> {
        match (&process.responds, self.goal) {
            (Responds::With(_), _) => None,
            (Responds::Never, Goal::Rollback(..)) if !seen.is_of(process, self) => {
                Some(Next::Ask(Ask::CutOff))
            }
            (Responds::Never | Responds::NotYet, _) => Some(Next::LookAgain(Waiting::ForQemu)),
        }
    }
}

impl Next {
    pub(super) fn failed(failure: Failure) -> Self {
        Self::End(Err(failure))
    }

    pub(super) fn done(seen: &Seen) -> Self {
        Self::End(Ok(Done { generation: seen.generation.number }))
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForJob(job) => write!(f, "QEMU's job {job} is not final"),
            Self::ForQemu => f.write_str("QEMU does not answer"),
            Self::ForTheList => f.write_str("the list of snapshots does not show yet what was done"),
            Self::ToGoOn => f.write_str("there was no time left for the next step"),
        }
    }
}
