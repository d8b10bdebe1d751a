//! What the agent must still know after a restart: its epoch, its registration, how its tasks ended, its deadlines. It
//! is written to disk by others.

use std::time::Duration;

use motorpool_domain::runner::{TaskOutcome, TaskResult};
use motorpool_domain::{Epoch, Label, TaskId};
use motorpool_wire::agent::{SyncAnswer, TaskKind};
use serde::{Deserialize, Serialize};

use crate::clock::BootInstant;

/// More than any epoch has tasks; beyond it the oldest result is forgotten, and its task could be ordered again.
const MOST_RESULTS: usize = 64;

/// Deadlines that moved by less are not worth a write: each answer moves them by some milliseconds.
const SAME_DEADLINE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    pub epoch: Epoch,
    pub registered: Option<Registered>,
    /// Of this epoch only.
    pub results: Vec<Remembered>,
    /// How many registrations with a CI system were asked for in this epoch: counted before each is, so that no two processes ask for the same.
    #[serde(default)]
    pub programs: u32,
    /// The machine outlives the agent's work. False until the control plane said otherwise.
    pub kept: bool,
    /// None before the first answer of this boot.
    pub deadlines: Option<Deadlines>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    pub label: Label,
    /// The registration lives only as long as a program that the agent keeps running.
    pub by_run: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    pub task: TaskId,
    pub kind: Kind,
    pub outcome: TaskOutcome,
    #[serde(default)]
    pub took_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Prepare,
    Register,
    Deregister,
    Cleanup,
    Reset,
    Readiness,
}

impl Kind {
    pub fn of(kind: &TaskKind) -> Self {
        match kind {
            TaskKind::Prepare { .. } => Self::Prepare,
            TaskKind::Register { .. } => Self::Register,
            TaskKind::Deregister { .. } => Self::Deregister,
            TaskKind::Cleanup { .. } => Self::Cleanup,
            TaskKind::Reset { .. } => Self::Reset,
            TaskKind::Readiness { .. } => Self::Readiness,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Register => "register",
            Self::Deregister => "deregister",
            Self::Cleanup => "cleanup",
            Self::Reset => "reset",
            Self::Readiness => "readiness",
        }
    }

    /// Whether it makes of a used machine a clean one.
    pub fn cleans(self) -> bool {
        match self {
            Self::Cleanup | Self::Reset => true,
            Self::Prepare | Self::Register | Self::Deregister | Self::Readiness => false,
        }
    }
}

/// Instants of one boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlines {
    /// Work must be over by then.
    pub threshold: Option<BootInstant>,
    /// Without another answer by then, the host (if kept, its work) ends.
    pub fence: Option<BootInstant>,
}

impl Deadlines {
    /// The durations count from the moment at which the request was sent: however late the answer is read, they end in time.
    pub fn of_answer(sent_at: BootInstant, answer: &SyncAnswer) -> Self {
        let at = |in_ms: Option<u64>| in_ms.map(|ms| sent_at + Duration::from_millis(ms));
        Self { threshold: at(answer.threshold_in_ms), fence: at(answer.fence_in_ms) }
    }

    /// When work must be over, whichever deadline says so.
    pub fn work_ends_at(self) -> Option<BootInstant> {
        let Self { threshold, fence } = self;
        [threshold, fence].into_iter().flatten().min()
    }

    fn much_like(self, other: Self) -> bool {
        let alike = |one: Option<BootInstant>, two: Option<BootInstant>| match (one, two) {
            (Some(one), Some(two)) => one.since(two).max(two.since(one)) < SAME_DEADLINE,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        alike(self.threshold, other.threshold) && alike(self.fence, other.fence)
    }
}

impl Memory {
    pub fn fresh(epoch: Epoch) -> Self {
        Self { epoch, registered: None, results: Vec::new(), programs: 0, kept: false, deadlines: None }
    }

    /// What is still true for a new agent process: no program of the last one runs any more, and instants of another
    /// boot mean nothing.
    #[must_use]
    pub fn after_restart(mut self, same_boot: bool) -> Self {
        if self.registered.as_ref().is_some_and(|registered| registered.by_run) {
            self.unregister();
        }
        if !same_boot {
            self.deadlines = None;
        }
        self
    }

    pub(super) fn has_result(&self, task: &TaskId) -> bool {
        self.results.iter().any(|result| &result.task == task)
    }

    pub(super) fn results(&self) -> Vec<TaskResult> {
        let told = |result: &Remembered| TaskResult {
            task: result.task.clone(),
            outcome: result.outcome.clone(),
            took_ms: result.took_ms,
        };
        self.results.iter().map(told).collect()
    }

    pub(super) fn remember(&mut self, ended: Remembered) {
        self.results.retain(|result| result.task != ended.task);
        if self.results.len() >= MOST_RESULTS {
            self.results.remove(0);
        }
        self.results.push(ended);
    }

    pub(super) fn forget(&mut self, kind: Kind) {
        self.results.retain(|result| result.kind != kind);
    }

    pub(super) fn next_program(&mut self) -> u32 {
        self.programs = self.programs.saturating_add(1);
        self.programs
    }

    /// It is registered no more, so registering again must be possible in this epoch.
    pub(super) fn unregister(&mut self) {
        self.registered = None;
        self.forget(Kind::Register);
    }

    /// What was done in another epoch says nothing of this one.
    pub fn enter(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.results.clear();
        self.programs = 0;
    }

    /// Whether what is on disk will do in place of this.
    pub(super) fn much_like(&self, saved: &Self) -> bool {
        let Self { epoch, registered, results, programs, kept, deadlines } = self;
        let same_deadlines = match (deadlines, &saved.deadlines) {
            (Some(now), Some(then)) => now.much_like(*then),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        same_deadlines
            && (epoch, registered, results, programs, kept)
                == (&saved.epoch, &saved.registered, &saved.results, &saved.programs, &saved.kept)
    }
}
