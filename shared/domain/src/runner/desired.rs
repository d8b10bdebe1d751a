//! What an agent should do next, and what its report means. The agent reconciles: it is told what should be.

use crate::ids::{Label, TaskId};
use crate::pool::{Clean, Dispatch, Rules};
use crate::runner::{
    CleanStep, Hold, ProofKind, Runner, RunnerEvent, RunnerState, awaits_pause, awaits_step,
};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// What an agent sees on its host, in its present epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observed {
    pub registered: Option<Label>,
    /// The task that it is at.
    pub busy: Option<TaskId>,
    /// How the tasks ended that it has done in this epoch.
    pub results: Vec<TaskResult>,
    /// It changes its token with each reset, and has not done so in this one.
    pub owes_token: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskResult {
    pub task: TaskId,
    pub outcome: TaskOutcome,
    /// From its start to its end, on the agent's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskOutcome {
    Done,
    Failed { why: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Run the operator's pre-runner script.
    Prepare {
        id: TaskId,
    },
    Register {
        id: TaskId,
        label: Label,
    },
    Deregister {
        id: TaskId,
        label: Label,
    },
    Cleanup {
        id: TaskId,
    },
    /// Make the machine what it was before any job.
    Reset {
        id: TaskId,
    },
    /// See whether a machine that was cleaned can take a job.
    Readiness {
        id: TaskId,
    },
}

impl Task {
    pub fn id(&self) -> &TaskId {
        match self {
            Self::Prepare { id }
            | Self::Register { id, .. }
            | Self::Deregister { id, .. }
            | Self::Cleanup { id }
            | Self::Reset { id }
            | Self::Readiness { id } => id,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Desired {
    /// Nothing to do but to be there.
    Rest,
    Do(Task),
    /// End the host, or on a kept machine the agent and its work.
    End,
}

/// The next step from what is observed towards what the record asks for.
pub fn desired(runner: &Runner, observed: &Observed, rules: &Rules, now: Timestamp) -> Desired {
    let tasks = Tasks { runner, observed };
    match &runner.state {
        RunnerState::Created { hold, .. } => {
            if !tasks.done(&tasks.prepare_id()) {
                return Desired::Do(Task::Prepare { id: tasks.prepare_id() });
            }
            tasks.registration(hold.as_ref().map(|hold| tasks.label(hold)))
        }
        // The program that was registered has had its job, and is good for no other: the next may come to a clean machine alone.
        RunnerState::Running { hold, .. } if hold.holder.is_one_job() && observed.registered.is_none() => {
            Desired::Rest
        }
        RunnerState::Claimed { hold } | RunnerState::Running { hold, .. } => {
            tasks.registration(Some(tasks.label(hold)))
        }
        RunnerState::Releasing { .. } | RunnerState::Resetting { .. } if awaits_pause(runner, rules) => {
            Desired::Rest
        }
        RunnerState::Resetting { not_before, .. } if *not_before > now => Desired::Rest,
        RunnerState::Resetting { attempt, .. } => match &observed.registered {
            Some(has) => {
                Desired::Do(Task::Deregister { id: tasks.deregister_id(*attempt), label: has.clone() })
            }
            None => tasks.cleaning(*attempt, rules),
        },
        RunnerState::Idle => tasks.registration(tasks.label_while_idle(rules)),
        RunnerState::Releasing { .. } | RunnerState::Quarantined { .. } => tasks.registration(None),
        RunnerState::Terminating { .. } | RunnerState::Terminated { .. } => Desired::End,
    }
}

/// The event, if any, that a report amounts to.
pub fn observe(runner: &Runner, observed: &Observed, rules: &Rules) -> Option<RunnerEvent> {
    let tasks = Tasks { runner, observed };
    match &runner.state {
        RunnerState::Created { hold, .. } => {
            let label = hold.as_ref().map(|hold| tasks.label(hold));
            if let Some(why) = tasks.failure(&tasks.prepare_id()) {
                return Some(RunnerEvent::Unhealthy { why: format!("its pre-runner script failed: {why}") });
            }
            if let Some(event) = tasks.registration_failure(label.is_some()) {
                return Some(event);
            }
            let ready =
                tasks.done(&tasks.prepare_id()) && observed.busy.is_none() && observed.registered == label;
            ready.then_some(RunnerEvent::Ready { until: None })
        }
        RunnerState::Claimed { hold } => tasks.registration_failure(true).or_else(|| {
            let registered = observed.registered.as_ref() == Some(&tasks.label(hold));
            registered.then_some(RunnerEvent::Registered { until: None })
        }),
        RunnerState::Running { .. } => tasks.registration_failure(true),
        RunnerState::Releasing { .. } => {
            if let Some(why) = tasks.failure(&tasks.deregister_id(1)) {
                return Some(RunnerEvent::Unhealthy { why: format!("it could not deregister: {why}") });
            }
            let out =
                observed.registered.is_none() && observed.busy.is_none() && !awaits_pause(runner, rules);
            out.then_some(RunnerEvent::Deregistered)
        }
        RunnerState::Resetting { attempt, .. } => {
            if observed.busy.is_some() || awaits_pause(runner, rules) {
                return None;
            }
            if observed.registered.is_some() {
                let why = tasks.failure(&tasks.deregister_id(*attempt))?;
                return Some(RunnerEvent::CleanFailed { why: format!("it could not deregister: {why}") });
            }
            if rules.clean == Clean::Keep && observed.owes_token {
                return None;
            }
            if rules.clean == Clean::Keep {
                return Some(RunnerEvent::CleanProven { how: ProofKind::Keep, task: None });
            }
            tasks.cleaned(*attempt, rules)
        }
        RunnerState::Idle => tasks.registration_failure(tasks.label_while_idle(rules).is_some()),
        RunnerState::Quarantined { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => None,
    }
}

fn asks_readiness(runner: &Runner, rules: &Rules) -> bool {
    runner.commands.readiness.is_some() || rules.commands.readiness.is_some()
}

struct Tasks<'a> {
    runner: &'a Runner,
    observed: &'a Observed,
}

impl Tasks<'_> {
    fn prepare_id(&self) -> TaskId {
        TaskId::of(self.runner.epoch, "prepare", 1)
    }

    fn register_id(&self) -> TaskId {
        TaskId::of(self.runner.epoch, "register", 1)
    }

    /// Another one for each attempt: an agent does a task once.
    fn deregister_id(&self, attempt: u32) -> TaskId {
        TaskId::of(self.runner.epoch, "deregister", attempt)
    }

    fn clean_id(&self, step: CleanStep, attempt: u32) -> TaskId {
        match step {
            CleanStep::Cleanup => TaskId::of(self.runner.epoch, "cleanup", attempt),
            CleanStep::Reset => TaskId::of(self.runner.epoch, "reset", attempt),
        }
    }

    fn readiness_id(&self, attempt: u32) -> TaskId {
        TaskId::of(self.runner.epoch, "readiness", attempt)
    }

    /// What a runner is registered as for who holds it.
    fn label(&self, hold: &Hold) -> Label {
        hold.holder.label(&self.runner.pool)
    }

    /// What it is registered as while nobody holds it: where the CI system hands out work by itself, it must know it.
    fn label_while_idle(&self, rules: &Rules) -> Option<Label> {
        match rules.dispatch {
            Dispatch::Hook => Some(self.runner.pool.label()),
            Dispatch::Claim | Dispatch::Lease => None,
        }
    }

    /// How it is cleaned: settled, or by its pool's rules alone where no job's end decides. Nothing while it is not settled.
    fn step(&self, rules: &Rules) -> Option<CleanStep> {
        match &self.runner.state {
            RunnerState::Resetting { step: Some(step), .. } => Some(*step),
            RunnerState::Resetting { step: None, .. } if awaits_step(self.runner) => None,
            RunnerState::Resetting { step: None, .. } => Some(match rules.clean {
                Clean::Reset => CleanStep::Reset,
                Clean::Replace | Clean::Cleanup | Clean::Keep => CleanStep::Cleanup,
            }),
            RunnerState::Created { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => None,
        }
    }

    /// The next task on the way to being clean, and after that ready.
    fn cleaning(&self, attempt: u32, rules: &Rules) -> Desired {
        // What it has is to stay; that it is out is proof enough, once its agent says so in this epoch.
        if rules.clean == Clean::Keep {
            return Desired::Rest;
        }
        let Some(step) = self.step(rules) else { return Desired::Rest };
        let id = self.clean_id(step, attempt);
        match step {
            _ if self.done(&id) && asks_readiness(self.runner, rules) => {
                Desired::Do(Task::Readiness { id: self.readiness_id(attempt) })
            }
            CleanStep::Cleanup => Desired::Do(Task::Cleanup { id }),
            CleanStep::Reset => Desired::Do(Task::Reset { id }),
        }
    }

    /// What the results of these tasks amount to.
    fn cleaned(&self, attempt: u32, rules: &Rules) -> Option<RunnerEvent> {
        let step = self.step(rules)?;
        let id = self.clean_id(step, attempt);
        if let Some(why) = self.failure(&id) {
            return Some(RunnerEvent::CleanFailed { why });
        }
        let readiness = self.readiness_id(attempt);
        if let Some(why) = self.failure(&readiness) {
            return Some(RunnerEvent::CleanFailed { why: format!("it is clean, but not ready: {why}") });
        }
        let ready = self.done(&readiness) || !asks_readiness(self.runner, rules);
        let clean = self.done(&id) && ready && !self.observed.owes_token;
        clean.then_some(RunnerEvent::CleanProven { how: step.proves(), task: Some(id) })
    }

    fn outcome(&self, id: &TaskId) -> Option<&TaskOutcome> {
        self.observed.results.iter().find(|result| &result.task == id).map(|result| &result.outcome)
    }

    fn done(&self, id: &TaskId) -> bool {
        self.outcome(id) == Some(&TaskOutcome::Done)
    }

    fn failure(&self, id: &TaskId) -> Option<String> {
        match self.outcome(id)? {
            TaskOutcome::Failed { why } => Some(why.clone()),
            TaskOutcome::Done => None,
        }
    }

    /// From the label that it has to the label that it should have; one step at a time.
    fn registration(&self, wanted: Option<Label>) -> Desired {
        match (&self.observed.registered, wanted) {
            (Some(has), Some(wants)) if *has == wants => Desired::Rest,
            (Some(has), Some(_) | None) => {
                Desired::Do(Task::Deregister { id: self.deregister_id(1), label: has.clone() })
            }
            (None, Some(label)) => Desired::Do(Task::Register { id: self.register_id(), label }),
            (None, None) => Desired::Rest,
        }
    }

    fn registration_failure(&self, wanted: bool) -> Option<RunnerEvent> {
        let why = self.failure(&self.register_id()).filter(|_| wanted)?;
        Some(RunnerEvent::Unhealthy { why: format!("it could not register: {why}") })
    }
}
