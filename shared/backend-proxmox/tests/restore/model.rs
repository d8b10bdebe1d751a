//! One VM as Proxmox VE has it, as small as can be, with a driver that chances befall. Time is counted in looks: a call that is late arrives
//! within as many as the driver waits for one that was not answered.

use motorpool_backend_proxmox::restore::{Ask, Goal, Memory, Next, Operation, Outcome, Seen};
use motorpool_backend_proxmox::{
    Lock, Power, Snapshot, SnapshotName, Task, TaskEnd, TaskState, Upid, Vm, VmId, VmStatus,
};

/// For how many looks a call may be late.
const MAY_ARRIVE_FOR: u8 = 4;
const TOKEN: &str = "motorpool@pve!site";

/// What happens at one step of the driver.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Chance {
    Nothing,
    /// Before it does what is next.
    KilledBefore,
    /// While its call is on its way: the call arrives.
    KilledInTheCall,
    /// The call was answered, and the task not noted.
    KilledBeforeNoting,
    AnswerLost,
    /// It never arrives, and nobody says so.
    CallLost,
    /// It arrives after so many looks, and nobody says so.
    CallLate(u8),
    /// The task that runs goes on for a while.
    TaskIsSlow,
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) running: bool,
    /// A job was on its disk since the snapshot.
    pub(crate) dirty: bool,
    /// Whether it is finished.
    pub(crate) snapshot: Option<bool>,
    pub(crate) lock: Option<Lock>,
    tasks: Vec<(Task, Ask)>,
    late: Option<(u8, Ask)>,
    /// Its n-th task fails.
    pub(crate) fails: Option<usize>,
    pub(crate) effective_rollbacks: usize,
    pub(crate) snapshots_taken: usize,
    /// What must never happen, and did.
    pub(crate) broken: Vec<String>,
    clock: u64,
}

/// What became of an operation.
#[derive(Debug)]
pub(crate) struct Driven {
    pub(crate) outcome: Outcome,
    pub(crate) steps: usize,
    /// Which chance, and in which call.
    pub(crate) befell: Vec<String>,
}

pub(crate) fn name() -> SnapshotName {
    SnapshotName::of("cp-1")
}

pub(crate) fn vm() -> Vm {
    Vm { node: "pve1".parse().unwrap(), id: VmId::try_from(101).unwrap() }
}

pub(crate) fn operation(goal: Goal) -> Operation {
    Operation { id: "t-1".to_owned(), vm: vm(), snapshot: name(), goal }
}

impl Model {
    /// A job was on it, and it has the snapshot from before that.
    pub(crate) fn used() -> Self {
        Self { dirty: true, snapshot: Some(true), ..Self::without_a_snapshot() }
    }

    pub(crate) fn without_a_snapshot() -> Self {
        Self {
            running: true,
            dirty: false,
            snapshot: None,
            lock: None,
            tasks: Vec::new(),
            late: None,
            fails: None,
            effective_rollbacks: 0,
            snapshots_taken: 0,
            broken: Vec::new(),
            clock: 1_000,
        }
    }

    pub(crate) fn next_job(&mut self) {
        (self.snapshot, self.dirty) = (Some(true), true);
    }

    pub(crate) fn begun(&self) -> usize {
        self.tasks.len()
    }

    fn seen(&self, call_may_arrive: bool) -> Seen {
        let power = if self.running { Power::Running } else { Power::Stopped };
        let snapshot = |finished: bool| Snapshot {
            name: name(),
            parent: None,
            taken_at: Some(1),
            has_memory: false,
            unfinished: !finished,
        };
        Seen {
            tasks: self.tasks.iter().rev().map(|(task, _)| task.clone()).collect(),
            vm: Some(VmStatus { power, qmpstatus: None, lock: self.lock.clone() }),
            snapshots: self.snapshot.map(snapshot).into_iter().collect(),
            call_may_arrive,
            token: TOKEN.to_owned(),
        }
    }

    fn begin(&mut self, ask: Ask) -> Upid {
        if let Some((task, other)) = self.tasks.iter().find(|(task, _)| task.state == TaskState::Running) {
            self.broken.push(format!("{ask:?} is begun while {other:?} runs as {}", task.upid));
        }
        if ask == Ask::Rollback && self.running {
            self.broken.push("rolled back while it runs".to_owned());
        }
        self.lock = match ask {
            Ask::Rollback => Some(Lock::Rollback),
            Ask::Snapshot { .. } => {
                self.snapshot.get_or_insert(false);
                Some(Lock::Snapshot)
            }
            Ask::DeleteSnapshot => Some(Lock::SnapshotDelete),
            Ask::Stop | Ask::Start => None,
        };
        self.clock += 1;
        let kind = match ask {
            Ask::Stop => "qmstop",
            Ask::Rollback => "qmrollback",
            Ask::Start => "qmstart",
            Ask::Snapshot { .. } => "qmsnapshot",
            Ask::DeleteSnapshot => "qmdelsnapshot",
        };
        let upid: Upid =
            format!("UPID:pve1:00001000:00001000:{:08X}:{kind}:101:{TOKEN}:", self.clock).parse().unwrap();
        self.tasks.push((Task { upid: upid.clone(), state: TaskState::Running }, ask));
        upid
    }

    /// The task that runs ends.
    fn finish(&mut self) {
        let Some(place) = self.tasks.iter().position(|(task, _)| task.state == TaskState::Running) else {
            return;
        };
        self.lock = None;
        let ask = self.tasks[place].1;
        if self.fails == Some(place) {
            let exit_status = "storage 'tank' is not online".to_owned();
            self.tasks[place].0.state = TaskState::Ended(TaskEnd::Failed { exit_status });
            return;
        }
        self.tasks[place].0.state = TaskState::Ended(TaskEnd::Ok);
        match ask {
            Ask::Stop => self.running = false,
            Ask::Start => self.running = true,
            Ask::Rollback => {
                self.effective_rollbacks += 1;
                self.dirty = false;
            }
            Ask::Snapshot { .. } => {
                self.snapshots_taken += 1;
                self.snapshot = Some(true);
            }
            Ask::DeleteSnapshot => self.snapshot = None,
        }
    }

    /// Time passes: what is late may come.
    fn tick(&mut self) {
        self.late = match self.late.take() {
            Some((0, ask)) => {
                self.begin(ask);
                None
            }
            Some((looks, ask)) => Some((looks - 1, ask)),
            None => None,
        };
    }
}

impl Driven {
    /// Chances befall the driver one a step; when they are used up, nothing more happens.
    pub(crate) fn to_the_end(model: &mut Model, operation: Operation, chances: &[Chance]) -> Self {
        // What is on disk. A driver that is killed comes back with this.
        let mut noted = Memory::of(operation);
        let (mut doubt, mut befell) = (0_u8, Vec::new());
        let mut chances = chances.iter().copied();
        for steps in 0..1_000 {
            model.tick();
            let next = noted.step(&model.seen(doubt > 0));
            doubt = doubt.saturating_sub(1);
            let chance = chances.next().unwrap_or(Chance::Nothing);
            if matches!(chance, Chance::KilledBefore) {
                doubt = MAY_ARRIVE_FOR;
                continue;
            }
            match next {
                Next::Remember(memory) => noted = memory,
                Next::Adopt(upid) => (noted, doubt) = (noted.noting(&upid), 0),
                Next::Await(_) if matches!(chance, Chance::TaskIsSlow) => {}
                Next::Await(_) => model.finish(),
                Next::LookAgain(_) => {}
                Next::End(outcome) => return Self { outcome, steps, befell },
                Next::Ask(ask) => {
                    befell.push(format!("{chance:?} {ask:?}"));
                    match chance {
                        Chance::Nothing | Chance::KilledBefore | Chance::TaskIsSlow => {
                            let upid = model.begin(ask);
                            noted = noted.noting(&upid);
                        }
                        Chance::KilledInTheCall | Chance::KilledBeforeNoting => {
                            model.begin(ask);
                            doubt = MAY_ARRIVE_FOR;
                        }
                        Chance::AnswerLost => {
                            model.begin(ask);
                            doubt = MAY_ARRIVE_FOR;
                        }
                        Chance::CallLost => doubt = MAY_ARRIVE_FOR,
                        Chance::CallLate(looks) => {
                            model.late = Some((looks.min(MAY_ARRIVE_FOR - 2), ask));
                            doubt = MAY_ARRIVE_FOR;
                        }
                    }
                }
            }
        }
        panic!("it goes on for ever: {noted:?}, {model:?}");
    }
}
