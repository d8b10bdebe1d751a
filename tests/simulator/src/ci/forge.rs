//! A CI system like GitLab: it hands out jobs by itself, one at a time, to any runner of its that is up and not paused. What it says of jobs and pauses
//! is the truth that checkpoints are held against.

use super::Way;
use crate::faults::Fault;
use crate::ground::Ground;
use async_trait::async_trait;
use motorpool_control::ports::ci::{
    Ci, CiError, CiJob, CiTrouble, ListedRunner, Paused, Rate, Registered, RegistrationOrder,
};
use motorpool_domain::checkpoint::JobOutcome;
use motorpool_domain::ci::JobStatus;
use motorpool_domain::{JobId, RunnerId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What it calls the runner on a machine.
pub(crate) fn known_as(runner: &RunnerId) -> String {
    format!("forge-{runner}")
}

#[derive(Debug, Default)]
pub(crate) struct Forge {
    seats: BTreeMap<String, Seat>,
    /// How each that it has given out ended, if it has.
    jobs: BTreeMap<JobId, Option<JobOutcome>>,
}

/// A runner, which takes one job at a time.
#[derive(Debug, Default)]
struct Seat {
    is_paused: bool,
    job: Option<JobId>,
}

impl Forge {
    /// A runner is registered there, by hand.
    pub(crate) fn knows(&mut self, runner: &RunnerId) {
        self.seats.entry(known_as(runner)).or_default();
    }

    pub(crate) fn has(&self, runner: &RunnerId) -> bool {
        self.seat(runner).is_some()
    }

    /// Whether it would bring this runner a job.
    pub(crate) fn is_open(&self, runner: &RunnerId) -> bool {
        self.seat(runner).is_some_and(|seat| !seat.is_paused && seat.job.is_none())
    }

    pub(crate) fn is_paused(&self, runner: &RunnerId) -> bool {
        self.seat(runner).is_some_and(|seat| seat.is_paused)
    }

    /// The job that it counts as the runner's.
    pub(crate) fn job_of(&self, runner: &RunnerId) -> Option<&JobId> {
        self.seat(runner)?.job.as_ref()
    }

    pub(crate) fn gives(&mut self, job: &JobId, runner: &RunnerId) {
        if let Some(seat) = self.seats.get_mut(&known_as(runner)) {
            seat.job = Some(job.clone());
            self.jobs.insert(job.clone(), None);
        }
    }

    /// It knows that a job is over, and how it ended.
    pub(crate) fn over(&mut self, job: &JobId, outcome: JobOutcome) {
        self.jobs.insert(job.clone(), Some(outcome));
        for seat in self.seats.values_mut().filter(|seat| seat.job.as_ref() == Some(job)) {
            seat.job = None;
        }
    }

    /// How a job ended, if it has.
    pub(crate) fn outcome(&self, job: &JobId) -> Option<JobOutcome> {
        self.jobs.get(job).copied().flatten()
    }

    fn seat(&self, runner: &RunnerId) -> Option<&Seat> {
        self.seats.get(&known_as(runner))
    }
}

#[derive(Debug)]
pub(crate) struct SimForge {
    ground: Arc<Ground>,
    way: Way,
}

impl SimForge {
    pub(crate) fn new(ground: &Arc<Ground>) -> Self {
        Self { ground: Arc::clone(ground), way: Way::new(ground) }
    }

    async fn there(&self, attempted: &str) -> Result<(), CiError> {
        self.way.there(attempted).await.inspect_err(|_| self.ground.fired(Fault::ForgeDown))
    }
}

#[async_trait]
impl Ci for SimForge {
    async fn register(&self, _: &RegistrationOrder<'_>) -> Result<Registered, CiError> {
        Err(CiError::Refused("runners are registered here by hand".to_owned()))
    }

    async fn remove(&self, _: &str, _: &str) -> Result<(), CiError> {
        Ok(())
    }

    async fn list(&self, _: &str, _: &str) -> Result<Vec<ListedRunner>, CiError> {
        Ok(Vec::new())
    }

    async fn job_status(&self, job: &CiJob) -> Result<JobStatus, CiError> {
        self.there("look up a job").await?;
        let id = JobId::parse(job.id.clone()).map_err(|error| CiError::Refused(error.to_string()))?;
        let status = match self.ground.forge().jobs.get(&id) {
            None => JobStatus::Unknown,
            Some(None) => JobStatus::Running,
            Some(Some(JobOutcome::Success)) => JobStatus::Success,
            Some(Some(JobOutcome::Failure)) => JobStatus::Failure,
            Some(Some(JobOutcome::Canceled)) => JobStatus::Canceled,
        };
        self.ground.tell(|| format!("forge: job {id} is {status:?}"));
        self.way.back("look up a job").await?;
        Ok(status)
    }

    async fn pause(&self, _: &str, runner: &str) -> Result<Paused, CiError> {
        self.there("pause a runner").await?;
        let busy = {
            let mut forge = self.ground.forge();
            let seat = forge.seats.get_mut(runner);
            seat.is_some_and(|seat| {
                seat.is_paused = true;
                seat.job.is_some()
            })
        };
        self.ground
            .tell(|| format!("forge: pauses {runner}, which {} a job", if busy { "has" } else { "has not" }));
        if busy {
            self.ground.fired(Fault::BusyAtPause);
        }
        self.way.back("pause a runner").await?;
        Ok(Paused::Acknowledged { busy })
    }

    async fn unpause(&self, _: &str, runner: &str) -> Result<(), CiError> {
        self.there("unpause a runner").await?;
        if let Some(seat) = self.ground.forge().seats.get_mut(runner) {
            seat.is_paused = false;
        }
        self.ground.tell(|| format!("forge: unpauses {runner}"));
        self.way.back("unpause a runner").await
    }

    fn rate(&self) -> Option<Rate> {
        None
    }

    fn trouble(&self, _: &str) -> Option<CiTrouble> {
        None
    }
}
