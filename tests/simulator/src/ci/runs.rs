//! The jobs of a CI system like GitHub. All jobs of a run share its id, and are told apart by the runners that took them: each takes one.

use super::Entry;
use crate::schedule::SimClock;
use motorpool_control::ports::ci::CiJob;
use motorpool_domain::checkpoint::JobOutcome;
use motorpool_domain::ci::{GitHubJob, JobStatus};
use motorpool_domain::{Epoch, JobId, RunnerId, Timestamp};
use std::collections::BTreeMap;

/// By the numbers that the world gives them.
#[derive(Debug, Default)]
pub(crate) struct Runs(BTreeMap<usize, RunJob>);

#[derive(Debug)]
struct RunJob {
    run: JobId,
    taken: Option<Taken>,
    over: Option<Over>,
}

/// The runner that has a job, or had it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) name: String,
    pub(crate) runner: RunnerId,
    pub(crate) epoch: Epoch,
    at_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Over {
    pub(crate) outcome: JobOutcome,
    pub(crate) at_ms: u64,
}

impl Runs {
    /// It waits for a runner from now on.
    pub(crate) fn asked(&mut self, number: usize, run: &JobId) {
        self.0.insert(number, RunJob { run: run.clone(), taken: None, over: None });
    }

    /// Whether it hands out jobs at all.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    pub(crate) fn knows(&self, number: usize) -> bool {
        self.0.contains_key(&number)
    }

    pub(crate) fn takes(&mut self, number: usize, entry: &Entry, at_ms: u64) {
        let Entry { name, runner, epoch, .. } = entry;
        if let Some(job) = self.0.get_mut(&number) {
            job.taken = Some(Taken { name: name.clone(), runner: runner.clone(), epoch: *epoch, at_ms });
        }
    }

    /// It knows that a job is over, and how it ended. Says whose it was.
    pub(crate) fn over(&mut self, number: usize, outcome: JobOutcome, at_ms: u64) -> Option<Taken> {
        let job = self.0.get_mut(&number)?;
        job.over = Some(Over { outcome, at_ms });
        job.taken.clone()
    }

    /// What it tells of a job that is over.
    pub(crate) fn ended(&self, number: usize) -> Option<(&Taken, Over)> {
        let job = self.0.get(&number)?;
        Some((job.taken.as_ref()?, job.over?))
    }

    /// Whether this runner was given its one job.
    pub(super) fn has_taken(&self, name: &str) -> bool {
        self.of(name).is_some()
    }

    /// Whether this runner has a job, as far as it knows.
    pub(super) fn is_busy(&self, name: &str) -> bool {
        self.of(name).is_some_and(|job| job.over.is_none())
    }

    /// Whether a runner in that epoch has a job of this run, as far as it knows.
    pub(crate) fn is_at(&self, run: &JobId, runner: &RunnerId, epoch: Epoch) -> bool {
        self.0.values().any(|job| {
            let is_its = job.taken.as_ref().is_some_and(|it| it.runner == *runner && it.epoch == epoch);
            job.run == *run && is_its && job.over.is_none()
        })
    }

    /// As GitHub's own list of the run is read.
    pub(super) fn status(&self, asked: &CiJob) -> Option<JobStatus> {
        let is_of_run = |job: &&RunJob| job.run.as_str() == asked.id;
        let listed: Vec<GitHubJob> = self.0.values().filter(is_of_run).map(RunJob::listed).collect();
        JobStatus::on_github_runner(&listed, asked.runner.as_deref().unwrap_or_default(), asked.since)
    }

    fn of(&self, name: &str) -> Option<&RunJob> {
        self.0.values().find(|job| job.taken.as_ref().is_some_and(|taken| taken.name == name))
    }
}

impl RunJob {
    fn listed(&self) -> GitHubJob {
        let Self { run: _, taken, over } = self;
        let status = match (taken, over) {
            (_, Some(_)) => "completed",
            (Some(_), None) => "in_progress",
            (None, None) => "queued",
        };
        let conclusion = over.map(|over| match over.outcome {
            JobOutcome::Success => "success",
            JobOutcome::Failure => "failure",
            JobOutcome::Canceled => "cancelled",
        });
        GitHubJob {
            runner: taken.as_ref().map(|taken| taken.name.clone()),
            status: status.to_owned(),
            conclusion: conclusion.map(str::to_owned),
            started_at: taken.as_ref().map(|taken| whole_seconds(taken.at_ms)),
            completed_at: over.map(|over| whole_seconds(over.at_ms)),
        }
    }
}

/// GitHub cuts its times off.
pub(crate) fn whole_seconds(at_ms: u64) -> Timestamp {
    SimClock::timestamp(at_ms / 1_000 * 1_000)
}
