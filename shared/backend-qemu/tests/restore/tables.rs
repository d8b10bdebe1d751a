//! Single looks at a VM, and what is next: those that the random walks do not come to.

use motorpool_backend_qemu::qmp::{Job, JobState, RunState};
use motorpool_backend_qemu::restore::{
    Afterwards, Ask, Failure, Goal, Memory, Next, Process, Responds, Seen, Snapshot, ThisDriver, Waiting,
};
use motorpool_backend_qemu::{Entry, Generation};

use crate::model::{name, operation};

const LIVE: Goal = Goal::Rollback(Memory::Included, Afterwards::Delete);
const COLD: Goal = Goal::Rollback(Memory::DiskOnly, Afterwards::Delete);
const SAVE: Goal = Goal::Snapshot(Memory::Included);

/// In its third generation, with its snapshot.
fn with(responds: Option<Responds>, snapshot: Option<Memory>) -> Seen {
    Seen {
        process: responds.map(|responds| Process { generation: Some(3), responds }),
        generation: Generation { number: 3, by: None, entry: Entry::Boot },
        snapshots: snapshot.map(|memory| Snapshot { name: name(), memory }).into_iter().collect(),
        jobs: Vec::new(),
        this_driver: ThisDriver::default(),
    }
}

fn running(snapshot: Option<Memory>) -> Seen {
    with(Some(Responds::With(RunState::Running)), snapshot)
}

/// The same, begun by the operation.
fn by_it(seen: Seen) -> Seen {
    let by = Some("t-1".parse().unwrap());
    Seen { generation: Generation { by, ..seen.generation.clone() }, ..seen }
}

fn next(goal: Goal, seen: &Seen) -> Next {
    operation("t-1", goal).step(seen)
}

fn failed(failure: Failure) -> Next {
    Next::End(Err(failure))
}

#[test]
fn a_vm_is_not_thrown_away_for_nothing() {
    for (goal, snapshot, failure) in [
        (LIVE, None, Failure::SnapshotMissing),
        (COLD, None, Failure::SnapshotMissing),
        (LIVE, Some(Memory::DiskOnly), Failure::NoMemory),
    ] {
        assert_eq!(next(goal, &running(snapshot)), failed(failure.clone()));
        assert_eq!(next(goal, &with(None, snapshot)), failed(failure));
    }
}

#[test]
fn inv_27_a_process_is_ended_before_its_disk_is_taken_back() {
    for (goal, begins) in [(LIVE, Ask::Launch(Entry::Load(name()))), (COLD, Ask::RestoreDisk)] {
        for state in [RunState::Running, RunState::Paused, RunState::Broken("io-error".into())] {
            let seen = with(Some(Responds::With(state)), Some(Memory::Included));
            assert_eq!(next(goal, &seen), Next::Ask(Ask::CutOff));
        }
        assert_eq!(next(goal, &with(None, Some(Memory::Included))), Next::Ask(begins));
    }
}

#[test]
fn a_silent_process_is_ended_only_where_it_is_to_be_thrown_away() {
    let waits = Next::LookAgain(Waiting::ForQemu);
    for (goal, never) in
        [(LIVE, Next::Ask(Ask::CutOff)), (SAVE, waits.clone()), (Goal::Delete, waits.clone())]
    {
        assert_eq!(next(goal, &with(Some(Responds::NotYet), None)), waits, "{goal:?}");
        assert_eq!(next(goal, &with(Some(Responds::Never), None)), never, "{goal:?}");
    }
    assert_eq!(next(LIVE, &by_it(with(Some(Responds::Never), None))), waits, "it may still load");
}

#[test]
fn what_it_has_set_going_is_its_own_and_what_another_has_is_not() {
    let paused = with(Some(Responds::With(RunState::Paused)), Some(Memory::Included));
    assert_eq!(next(LIVE, &by_it(paused.clone())), Next::Ask(Ask::GoOn));
    assert_eq!(next(LIVE, &paused), Next::Ask(Ask::CutOff));
    // The counter was lost: the process is of another generation than the one that is noted.
    let mut lost = by_it(running(Some(Memory::Included)));
    lost.generation.number = 1;
    assert_eq!(next(LIVE, &lost), Next::Ask(Ask::CutOff));
    let broken = by_it(with(Some(Responds::With(RunState::Broken("guest-panicked".into()))), None));
    assert_eq!(next(LIVE, &broken), failed(Failure::Broken { state: "guest-panicked".into() }));
}

#[test]
fn a_vm_that_ends_again_is_not_taken_back_for_ever() {
    let mut seen = by_it(with(None, Some(Memory::Included)));
    seen.this_driver.launched = true;
    assert_eq!(next(LIVE, &seen), failed(Failure::EndedAgain));
}

#[test]
fn nothing_is_begun_beside_a_job_and_what_ended_before_is_cleared() {
    let job = |id: &str, state| vec![Job { id: id.into(), state }];
    for goal in [LIVE, COLD, SAVE, Goal::Delete] {
        let mut seen = running(None);
        seen.jobs = job("save-t-0", JobState::Active);
        assert_eq!(next(goal, &seen), Next::LookAgain(Waiting::ForJob("save-t-0".into())));
        for state in [JobState::Done, JobState::Failed("no".into())] {
            seen.jobs = job("save-t-0", state);
            assert_eq!(next(goal, &seen), Next::Ask(Ask::Dismiss("save-t-0".into())));
        }
    }
    let mut seen = running(None);
    seen.jobs = job("save-t-1", JobState::Failed("no space".into()));
    let failure = Failure::Job { job: "save-t-1".into(), why: "no space".into() };
    assert_eq!(next(SAVE, &seen), failed(failure));
}

#[test]
fn snapshots() {
    for (memory, seen, expected) in [
        (Memory::Included, running(None), Next::Ask(Ask::SaveMemory)),
        (Memory::Included, with(None, None), failed(Failure::DoesNotRun)),
        (Memory::Included, with(Some(Responds::With(RunState::Paused)), None), failed(Failure::DoesNotRun)),
        (Memory::Included, running(Some(Memory::DiskOnly)), failed(Failure::NameTaken)),
        (Memory::DiskOnly, running(None), Next::Ask(Ask::SaveDisk)),
        (Memory::DiskOnly, with(None, None), Next::Ask(Ask::SaveImage)),
    ] {
        assert_eq!(next(Goal::Snapshot(memory), &seen), expected);
    }
    for found in [Memory::DiskOnly, Memory::Included] {
        assert!(matches!(next(Goal::Snapshot(Memory::DiskOnly), &running(Some(found))), Next::End(Ok(_))));
    }
    assert_eq!(next(Goal::Delete, &running(Some(Memory::DiskOnly))), Next::Ask(Ask::Delete));
    assert_eq!(next(Goal::Delete, &with(None, Some(Memory::DiskOnly))), Next::Ask(Ask::DeleteInImage));
}
