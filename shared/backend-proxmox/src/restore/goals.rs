//! What each goal asks for, of a VM that nobody is at: no task runs, it has no lock, and no call is under way.

use crate::status::Power;
use crate::task::Task;
use crate::upid::TaskKind;

use super::seen::Scene;
use super::step::{Ask, Failure, Next, Waiting};

pub(super) fn snapshot(scene: Scene<'_>, memory: bool) -> Next {
    match (scene.snapshot(), scene.did(TaskKind::Snapshot)) {
        // That a second call found the name taken is no failure: the first one has arrived.
        (Some(found), did) if !found.unfinished => {
            Next::done(did.filter(|task| Next::unless_well(task).is_none()))
        }
        (Some(_unfinished), _) => Next::failed(Failure::SnapshotUnfinished),
        (None, None) => Next::Ask(Ask::Snapshot { memory }),
        (None, Some(task)) => well_or(task, Waiting::ForTheList),
    }
}

pub(super) fn delete(scene: Scene<'_>) -> Next {
    let did = scene.did(TaskKind::DeleteSnapshot);
    match (scene.snapshot(), did) {
        (None, did) => Next::done(did),
        (Some(_), None) => Next::Ask(Ask::DeleteSnapshot),
        (Some(_), Some(task)) => well_or(task, Waiting::ForTheList),
    }
}

/// Stop, roll back, start, delete: each is done when its task has ended well and the VM shows it.
pub(super) fn rollback(scene: Scene<'_>, power: Power) -> Next {
    match scene.did(TaskKind::Rollback) {
        None => prepare(scene, power),
        Some(rolled_back) => match Next::unless_well(rolled_back) {
            Some(next) => next,
            None => bring_back(scene, power, rolled_back),
        },
    }
}

/// Nothing was rolled back yet.
fn prepare(scene: Scene<'_>, power: Power) -> Next {
    match scene.snapshot() {
        None => return Next::failed(Failure::SnapshotMissing),
        Some(found) if found.unfinished => return Next::failed(Failure::SnapshotUnfinished),
        Some(_) => {}
    }
    match (power, scene.did(TaskKind::Stop)) {
        (Power::Stopped, _) => Next::Ask(Ask::Rollback),
        (Power::Running, None) => Next::Ask(Ask::Stop),
        (Power::Running, Some(task)) => well_or(task, Waiting::ForTheStop),
    }
}

/// The disks are as they were. A snapshot with memory has started the VM, too.
fn bring_back(scene: Scene<'_>, power: Power, rolled_back: &Task) -> Next {
    match (power, scene.did_since(TaskKind::Start, &rolled_back.upid)) {
        (Power::Stopped, None) => return Next::Ask(Ask::Start),
        (Power::Stopped, Some(task)) => return well_or(task, Waiting::ForTheStart),
        (Power::Running, _) => {}
    }
    match (scene.snapshot(), scene.did(TaskKind::DeleteSnapshot)) {
        (None, _) => Next::done(Some(rolled_back)),
        (Some(_), None) => Next::Ask(Ask::DeleteSnapshot),
        (Some(_), Some(task)) => well_or(task, Waiting::ForTheList),
    }
}

fn well_or(task: &Task, waiting: Waiting) -> Next {
    Next::unless_well(task).unwrap_or(Next::LookAgain(waiting))
}
