//! The port to CI systems: where a runner is known to those who have jobs, what became of a job, and how a runner is kept from the next.

use crate::error::whole_seconds;
use async_trait::async_trait;
use motorpool_domain::ci::{CiBinding, CiSystem, JobStatus};
use motorpool_domain::{Label, Timestamp};
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[async_trait]
pub trait Ci: Send + Sync + std::fmt::Debug {
    /// The CI system knows a runner of this name, and only `order.label` and the pool's own labels bring it jobs. Another of the same
    /// name is replaced.
    async fn register(&self, order: &RegistrationOrder<'_>) -> Result<Registered, CiError>;

    /// The CI system no longer knows the runner in this scope. One that it does not know is no error.
    async fn remove(&self, scope: &str, id: &str) -> Result<(), CiError>;

    /// Every runner that the CI system lists there whose name begins with `prefix`.
    async fn list(&self, scope: &str, prefix: &str) -> Result<Vec<ListedRunner>, CiError>;

    /// What became of a job. It is `Unknown` only where the CI system shows whatever the job would be found by, and has no such job
    /// there: what it does not show us, because of a lost permission or a wrong name, is an error, since the job may well run.
    async fn job_status(&self, job: &CiJob) -> Result<JobStatus, CiError>;

    /// The CI system gives the runner no more jobs; one that it has, it keeps. May be called again, also to ask whether it still has one.
    /// A runner that the CI system does not know gets no jobs either.
    async fn pause(&self, scope: &str, runner_id: &str) -> Result<Paused, CiError>;

    /// We no longer keep jobs from the runner. May be called again. Where a person took the runner out there, it stays out.
    async fn unpause(&self, scope: &str, runner_id: &str) -> Result<(), CiError>;

    /// How many calls are left, as the CI system said last.
    fn rate(&self) -> Option<Rate>;

    /// What went wrong last there, if it did not go well since. Limits are not among it.
    fn trouble(&self, scope: &str) -> Option<CiTrouble>;
}

#[derive(Debug)]
pub struct RegistrationOrder<'a> {
    pub binding: &'a CiBinding,
    pub name: &'a str,
    /// The claim's own.
    pub label: &'a Label,
    /// What the workflow calls itself: a second label on GitHub, the description on GitLab.
    pub workflow: &'a str,
}

#[derive(Debug)]
pub struct Registered {
    /// The CI system's own.
    pub id: String,
    /// What the runner program needs: GitHub's encoded configuration, GitLab's authentication token.
    pub secret: SecretString,
    /// The CI system's address, where the program asks for it.
    pub url: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRunner {
    pub id: String,
    pub name: String,
    /// As the CI system says, and so perhaps late: nobody is reaped by it.
    pub busy: bool,
}

/// What a job is found by: as much of it as a hook on its machine knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CiJob {
    /// Of the pool.
    pub scope: String,
    /// GitHub: `owner/repository`, without which `scope` must be one. GitLab: the project's number (`CI_PROJECT_ID`) or path
    /// (`CI_PROJECT_PATH`), without which `runner` is asked for. Jenkins: the job's full name (`JOB_NAME`), such as `folder/job`.
    pub project: Option<String>,
    /// GitHub: of the workflow run (`GITHUB_RUN_ID`), since no hook knows its job's. GitLab: of the job (`CI_JOB_ID`). Jenkins: the build's
    /// number (`BUILD_NUMBER`).
    pub id: String,
    /// Of GitHub's workflow run (`GITHUB_RUN_ATTEMPT`); without it, the latest.
    pub attempt: Option<u32>,
    /// What the CI system lists the runner as. GitHub: its name. GitLab: its number.
    pub runner: Option<String>,
    /// When its checkpoint was made, on the control plane's clock. Only at GitHub may another job have all of the above.
    pub since: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paused {
    /// The CI system has said so.
    Acknowledged {
        /// It says that the runner still has a job.
        busy: bool,
    },
    /// This CI system has no such call: the agent stops what listens for jobs.
    ByAgent,
}

/// How many calls the CI system still takes, and for how long that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub remaining: u64,
    pub resets_in: Duration,
}

/// What a person who looks at a pool should know of its CI system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CiTrouble {
    /// What was attempted, and the CI system's own words.
    pub what: String,
    /// It will say so again until somebody has mended something.
    pub refused: bool,
    pub ago: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum CiError {
    /// Asked too often, by ours or by others with the same credentials.
    #[error("the CI system takes no more calls for {} s", whole_seconds(*retry_after))]
    RateLimited { retry_after: Duration },
    /// It left an earlier call without an answer, and was not asked now.
    #[error("the CI system did not answer in time, and is asked again in {} s", whole_seconds(*retry_after))]
    Silent { retry_after: Duration },
    /// It will say so again until a person has mended something.
    #[error("{0}")]
    Refused(String),
    #[error("the CI system could not be asked to {attempted}")]
    Failed {
        attempted: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The CI systems of this control plane.
#[derive(Debug, Clone, Default)]
pub struct CiSystems(BTreeMap<CiSystem, Arc<dyn Ci>>);

impl CiSystems {
    #[must_use]
    pub fn with(mut self, system: CiSystem, ci: Arc<dyn Ci>) -> Self {
        self.0.insert(system, ci);
        self
    }

    pub fn get(&self, system: CiSystem) -> Option<&Arc<dyn Ci>> {
        self.0.get(&system)
    }
}
