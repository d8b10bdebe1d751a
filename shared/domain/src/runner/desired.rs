//! What an agent should do next, and what its report means. The agent reconciles: it is told what should be.

use crate::ids::{Label, TaskId};
use crate::pool::{Clean, Rules};
use crate::runner::{ProofKind, Runner, RunnerEvent, RunnerState};
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
}

impl Task {
    pub fn id(&self) -> &TaskId {
        match self {
            Self::Prepare { id }
            | Self::Register { id, .. }
            | Self::Deregister { id, .. }
            | Self::Cleanup { id } => id,
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
            tasks.registration(hold.as_ref().map(|hold| hold.holder.label()))
        }
        RunnerState::Claimed { hold } | RunnerState::Running { hold, .. } => {
            tasks.registration(Some(hold.holder.label()))
        }
        RunnerState::Resetting { not_before, .. } if *not_before > now => Desired::Rest,
        RunnerState::Resetting { attempt, .. } => match &observed.registered {
            Some(has) => {
                Desired::Do(Task::Deregister { id: tasks.deregister_id(*attempt), label: has.clone() })
            }
            // What it has is to stay; that it is out is proof enough, once its agent says so in this epoch.
            None if rules.clean == Clean::Keep => Desired::Rest,
            None => Desired::Do(Task::Cleanup { id: tasks.cleanup_id(*attempt) }),
        },
        RunnerState::Idle | RunnerState::Releasing { .. } | RunnerState::Quarantined { .. } => {
            tasks.registration(None)
        }
        RunnerState::Terminating { .. } | RunnerState::Terminated { .. } => Desired::End,
    }
}

/// The event, if any, that a report amounts to.
pub fn observe(runner: &Runner, observed: &Observed, rules: &Rules) -> Option<RunnerEvent> {
    let tasks = Tasks { runner, observed };
    match &runner.state {
        RunnerState::Created { hold, .. } => {
            let label = hold.as_ref().map(|hold| hold.holder.label());
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
            let registered = observed.registered.as_ref() == Some(&hold.holder.label());
            registered.then_some(RunnerEvent::Registered { until: None })
        }),
        RunnerState::Running { .. } => tasks.registration_failure(true),
        RunnerState::Releasing { .. } => {
            if let Some(why) = tasks.failure(&tasks.deregister_id(1)) {
                return Some(RunnerEvent::Unhealthy { why: format!("it could not deregister: {why}") });
            }
            let out = observed.registered.is_none() && observed.busy.is_none();
            out.then_some(RunnerEvent::Deregistered)
        }
        RunnerState::Resetting { attempt, .. } => {
            if observed.busy.is_some() {
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
            let id = tasks.cleanup_id(*attempt);
            if let Some(why) = tasks.failure(&id) {
                return Some(RunnerEvent::CleanFailed { why });
            }
            let clean = tasks.done(&id) && !observed.owes_token;
            clean.then_some(RunnerEvent::CleanProven { how: ProofKind::Cleanup, task: Some(id) })
        }
        RunnerState::Idle
        | RunnerState::Quarantined { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => None,
    }
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

    fn cleanup_id(&self, attempt: u32) -> TaskId {
        TaskId::of(self.runner.epoch, "cleanup", attempt)
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
