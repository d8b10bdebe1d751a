//! One VM as small as can be, with a driver that chances befall. Time is counted in looks: what is begun may take some.

use motorpool_backend_qemu::qmp::{Job, JobState, RunState};
use motorpool_backend_qemu::restore::{
    Afterwards, Ask, Done, Failure, Goal, Memory, Next, Operation, Process, Responds, Seen, Snapshot,
    ThisDriver,
};
use motorpool_backend_qemu::{Entry, Generation, OperationId, SnapshotName};

/// What happens at one step of the driver.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Chance {
    Nothing,
    /// Before it does what is next.
    KilledBefore,
    /// What is next is done to its end, and the driver is no more.
    KilledAfter,
    /// In the middle: what is next goes on for so many looks, and is done then.
    KilledInTheMiddle(u8),
    /// Of a start: the generation is noted, and no process begins. Of others: as if it was killed before.
    KilledBetween,
    /// An order to QEMU arrives, and its answer does not. Of others: nothing.
    AnswerLost,
    /// An order to QEMU does not arrive. Of others: nothing.
    OrderLost,
    /// It is slow.
    Slow(u8),
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) process: Option<(u64, RunState)>,
    pub(crate) generation: Generation,
    pub(crate) snapshot: Option<Memory>,
    jobs: Vec<Job>,
    /// What was begun, and for how many looks it goes on.
    at_work: Option<(u8, Ask)>,
    /// Something ran on the disk since it was as in the snapshot.
    pub(crate) used: bool,
    pub(crate) effective_rollbacks: usize,
    pub(crate) saves: usize,
    pub(crate) deletions: usize,
    /// The VM's memory is the snapshot's, or of a boot on its disk.
    pub(crate) job_fails: bool,
    /// What must never happen, and did.
    pub(crate) broken: Vec<String>,
}

/// What became of an operation.
#[derive(Debug)]
pub(crate) struct Driven {
    pub(crate) end: Result<Done, Failure>,
    pub(crate) steps: usize,
    /// Which chance, and in what.
    pub(crate) befell: Vec<String>,
}

pub(crate) fn name() -> SnapshotName {
    SnapshotName::of("cp-1")
}

pub(crate) fn operation(id: &str, goal: Goal) -> Operation {
    Operation { id: id.parse().unwrap(), snapshot: name(), goal }
}

pub(crate) const ROLLBACKS: [Goal; 4] = [
    Goal::Rollback(Memory::Included, Afterwards::Delete),
    Goal::Rollback(Memory::Included, Afterwards::Keep),
    Goal::Rollback(Memory::DiskOnly, Afterwards::Delete),
    Goal::Rollback(Memory::DiskOnly, Afterwards::Keep),
];

impl Model {
    /// It runs in its third generation, a job was on it, and it has the snapshot from before that.
    pub(crate) fn used() -> Self {
        Self {
            process: Some((3, RunState::Running)),
            generation: Generation { number: 3, by: None, entry: Entry::Boot },
            snapshot: Some(Memory::Included),
            jobs: Vec::new(),
            at_work: None,
            used: true,
            effective_rollbacks: 0,
            saves: 0,
            deletions: 0,
            job_fails: false,
            broken: Vec::new(),
        }
    }

    pub(crate) fn without_a_snapshot() -> Self {
        Self { snapshot: None, ..Self::used() }
    }

    pub(crate) fn runs(&self) -> bool {
        matches!(self.process, Some((number, RunState::Running)) if number == self.generation.number)
    }

    fn seen(&self, this_driver: ThisDriver) -> Seen {
        let silent = self.at_work.as_ref().is_some_and(|(_, ask)| !by_job(ask));
        let process = self.process.as_ref().map(|(number, state)| Process {
            generation: (!silent).then_some(*number),
            responds: if silent { Responds::NotYet } else { Responds::With(state.clone()) },
        });
        let answers = process.as_ref().is_none_or(|process| process.responds != Responds::NotYet);
        let snapshots = self.snapshot.filter(|_| answers).map(|memory| Snapshot { name: name(), memory });
        Seen {
            process,
            generation: self.generation.clone(),
            snapshots: snapshots.into_iter().collect(),
            jobs: if answers { self.jobs.clone() } else { Vec::new() },
            this_driver,
        }
    }

    fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(what());
        }
    }

    /// It is begun: what of it is seen at once.
    fn begin(&mut self, ask: &Ask, by: &OperationId, looks: u8) {
        let at_work = self.at_work.clone();
        self.must(at_work.is_none(), || format!("{ask:?} is begun beside {at_work:?}"));
        let runs = self.process.is_some();
        match ask {
            Ask::RestoreDisk | Ask::SaveImage | Ask::DeleteInImage => {
                self.must(!runs, || format!("{ask:?} while it has a process"));
            }
            Ask::Launch(entry) => {
                self.must(!runs, || "a second process".to_owned());
                if *entry == Entry::Boot {
                    self.must(!self.used, || "a used disk is booted".to_owned());
                }
                self.note(by, entry.clone());
                self.process = Some((self.generation.number, RunState::Paused));
            }
            Ask::SaveMemory | Ask::Delete => {
                let what = if *ask == Ask::SaveMemory { "save" } else { "delete" };
                let id = format!("{what}-{by}");
                let again = self.jobs.iter().any(|job| job.id == id);
                self.must(!again, || format!("{id} is asked for again"));
                self.jobs.push(Job { id, state: JobState::Active });
            }
            Ask::CutOff | Ask::GoOn | Ask::SaveDisk | Ask::Dismiss(_) => {}
        }
        self.at_work = Some((looks, ask.clone()));
        self.tick();
    }

    pub(crate) fn note(&mut self, by: &OperationId, entry: Entry) {
        self.generation = Generation { number: self.generation.number + 1, by: Some(by.clone()), entry };
    }

    /// Time passes.
    fn tick(&mut self) {
        match self.at_work.take() {
            Some((0, ask)) => self.finish(ask),
            Some((looks, ask)) => self.at_work = Some((looks - 1, ask)),
            None => {}
        }
    }

    fn finish(&mut self, ask: Ask) {
        match ask {
            Ask::CutOff => (self.process, self.jobs) = (None, Vec::new()),
            Ask::RestoreDisk | Ask::Launch(Entry::Load(_)) => {
                let there = self.snapshot.is_some();
                self.must(there, || "there is nothing to go back to".to_owned());
                self.effective_rollbacks += usize::from(self.used);
                self.used = false;
            }
            Ask::Launch(Entry::Boot) => {}
            Ask::GoOn => {
                if let Some((_, state)) = &mut self.process {
                    *state = RunState::Running;
                }
                self.used = true;
            }
            Ask::SaveMemory => self.job_ends(|model| {
                (model.snapshot, model.saves) = (Some(Memory::Included), model.saves + 1);
            }),
            Ask::SaveDisk | Ask::SaveImage => {
                (self.snapshot, self.saves) = (Some(Memory::DiskOnly), self.saves + 1);
            }
            Ask::Delete => self.job_ends(|model| {
                (model.snapshot, model.deletions) = (None, model.deletions + 1);
            }),
            Ask::DeleteInImage => (self.snapshot, self.deletions) = (None, self.deletions + 1),
            Ask::Dismiss(id) => self.jobs.retain(|job| job.id != id),
        }
    }

    fn job_ends(&mut self, well: impl FnOnce(&mut Self)) {
        let state = if self.job_fails { JobState::Failed("no space".into()) } else { JobState::Done };
        if let Some(job) = self.jobs.last_mut() {
            job.state = state;
        }
        if !self.job_fails {
            well(self);
        }
    }
}

fn by_job(ask: &Ask) -> bool {
    matches!(ask, Ask::SaveMemory | Ask::Delete)
}

fn to_qemu(ask: &Ask) -> bool {
    by_job(ask) || matches!(ask, Ask::GoOn | Ask::SaveDisk | Ask::Dismiss(_))
}

impl Driven {
    /// Chances befall the driver one a step; when they are used up, nothing more happens.
    pub(crate) fn to_the_end(model: &mut Model, operation: &Operation, chances: &[Chance]) -> Self {
        // All that it has beside what it sees; a driver that is killed comes back without it.
        let mut memory = ThisDriver::default();
        let (mut befell, mut chances) = (Vec::new(), chances.iter().copied());
        for steps in 0..1_000 {
            model.tick();
            let next = operation.step(&model.seen(memory));
            let chance = chances.next().unwrap_or(Chance::Nothing);
            if matches!(chance, Chance::KilledBefore) {
                memory = ThisDriver::default();
                continue;
            }
            match next {
                Next::End(end) => return Self { end, steps, befell },
                Next::LookAgain(_) => {}
                Next::Ask(ask) => {
                    let kind = if let Ask::Launch(_) = ask { "Launch".into() } else { format!("{ask:?}") };
                    befell.push(format!("{chance:?} {kind}"));
                    Self::one(model, operation, &ask, chance, &mut memory);
                }
            }
        }
        panic!("it goes on for ever: {model:?}");
    }

    fn one(model: &mut Model, operation: &Operation, ask: &Ask, chance: Chance, memory: &mut ThisDriver) {
        let remember = |memory: &mut ThisDriver| match ask {
            Ask::RestoreDisk => memory.restored_disk = true,
            Ask::Launch(_) => memory.launched = true,
            _ => {}
        };
        match chance {
            Chance::Nothing | Chance::KilledBefore => {
                model.begin(ask, &operation.id, 0);
                remember(memory);
            }
            // The driver waits for what is no order to QEMU, however slow it is.
            Chance::Slow(looks) => {
                model.begin(ask, &operation.id, if by_job(ask) { looks } else { 0 });
                remember(memory);
            }
            Chance::KilledAfter => {
                model.begin(ask, &operation.id, 0);
                *memory = ThisDriver::default();
            }
            Chance::KilledInTheMiddle(looks) => {
                model.begin(ask, &operation.id, looks);
                *memory = ThisDriver::default();
                // A program on the image has the driver's lock: nobody looks before it has ended.
                while matches!(
                    model.at_work,
                    Some((_, Ask::RestoreDisk | Ask::SaveImage | Ask::DeleteInImage))
                ) {
                    model.tick();
                }
            }
            Chance::KilledBetween => {
                if let Ask::Launch(entry) = ask {
                    model.note(&operation.id, entry.clone());
                }
                *memory = ThisDriver::default();
            }
            Chance::AnswerLost => {
                model.begin(ask, &operation.id, 0);
                remember(memory);
            }
            Chance::OrderLost if to_qemu(ask) => {}
            Chance::OrderLost => {
                model.begin(ask, &operation.id, 0);
                remember(memory);
            }
        }
    }
}
