//! The program that keeps a runner registered: what it needs from the CI system, its begin, and what its end means. It
//! runs nothing, and keeps no secret.

use std::collections::BTreeMap;
use std::time::Duration;

use motorpool_domain::ci::CiSystem;
use motorpool_domain::runner::TaskOutcome;
use motorpool_domain::{Epoch, Label, TaskId};
use motorpool_wire::agent::{RegistrationAnswer, TaskKind, TaskOrder};

use super::tasks::{Leash, Task, TaskStage};
use super::{Effect, Kind, Machine, Phase, Registered, RegistrationFailure, Remembered};
use crate::clock::BootInstant;

/// Started again and again at once, a program that ends sooner would keep host and control plane busy.
const QUICK_END: Duration = Duration::from_secs(10);

/// So many in a row that did nothing, and the next would not either.
const MOST_FAILURES: u32 = 3;

/// What to ask the control plane for. The same count again is the same registration, and is asked for by one process only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    pub label: Label,
    pub epoch: Epoch,
    pub count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStart {
    /// The operator's command line; without one, that of the registration's CI system.
    pub program: Option<String>,
    /// What the program needs from its CI system. It goes into the program's environment, and nowhere else.
    pub registration: Option<RegistrationAnswer>,
    pub label: Label,
    pub epoch: Epoch,
    pub fence_at: Option<BootInstant>,
    /// Of the pool.
    pub env: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// By itself, with exit code 0, and nothing of it is left.
    pub well: bool,
    /// In one line, with the end of its output.
    pub how: String,
}

#[derive(Debug)]
pub(super) struct Fetching {
    fetch: Fetch,
    failures: u32,
    /// None while the answer is awaited.
    again_at: Option<BootInstant>,
}

#[derive(Debug)]
pub(super) struct Run {
    /// By which it was ordered.
    task: TaskId,
    epoch: Epoch,
    ci: Option<CiSystem>,
    started_at: BootInstant,
    pub(super) leash: Leash,
}

impl Run {
    /// Whether it did nothing. Most programs tell by their exit code whether they did a job. GitHub's says 0 for most of
    /// its errors too, but it does no job within seconds.
    fn failed(&self, end: &RunEnd, lived: Duration) -> bool {
        let too_short = match self.ci {
            Some(CiSystem::GitHub) => Duration::from_secs(5),
            Some(CiSystem::GitLab | CiSystem::Jenkins) | None => Duration::from_secs(1),
        };
        lived < too_short || (lived < QUICK_END && !end.well)
    }
}

/// How programs ended of late, each count in a row.
#[derive(Debug, Default)]
pub(super) struct Ends {
    quick: u32,
    failed: u32,
}

impl Machine {
    pub(super) fn fetch(
        &mut self,
        mut task: Task,
        label: Label,
        now: BootInstant,
        effects: &mut Vec<Effect>,
    ) {
        if !self.may_begin(task.epoch, now) {
            return self.conclude(&task, too_late(), now);
        }
        let fetch = Fetch { label, epoch: task.epoch, count: self.memory.next_program() };
        effects.push(Effect::FetchRegistration(fetch.clone()));
        task.stage = TaskStage::Fetching(Fetching { fetch, failures: 0, again_at: None });
        self.task = Some(task);
    }

    pub(super) fn fetched(
        &mut self,
        fetch: &Fetch,
        answer: RegistrationAnswer,
        now: BootInstant,
        effects: &mut Vec<Effect>,
    ) {
        let Some(task) = self.task.take_if(|task| fetching(task).is_some_and(|it| it.fetch == *fetch)) else {
            return;
        };
        let program = match &task.order.kind {
            TaskKind::Register { run, .. } => run.clone(),
            TaskKind::Prepare { .. }
            | TaskKind::Deregister { .. }
            | TaskKind::Cleanup { .. }
            | TaskKind::Reset { .. }
            | TaskKind::Readiness { .. } => None,
        };
        let outcome = self.begin(&task, &fetch.label, program, Some(answer), now, effects);
        self.conclude(&task, outcome, now);
    }

    pub(super) fn fetch_failed(&mut self, fetch: &Fetch, failure: RegistrationFailure, now: BootInstant) {
        let Some(it) = self.task.as_mut().and_then(fetching).filter(|it| it.fetch == *fetch) else { return };
        it.failures = it.failures.saturating_add(1);
        let pause = match failure {
            RegistrationFailure::Later { wait: Some(told) } => self.contact.backoff_beyond(told, it.failures),
            RegistrationFailure::Later { wait: None } => self.contact.backoff(it.failures),
            // Or it was handed out to somebody else: then the next one is this agent's.
            RegistrationFailure::Outdated => {
                it.fetch.count = self.memory.next_program();
                self.contact.report_at(now);
                self.contact.backoff(it.failures)
            }
            RegistrationFailure::Refused { why } => {
                if let Some(task) = self.task.take() {
                    let why = format!("its registration was refused: {why}");
                    self.conclude(&task, TaskOutcome::Failed { why }, now);
                }
                return;
            }
        };
        it.again_at = Some(now + pause);
    }

    pub(super) fn fetch_if_due(&mut self, now: BootInstant, effects: &mut Vec<Effect>) {
        if let Some(it) = self.task.as_mut().and_then(fetching)
            && it.again_at.take_if(|at| at.passed(now)).is_some()
        {
            effects.push(Effect::FetchRegistration(it.fetch.clone()));
        }
    }

    pub(super) fn fetch_again_at(&mut self) -> Option<BootInstant> {
        self.task.as_mut().and_then(fetching)?.again_at
    }

    /// An answer that comes all the same finds nobody. What it registered is the control plane's to take back.
    pub(super) fn drop_fetch(&mut self) -> bool {
        self.task.take_if(|task| fetching(task).is_some()).is_some()
    }

    /// It may go on for as long as the CI system is down, and must not keep a runner that nobody wants registered any more.
    pub(super) fn drop_unwanted_fetch(&mut self, ordered: Option<&TaskOrder>, now: BootInstant) {
        let wanted =
            self.task.as_ref().is_some_and(|task| ordered.is_some_and(|order| order.id == *task.id()));
        if !wanted && self.drop_fetch() {
            self.contact.report_at(now);
        }
    }

    /// The runner is registered, or is by its program: now that begins.
    pub(super) fn begin(
        &mut self,
        task: &Task,
        label: &Label,
        program: Option<String>,
        registration: Option<RegistrationAnswer>,
        now: BootInstant,
        effects: &mut Vec<Effect>,
    ) -> TaskOutcome {
        if !self.may_begin(task.epoch, now) {
            return too_late();
        }
        self.memory.registered = Some(Registered { label: label.clone(), by_run: true });
        self.run = Some(Run {
            task: task.id().clone(),
            epoch: task.epoch,
            ci: registration.as_ref().map(|registration| registration.system),
            started_at: now,
            leash: Leash::Free,
        });
        effects.push(Effect::StartRun(RunStart {
            program,
            registration,
            label: label.clone(),
            epoch: task.epoch,
            fence_at: self.deadlines().work_ends_at(),
            env: task.order.env.clone(),
        }));
        TaskOutcome::Done
    }

    fn may_begin(&self, epoch: Epoch, now: BootInstant) -> bool {
        epoch == self.memory.epoch && self.phase == Phase::Working && !self.work_time_over(now)
    }

    pub(super) fn run_ended(&mut self, end: &RunEnd, now: BootInstant, effects: &mut Vec<Effect>) {
        let Some(run) = self.run.take() else { return };
        if let Some(task) = self.task.take_if(|task| matches!(task.stage, TaskStage::StoppingRun)) {
            return self.run_stopped_for(task, now, effects);
        }
        self.memory.unregister();
        let lived = now.since(run.started_at);
        // One that was told to end, at a deadline, says nothing of the next.
        let by_itself = run.leash == Leash::Free && self.phase == Phase::Working;
        let in_a_row = |so_far: u32, another: bool| if another { so_far.saturating_add(1) } else { 0 };
        self.ends = Ends {
            quick: in_a_row(self.ends.quick, by_itself && lived < QUICK_END),
            failed: in_a_row(self.ends.failed, by_itself && run.failed(end, lived)),
        };
        let pause = match self.ends.quick {
            0 | 1 => Duration::ZERO,
            more => self.contact.backoff(more - 1),
        };
        if self.ends.failed < MOST_FAILURES || run.epoch != self.memory.epoch {
            return self.contact.report_at(now + pause);
        }
        let why = format!(
            "its runner program ended {MOST_FAILURES} times in a row as soon as it had begun; the last time {}",
            end.how
        );
        let outcome = TaskOutcome::Failed { why };
        self.memory.remember(Remembered { task: run.task, kind: Kind::Register, outcome, took_ms: None });
        self.ends = Ends::default();
        self.contact.report_at(now);
    }
}

fn fetching(task: &mut Task) -> Option<&mut Fetching> {
    match &mut task.stage {
        TaskStage::Fetching(fetching) => Some(fetching),
        TaskStage::StoppingRun | TaskStage::Script(_) => None,
    }
}

fn too_late() -> TaskOutcome {
    TaskOutcome::Failed { why: "its time was over before its runner program began".to_owned() }
}
