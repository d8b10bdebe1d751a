//! What each goal asks for, of a VM whose process answers, or that has none, and in which no job is at work.

use crate::generation::Entry;
use crate::qmp::RunState;

use super::operation::{Afterwards, Memory, Operation};
use super::seen::{Process, Responds, Seen};
use super::step::{Ask, Failure, Next, Waiting};

pub(super) fn snapshot(operation: &Operation, seen: &Seen, memory: Memory) -> Next {
    match (memory, seen.snapshot(&operation.snapshot)) {
        (Memory::Included, Some(found)) if found.memory == Memory::DiskOnly => {
            return Next::failed(Failure::NameTaken);
        }
        (Memory::Included | Memory::DiskOnly, Some(_)) => return Next::done(seen),
        (Memory::Included | Memory::DiskOnly, None) => {}
    }
    match (memory, seen.process.as_ref().and_then(running)) {
        (Memory::Included, Some(RunState::Running)) => by_job(seen, operation.save_job(), Ask::SaveMemory),
        (Memory::Included, Some(RunState::Busy)) => Next::LookAgain(Waiting::ForQemu),
        (Memory::Included, Some(RunState::Paused | RunState::Broken(_)) | None) => {
            Next::failed(Failure::DoesNotRun)
        }
        (Memory::DiskOnly, Some(_)) => Next::Ask(Ask::SaveDisk),
        (Memory::DiskOnly, None) => Next::Ask(Ask::SaveImage),
    }
}

pub(super) fn delete(operation: &Operation, seen: &Seen) -> Next {
    match (seen.snapshot(&operation.snapshot), &seen.process) {
        (None, _) => Next::done(seen),
        (Some(_), Some(_)) => by_job(seen, operation.delete_job(), Ask::Delete),
        (Some(_), None) => Next::Ask(Ask::DeleteInImage),
    }
}

/// The old process ends, the disk goes back, a new process begins in a new generation, and goes on; the snapshot goes last.
pub(super) fn rollback(operation: &Operation, seen: &Seen, memory: Memory, afterwards: Afterwards) -> Next {
    match &seen.process {
        Some(process) if seen.is_of(process, operation) => bring_back(operation, seen, process, afterwards),
        Some(_used) => check(operation, seen, memory).unwrap_or(Next::Ask(Ask::CutOff)),
        None if seen.this_driver.launched => Next::failed(Failure::EndedAgain),
        None => check(operation, seen, memory).unwrap_or_else(|| begin(operation, seen, memory)),
    }
}

/// Before anything is thrown away: there has to be something to go back to.
fn check(operation: &Operation, seen: &Seen, memory: Memory) -> Option<Next> {
    match (memory, seen.snapshot(&operation.snapshot)) {
        (_, None) => Some(Next::failed(Failure::SnapshotMissing)),
        (Memory::Included, Some(found)) if found.memory == Memory::DiskOnly => {
            Some(Next::failed(Failure::NoMemory))
        }
        (Memory::Included | Memory::DiskOnly, Some(_)) => None,
    }
}

/// Nothing of the VM runs. A process that loads memory takes the disk back first, itself.
fn begin(operation: &Operation, seen: &Seen, memory: Memory) -> Next {
    match memory {
        Memory::Included => Next::Ask(Ask::Launch(Entry::Load(operation.snapshot.clone()))),
        Memory::DiskOnly if seen.this_driver.restored_disk => Next::Ask(Ask::Launch(Entry::Boot)),
        Memory::DiskOnly => Next::Ask(Ask::RestoreDisk),
    }
}

/// The process is the one that this operation began, and has loaded what it was to load: else it would not answer.
fn bring_back(operation: &Operation, seen: &Seen, process: &Process, afterwards: Afterwards) -> Next {
    match running(process) {
        None | Some(RunState::Busy) => Next::LookAgain(Waiting::ForQemu),
        Some(RunState::Paused) => Next::Ask(Ask::GoOn),
        Some(RunState::Broken(state)) => Next::failed(Failure::Broken { state: state.clone() }),
        Some(RunState::Running) => match (afterwards, seen.snapshot(&operation.snapshot)) {
            (Afterwards::Delete, Some(_)) => by_job(seen, operation.delete_job(), Ask::Delete),
            (Afterwards::Delete, None) | (Afterwards::Keep, _) => Next::done(seen),
        },
    }
}

fn running(process: &Process) -> Option<&RunState> {
    match &process.responds {
        Responds::With(state) => Some(state),
        Responds::NotYet | Responds::Never => None,
    }
}

/// Asked for once: a job of this operation that is there has been.
fn by_job(seen: &Seen, job: String, ask: Ask) -> Next {
    match seen.failure_of(&job) {
        Some(why) => Next::failed(Failure::Job { why: why.to_owned(), job }),
        None if seen.is_done(&job) => Next::LookAgain(Waiting::ForTheList),
        None => Next::Ask(ask),
    }
}
