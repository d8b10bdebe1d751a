//! What a runner's CI system is told and asked where it hands out work by itself: no more jobs before the machine is cleaned, and what became of a
//! job. Whatever it does not answer is asked again with the next look.

use crate::control::Control;
use crate::error::{Refused, chain};
use crate::ports::ci::{CiError, CiJob, Paused};
use crate::runner::Applied;
use motorpool_domain::checkpoint::{
    Checkpoint, FinalizeSource, JobOutcome, has_left_its_machine, is_time_over,
};
use motorpool_domain::ci::{CiBinding, JobStatus};
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{Runner, RunnerEvent, ToPause, awaits_pause, is_to_be_paused, to_pause};
use motorpool_domain::{Actor, Timestamp};

impl Control {
    /// The runner, noted as paused where it waits for that and its CI system brings it no more jobs; else as it is.
    pub(super) async fn pause_in_ci(
        &self,
        pool: &Pool,
        runner: Runner,
        now: Timestamp,
    ) -> Result<Runner, Refused> {
        let (true, Some(binding)) = (is_to_be_paused(&runner, &pool.rules), &pool.rules.ci) else {
            return Ok(runner);
        };
        let ci = self.ci_system(binding.system)?;
        let paused = match to_pause(&runner, binding) {
            ToPause::Known(known) => {
                let may_be_undone = self.may_be_unpaused(&runner, now).await?;
                let paused = brings_no_more(&runner, ci.pause(&binding.scope, &known).await);
                // It is told once more when nothing can undo it any longer.
                paused.filter(|_| !may_be_undone)
            }
            ToPause::Nobody => Some(Job::Over),
            ToPause::Unnamed => {
                tracing::warn!(runner = %runner.id, pool = %pool.name, "a runner can't be paused in its CI system, since nobody said what it is called there (`motorpool runners set --ci-runner`); it is not cleaned before that");
                None
            }
        };
        let Some(job) = paused else { return Ok(runner) };
        // Nothing is done to it while a person must look, whatever its job does; else its job is asked for after the pause: whoever dispatched
        // meanwhile has done so before.
        let waits = awaits_pause(&runner, &pool.rules);
        if waits && !self.is_over_in_ci(pool, binding, &runner, job, now).await? {
            return Ok(runner);
        }
        self.note_in_ci(pool, runner, &RunnerEvent::Paused, now).await
    }

    pub(super) async fn note_in_ci(
        &self,
        pool: &Pool,
        runner: Runner,
        event: &RunnerEvent,
        now: Timestamp,
    ) -> Result<Runner, Refused> {
        match self.transition(pool, &runner, event, &Actor::Control, now).await? {
            Applied::Changed { after, .. } => Ok(*after),
            Applied::Stayed | Applied::Refused(_) | Applied::Overtaken => {
                self.runner_record(&runner.id).await
            }
        }
    }

    /// Whether the runner's job has left the machine, as far as its CI system can say. A checkpoint whose time is over is not waited for.
    async fn is_over_in_ci(
        &self,
        pool: &Pool,
        binding: &CiBinding,
        runner: &Runner,
        job: Job,
        now: Timestamp,
    ) -> Result<bool, Refused> {
        let checkpoint = match &runner.checkpoint {
            Some(name) => self.store.checkpoint(name).await?,
            None => None,
        };
        let rules = &pool.rules.checkpoints;
        let checkpoint = match checkpoint {
            Some(checkpoint) if is_time_over(&checkpoint, Some(runner), rules, now) => return Ok(true),
            Some(_) | None if job == Job::StillThere => return Ok(false),
            Some(checkpoint) => checkpoint,
            None => return Ok(true),
        };
        let status = self.status_in_ci(binding, runner, &checkpoint).await?;
        if let Some(outcome) = status.and_then(outcome) {
            let source = FinalizeSource::Poller;
            self.finalize(&checkpoint.name, outcome, source, &Actor::Control, now).await?;
            return Ok(true);
        }
        Ok(has_left_its_machine(&checkpoint, binding.system, status))
    }

    /// The poller: finalizes a checkpoint whose job has ended without anybody saying so. Says whether it did.
    pub(super) async fn poll_job(
        &self,
        pool: &Pool,
        runner: &Runner,
        checkpoint: &Checkpoint,
        now: Timestamp,
    ) -> Result<bool, Refused> {
        let Some(binding) = pool.rules.ci.as_ref().filter(|binding| self.ci.get(binding.system).is_some())
        else {
            return Ok(false);
        };
        // Its look is when it is to be asked about, and is brought forward where another job has come.
        if checkpoint.finalized.is_some() || checkpoint.look_at > now {
            return Ok(false);
        }
        let status = self.status_in_ci(binding, runner, checkpoint).await?;
        let Some(outcome) = status.and_then(outcome) else { return Ok(false) };
        let source = FinalizeSource::Poller;
        self.finalize(&checkpoint.name, outcome, source, &Actor::Control, now).await?;
        Ok(true)
    }

    /// Nothing where the CI system does not answer.
    async fn status_in_ci(
        &self,
        binding: &CiBinding,
        runner: &Runner,
        checkpoint: &Checkpoint,
    ) -> Result<Option<JobStatus>, Refused> {
        let job = CiJob {
            scope: binding.scope.clone(),
            project: checkpoint.project.clone(),
            id: checkpoint.job.to_string(),
            attempt: checkpoint.attempt,
            runner: checkpoint.listed_in_ci(runner, binding.system),
            since: checkpoint.created_at,
        };
        match self.ci_system(binding.system)?.job_status(&job).await {
            Ok(status) => Ok(Some(status)),
            Err(error) => {
                tracing::warn!(checkpoint = %checkpoint.name, runner = %runner.id, error = chain(&error), "the CI system does not say what became of a job; it is asked again");
                Ok(None)
            }
        }
    }
}

/// Whether a runner that is paused still has a job, as far as its CI system says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Over,
    StillThere,
}

/// What an acknowledged pause says of the runner's job.
fn brings_no_more(runner: &Runner, paused: Result<Paused, CiError>) -> Option<Job> {
    match paused {
        Ok(Paused::Acknowledged { busy: true }) => Some(Job::StillThere),
        // Without such a call it stops what listens for jobs when it is told to deregister.
        Ok(Paused::Acknowledged { busy: false } | Paused::ByAgent) => Some(Job::Over),
        Err(error) => {
            tracing::warn!(runner = %runner.id, error = chain(&error), "a runner could not be paused in its CI system; it is not cleaned before that");
            None
        }
    }
}

fn outcome(status: JobStatus) -> Option<JobOutcome> {
    match status {
        JobStatus::Success => Some(JobOutcome::Success),
        JobStatus::Failure => Some(JobOutcome::Failure),
        JobStatus::Canceled => Some(JobOutcome::Canceled),
        JobStatus::Running | JobStatus::Unknown => None,
    }
}
