//! A checkpoint: a restore point before one job, and the promise to restore or clean its machine afterwards. The machine itself is the runner's:
//! a checkpoint says what is owed, and notices when it was done. What may become of it is decided here; what becomes of the runner, there.

mod completed;
mod create;
mod finalize;
mod in_ci;
mod noticed;
mod record;
mod stale;

pub use completed::{CompletedJob, github_outcome, gitlab_outcome};
pub use create::{Creating, NotCreated, creating};
pub use finalize::{Finalizing, abandoned, finalizing, forgotten, is_time_over};
pub use in_ci::{CannotAsk, cannot_be_asked_for, has_left_its_machine};
pub use noticed::{clean_step, ended, is_asked_sooner, next_look};
pub use record::{CHECKPOINT, active_checkpoints, checkpoints_of_job};
pub use stale::{has_outlived_its_time, is_stale};

use crate::ci::{CiSystem, Registration};
use crate::ids::{CheckpointName, Epoch, JobId, PoolName, RunnerId};
use crate::pool::CheckpointRules;
use crate::runner::Runner;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub name: CheckpointName,
    pub runner: RunnerId,
    pub pool: PoolName,
    /// The runner's life in which the job runs. What cleans it up begins the next.
    pub epoch: Epoch,
    pub job: JobId,
    /// Where the CI system has the job, if its id alone does not say: a project or repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Which try of the job it is, where the CI system counts them beside its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Who called, in the caller's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// What tells it from another job of the same id, where the hook sends something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// By which its CI system brought the job, where we made one. The runner's record forgets it when it is void, and the job may run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
    /// Counts the writes to this record.
    pub rev: u64,
    pub state: CheckpointState,
    pub created_at: Timestamp,
    /// When to look at it again, while it is active.
    pub look_at: Timestamp,
    /// How its job ended, and who said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalized: Option<Finalized>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finalized {
    pub status: JobOutcome,
    pub source: FinalizeSource,
    pub at: Timestamp,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobOutcome {
    Success,
    Failure,
    /// GitHub writes it otherwise, in the status of a job as in its conclusion.
    #[serde(alias = "cancelled")]
    Canceled,
}

/// Who noticed that a job has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalizeSource {
    Hook,
    Poller,
    Webhook,
    Agent,
    /// Nobody did, within the checkpoint's time or before its machine was taken from it.
    Gc,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum CheckpointState {
    /// The job runs.
    Created,
    /// The job has ended, and its machine is being cleaned.
    FinalizeQueued,
    /// The machine was reset, or is gone.
    Reset { at: Timestamp, why: String },
    /// The job went well, and what it left is gone.
    Deleted { at: Timestamp, why: String },
    /// Nobody said in time that the job has ended.
    GcReset { at: Timestamp, why: String },
}

impl CheckpointState {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::FinalizeQueued => "finalize_queued",
            Self::Reset { .. } => "reset",
            Self::Deleted { .. } => "deleted",
            Self::GcReset { .. } => "gc_reset",
        }
    }

    /// When it came to its end.
    pub fn ended_at(&self) -> Option<Timestamp> {
        match self {
            Self::Created | Self::FinalizeQueued => None,
            Self::Reset { at, .. } | Self::Deleted { at, .. } | Self::GcReset { at, .. } => Some(*at),
        }
    }

    /// How it came to its end.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Created | Self::FinalizeQueued => None,
            Self::Reset { why, .. } | Self::Deleted { why, .. } | Self::GcReset { why, .. } => Some(why),
        }
    }

    pub fn is_active(&self) -> bool {
        self.ended_at().is_none()
    }
}

impl JobOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Canceled => "canceled",
        }
    }
}

impl FinalizeSource {
    pub const ALL: [Self; 5] = [Self::Hook, Self::Poller, Self::Webhook, Self::Agent, Self::Gc];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::Poller => "poller",
            Self::Webhook => "webhook",
            Self::Agent => "agent",
            Self::Gc => "gc",
        }
    }
}

/// The job of a checkpoint, as its hook tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub id: JobId,
    pub project: Option<String>,
    pub attempt: Option<u32>,
    pub caller: Option<String>,
    /// Something random, where jobs share an id.
    pub key: Option<String>,
}

impl Checkpoint {
    /// A new one for a job that begins on `runner`.
    pub fn open(
        name: CheckpointName,
        runner: &Runner,
        job: Job,
        rules: &CheckpointRules,
        now: Timestamp,
    ) -> Self {
        let Job { id, project, attempt, caller, key } = job;
        Self {
            name,
            runner: runner.id.clone(),
            pool: runner.pool.clone(),
            epoch: runner.epoch,
            job: id,
            project,
            attempt,
            caller,
            key,
            registration: runner.registration.clone(),
            rev: 1,
            state: CheckpointState::Created,
            created_at: now,
            look_at: now.after(rules.poll_after.min(rules.lasts)),
            finalized: None,
        }
    }

    /// What a CI system lists `runner` as beside its job.
    pub fn listed_in_ci(&self, runner: &Runner, system: CiSystem) -> Option<String> {
        runner.listed_in_ci(system, self.registration.as_ref().or(runner.registration.as_ref()))
    }

    /// Whoever sends no key is taken at the word of the job's id.
    pub fn is_of(&self, job: &Job) -> bool {
        let same_key = self.key.as_ref().zip(job.key.as_ref()).is_none_or(|(one, other)| one == other);
        same_key && (&self.job, &self.project, self.attempt) == (&job.id, &job.project, job.attempt)
    }

    /// The same with another state, one write later.
    #[must_use]
    fn becoming(&self, state: CheckpointState) -> Self {
        Self { state, rev: self.rev + 1, ..self.clone() }
    }

    /// Nobody said in time that its job has ended, and nobody may any more. Not of one whose machine was taken from it: nobody had to say anything.
    pub fn is_forgotten(&self) -> bool {
        let nobody_said = self.finalized.is_some_and(|finalized| finalized.source == FinalizeSource::Gc);
        nobody_said
            && match &self.state {
                CheckpointState::Created | CheckpointState::GcReset { .. } => true,
                CheckpointState::FinalizeQueued
                | CheckpointState::Reset { .. }
                | CheckpointState::Deleted { .. } => false,
            }
    }
}
