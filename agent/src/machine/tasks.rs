//! Tasks and their stages: one task at a time, each once an epoch. What a registration does after its script is not here.

use std::collections::BTreeMap;
use std::time::Duration;

use motorpool_domain::runner::TaskOutcome;
use motorpool_domain::time::millis;
use motorpool_domain::{Epoch, Label, TaskId};
use motorpool_wire::agent::{TaskKind, TaskOrder};

use super::program::{Ends, Fetching};
use super::{Effect, GRACE, Kind, Machine, Phase, Registered, Remembered};
use crate::clock::BootInstant;

/// What a runner program gets to end by itself before its runner is deregistered or cleaned.
const RUN_GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStart {
    pub id: TaskId,
    pub kind: Kind,
    pub act: Act,
    pub label: Option<Label>,
    pub epoch: Epoch,
    pub timeout: Duration,
    pub fence_at: Option<BootInstant>,
    /// Of the pool.
    pub env: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// The operator's own script.
    Script(String),
    EmptyWorkDir,
}

#[derive(Debug)]
pub(super) struct Task {
    pub(super) order: TaskOrder,
    pub(super) epoch: Epoch,
    pub(super) stage: TaskStage,
    /// Since when its script runs, or would if it had one.
    begun: Option<BootInstant>,
}

impl Task {
    pub(super) fn id(&self) -> &TaskId {
        &self.order.id
    }

    fn kind(&self) -> Kind {
        Kind::of(&self.order.kind)
    }
}

#[derive(Debug)]
pub(super) enum TaskStage {
    /// First the runner program that runs must end.
    StoppingRun,
    Script(Leash),
    /// The script is done; what the runner program needs is asked for.
    Fetching(Fetching),
}

/// How far a process was told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Leash {
    Free,
    Asked,
    Killed,
}

impl Leash {
    /// Tells whether the process has to be told anew.
    fn shorten(&mut self, grace: Duration) -> bool {
        let wanted = if grace.is_zero() { Self::Killed } else { Self::Asked };
        let shorter = *self < wanted;
        *self = (*self).max(wanted);
        shorter
    }
}

impl Machine {
    /// An order that must wait is dropped: it comes again with the sync after the present task's end.
    pub(super) fn consider(&mut self, order: &TaskOrder, now: BootInstant, effects: &mut Vec<Effect>) {
        if self.task.is_some() || self.memory.has_result(&order.id) || self.work_time_over(now) {
            return;
        }
        let stage = TaskStage::StoppingRun;
        let task = Task { order: order.clone(), epoch: self.memory.epoch, stage, begun: None };
        let run_must_end = match task.kind() {
            Kind::Prepare => false,
            Kind::Register => {
                self.memory.forget(Kind::Deregister);
                true
            }
            Kind::Deregister | Kind::Cleanup | Kind::Reset | Kind::Readiness => true,
        };
        if run_must_end && let Some(run) = &mut self.run {
            let grace = RUN_GRACE.min(Duration::from_millis(order.timeout_ms) / 2);
            if run.leash.shorten(grace) {
                effects.push(Effect::StopRun { grace });
            }
            self.task = Some(task);
        } else {
            self.start(task, now, effects);
        }
    }

    fn start(&mut self, mut task: Task, now: BootInstant, effects: &mut Vec<Effect>) {
        task.begun = Some(now);
        let act = match &task.order.kind {
            TaskKind::Prepare { script }
            | TaskKind::Register { script, label: _, run: _, ci: _ }
            | TaskKind::Deregister { script, label: _ } => script.clone().map(Act::Script),
            TaskKind::Cleanup { script } => Some(script.clone().map_or(Act::EmptyWorkDir, Act::Script)),
            TaskKind::Reset { script } | TaskKind::Readiness { script } => Some(Act::Script(script.clone())),
        };
        let Some(act) = act else { return self.finish(task, TaskOutcome::Done, now, effects) };
        let label = match &task.order.kind {
            TaskKind::Register { label, .. } | TaskKind::Deregister { label, .. } => Some(label.clone()),
            TaskKind::Prepare { .. }
            | TaskKind::Cleanup { .. }
            | TaskKind::Reset { .. }
            | TaskKind::Readiness { .. } => None,
        };
        effects.push(Effect::StartTask(TaskStart {
            id: task.id().clone(),
            kind: task.kind(),
            act,
            label,
            epoch: task.epoch,
            timeout: Duration::from_millis(task.order.timeout_ms),
            fence_at: self.deadlines().work_ends_at(),
            env: task.order.env.clone(),
        }));
        task.stage = TaskStage::Script(Leash::Free);
        self.task = Some(task);
    }

    pub(super) fn task_ended(
        &mut self,
        id: &TaskId,
        outcome: TaskOutcome,
        now: BootInstant,
        effects: &mut Vec<Effect>,
    ) {
        let is_this = |task: &mut Task| task.id() == id && matches!(task.stage, TaskStage::Script(_));
        if let Some(task) = self.task.take_if(is_this) {
            self.finish(task, outcome, now, effects);
        }
    }

    /// The task's script is done, or it had none.
    fn finish(&mut self, task: Task, outcome: TaskOutcome, now: BootInstant, effects: &mut Vec<Effect>) {
        let outcome = match (&task.order.kind, outcome) {
            (TaskKind::Register { label, run: _, ci: Some(_), script: _ }, TaskOutcome::Done) => {
                let label = label.clone();
                return self.fetch(task, label, now, effects);
            }
            (TaskKind::Register { label, run, ci: None, script: _ }, TaskOutcome::Done) => {
                self.memory.registered = Some(Registered { label: label.clone(), by_run: false });
                match run {
                    Some(_) => self.begin(&task, label, run.clone(), None, now, effects),
                    None => TaskOutcome::Done,
                }
            }
            (TaskKind::Deregister { .. }, TaskOutcome::Done) => {
                self.memory.unregister();
                TaskOutcome::Done
            }
            (
                TaskKind::Prepare { .. }
                | TaskKind::Cleanup { .. }
                | TaskKind::Reset { .. }
                | TaskKind::Readiness { .. },
                TaskOutcome::Done,
            ) => TaskOutcome::Done,
            (_, TaskOutcome::Failed { why }) => TaskOutcome::Failed { why },
        };
        self.conclude(&task, outcome, now);
    }

    pub(super) fn conclude(&mut self, task: &Task, outcome: TaskOutcome, now: BootInstant) {
        // What failed because the agent was stopped has not failed: the next agent does it again.
        let interrupted = self.phase != Phase::Working && outcome != TaskOutcome::Done;
        if task.epoch == self.memory.epoch && !interrupted {
            let took_ms = task.begun.map(|begun| millis(now.since(begun)));
            self.memory.remember(Remembered { task: task.id().clone(), kind: task.kind(), outcome, took_ms });
        }
        self.contact.report_at(now);
    }

    pub(super) fn run_stopped_for(&mut self, task: Task, now: BootInstant, effects: &mut Vec<Effect>) {
        match (task.kind(), &mut self.memory.registered) {
            // The CI system still knows it, until the script has said otherwise.
            (Kind::Deregister, Some(registered)) => registered.by_run = false,
            (Kind::Deregister, None) => {}
            (Kind::Prepare | Kind::Register | Kind::Cleanup | Kind::Reset | Kind::Readiness, _) => {
                self.memory.unregister();
            }
        }
        let outdated = task.epoch != self.memory.epoch && task.kind() != Kind::Deregister;
        if self.phase != Phase::Working || outdated {
            self.contact.report_at(now);
        } else if self.work_time_over(now) {
            let why = "its time was over before its runner program had ended".to_owned();
            self.finish(task, TaskOutcome::Failed { why }, now, effects);
        } else {
            self.start(task, now, effects);
        }
    }

    /// A task of an earlier life only keeps the new one waiting. A deregistration is wanted in the new one too.
    pub(super) fn drop_old_task(&mut self, effects: &mut Vec<Effect>) {
        if let Some(task) = &mut self.task
            && task.kind() != Kind::Deregister
            && let TaskStage::Script(leash) = &mut task.stage
            && leash.shorten(GRACE)
        {
            effects.push(Effect::StopTask { grace: GRACE });
        }
        self.drop_fetch();
        self.ends = Ends::default();
    }

    pub(super) fn end_processes(&mut self, grace: Duration, effects: &mut Vec<Effect>) {
        self.drop_fetch();
        if let Some(leash) = self.task_leash()
            && leash.shorten(grace)
        {
            effects.push(Effect::StopTask { grace });
        }
        if let Some(run) = &mut self.run
            && run.leash.shorten(grace)
        {
            effects.push(Effect::StopRun { grace });
        }
    }

    pub(super) fn processes_run(&mut self) -> bool {
        self.task_leash().is_some() || self.run.is_some()
    }

    /// Whether something runs that was not told to end at once.
    pub(super) fn process_to_kill(&mut self) -> bool {
        let run = self.run.as_ref().map(|run| run.leash);
        self.task_leash().copied().into_iter().chain(run).any(|leash| leash < Leash::Killed)
    }

    fn task_leash(&mut self) -> Option<&mut Leash> {
        match &mut self.task.as_mut()?.stage {
            TaskStage::StoppingRun | TaskStage::Fetching(_) => None,
            TaskStage::Script(leash) => Some(leash),
        }
    }
}
