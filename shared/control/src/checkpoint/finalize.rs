//! `finalize`: a job has ended. Its hook, its agent, a webhook and the poller may all say so, at one instant or hours apart: the first word decides,
//! and a failure overrides a success until the machine's cleaning has begun.

use crate::control::Control;
use crate::error::{Refused, chain};
use crate::ports::queue::QueueName;
use crate::store::{CheckpointWrite, CheckpointWritten, RunnerWrite, WithRunner};
use crate::tries::Tries;
use motorpool_domain::checkpoint::{
    Checkpoint, CompletedJob, FinalizeSource, Finalizing, JobOutcome, finalizing,
};
use motorpool_domain::ci::CiSystem;
use motorpool_domain::pool::{Dispatch, Pool};
use motorpool_domain::record::Key;
use motorpool_domain::runner::{Change, Decision, Runner, RunnerEvent, decide};
use motorpool_domain::{Actor, AuditEntry, AuditResult, CheckpointName, Timestamp};
use motorpool_wire::checkpoint::{FinalizeAnswer, FinalizeCheckpoint};
use motorpool_wire::queue::FinalizeNotice;

/// What a word about a job came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobWord {
    Queued,
    Already,
    /// No checkpoint is of this job.
    Unknown,
}

/// More jobs share an id only where a run has as many jobs.
const MOST_OF_ONE_JOB: usize = 256;

impl Control {
    /// By who has the runner's token.
    pub async fn finalize_checkpoint(
        &self,
        token: &str,
        request: &FinalizeCheckpoint,
    ) -> Result<FinalizeAnswer, Refused> {
        let now = self.now();
        let FinalizeCheckpoint { checkpoint_name, status, source } = request;
        let source = source.unwrap_or(FinalizeSource::Hook);
        match source {
            FinalizeSource::Hook | FinalizeSource::Poller | FinalizeSource::Agent => {}
            FinalizeSource::Webhook | FinalizeSource::Gc => {
                return Err(Refused::invalid(
                    format!("source must be hook, poller or agent, not {}", source.as_str()),
                    "leave it out",
                ));
            }
        }
        let runner = self.runner_with_token(token, now).await?;
        let checkpoint = self.own_checkpoint(&runner, checkpoint_name).await?;
        let (who, direct) = (Actor::Runner(runner.id.clone()), runner.has_fixed_token());
        let id = runner.id.clone();
        let (word, checkpoint) =
            self.finalize_seen(checkpoint, Some(runner), *status, source, &who, now).await?;
        if direct {
            self.heard_directly_at_last(&id, now).await;
        }
        let (detail, state) = match word {
            JobWord::Queued => ("Finalize queued", None),
            JobWord::Already | JobWord::Unknown => ("Already finalized", Some(checkpoint.state.as_str())),
        };
        Ok(FinalizeAnswer {
            detail: detail.to_owned(),
            checkpoint_name: checkpoint_name.clone(),
            state: state.map(str::to_owned),
        })
    }

    /// By the word of a CI system, as a webhook brought it. A checkpoint whose runner or pool can't be read is passed over: another one may be meant, and
    /// whoever sent the word sends it once.
    pub async fn job_completed(&self, system: CiSystem, job: &CompletedJob) -> Result<JobWord, Refused> {
        let now = self.now();
        let found = self.store.checkpoints_of_job(&job.id, MOST_OF_ONE_JOB).await?;
        let (mut word, mut unread) = (JobWord::Unknown, None);
        for checkpoint in found.into_iter().filter(|checkpoint| checkpoint.state.is_active()) {
            match self.is_the_job(&checkpoint, system, job).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(refused) => {
                    tracing::warn!(checkpoint = %checkpoint.name, error = chain(&refused), "whether a job's end is this checkpoint's can't be said");
                    unread = Some(refused);
                    continue;
                }
            }
            let source = FinalizeSource::Webhook;
            word = self.finalize(&checkpoint.name, job.status, source, &Actor::Control, now).await?.0;
        }
        match (word, unread) {
            (JobWord::Unknown, Some(refused)) => Err(refused),
            (word, _) => Ok(word),
        }
    }

    async fn is_the_job(
        &self,
        checkpoint: &Checkpoint,
        system: CiSystem,
        job: &CompletedJob,
    ) -> Result<bool, Refused> {
        if !job.is_of(checkpoint) {
            return Ok(false);
        }
        let pool = self.store.pool(&checkpoint.pool).await?.map(|record| record.pool);
        let ci = pool.and_then(|pool| pool.rules.ci).map(|binding| binding.system);
        if !job.is_said_by(system, ci, checkpoint) {
            return Ok(false);
        }
        let runner = self.store.runner(&checkpoint.runner).await?;
        Ok(runner.is_some_and(|runner| job.ran_on(&runner, checkpoint)))
    }

    /// The first word of a job's end releases its machine, if the checkpoint holds it; what comes then is the runner's.
    pub(super) async fn finalize(
        &self,
        name: &CheckpointName,
        status: JobOutcome,
        source: FinalizeSource,
        who: &Actor,
        now: Timestamp,
    ) -> Result<(JobWord, Checkpoint), Refused> {
        let checkpoint = self.checkpoint_record(name).await?;
        let runner = self.store.runner(&checkpoint.runner).await?;
        self.finalize_seen(checkpoint, runner, status, source, who, now).await
    }

    /// The same by who has just read the checkpoint and its runner: they are read again only if one of them has moved on.
    async fn finalize_seen(
        &self,
        checkpoint: Checkpoint,
        runner: Option<Runner>,
        status: JobOutcome,
        source: FinalizeSource,
        who: &Actor,
        now: Timestamp,
    ) -> Result<(JobWord, Checkpoint), Refused> {
        let (mut checkpoint, mut runner, mut tries) = (checkpoint, runner, Tries::new());
        loop {
            tries.again(|| format!("checkpoint {}", checkpoint.name))?;
            let word = finalizing(&checkpoint, runner.as_ref(), status, source, now);
            let (after, what) = match &word {
                Finalizing::Already => return Ok((JobWord::Already, checkpoint)),
                Finalizing::Queued(after) => (after, "finalized"),
                Finalizing::Worse(after) => (after, "finalized otherwise"),
            };
            let told = ended_as(status, source);
            let entry = of_checkpoint(now, who, what, &checkpoint, after, told);
            let write = CheckpointWrite { before: &checkpoint, after, entry: &entry };
            let won = match (&word, &runner) {
                (Finalizing::Queued(_), Some(runner)) if runner.held_by(&checkpoint.name) => {
                    self.finalize_and_release(write, runner, who, now).await?
                }
                (Finalizing::Worse(_), Some(runner)) => {
                    self.store.finalize_checkpoint(write, WithRunner::Stays(runner)).await?
                        == CheckpointWritten::Done
                }
                (Finalizing::Queued(_) | Finalizing::Worse(_) | Finalizing::Already, _) => {
                    self.store.finalize_checkpoint(write, WithRunner::Whatever).await?
                        == CheckpointWritten::Done
                }
            };
            if won {
                match word {
                    Finalizing::Queued(_) => self.measures().finalized(source),
                    // Somebody else said first that it had ended.
                    Finalizing::Worse(_) | Finalizing::Already => {}
                }
                tracing::info!(
                    checkpoint = %checkpoint.name,
                    runner = %checkpoint.runner,
                    job = %checkpoint.job,
                    finalize_source = source.as_str(),
                    status = status.as_str(),
                    "a checkpoint was finalized"
                );
                self.wake(Key::from(&checkpoint.name));
                let word = match word {
                    Finalizing::Queued(_) => JobWord::Queued,
                    Finalizing::Worse(_) | Finalizing::Already => JobWord::Already,
                };
                return Ok((word, *after.clone()));
            }
            checkpoint = self.checkpoint_record(&checkpoint.name).await?;
            runner = self.store.runner(&checkpoint.runner).await?;
        }
    }

    /// Whether it won. A runner whose time is over is left to refresh.
    async fn finalize_and_release(
        &self,
        write: CheckpointWrite<'_>,
        runner: &Runner,
        who: &Actor,
        now: Timestamp,
    ) -> Result<bool, Refused> {
        let pool = self.pool_record(&runner.pool).await?.pool;
        let release = RunnerEvent::Release { why: write.entry.why.clone() };
        let Change { after, why } = match decide(runner, &release, &pool.rules, now) {
            Decision::Change(change) => *change,
            Decision::Stay | Decision::Refuse(_) => {
                let alone = self.store.finalize_checkpoint(write, WithRunner::Stays(runner)).await?;
                return Ok(alone == CheckpointWritten::Done);
            }
        };
        let entry = AuditEntry::of_runner(now, who.clone(), runner, &after, &why);
        let moves = WithRunner::Moves(RunnerWrite::of(runner, &after, &pool.rules, &entry));
        if self.store.finalize_checkpoint(write, moves).await? == CheckpointWritten::Lost {
            return Ok(false);
        }
        self.follow_up(&pool, runner, &after, who, &why, now).await?;
        Ok(true)
    }

    /// A hint for whoever attends to runners: losing it costs time, for refresh attends to them too.
    pub(crate) async fn ask_for_attention(&self, runner: &Runner) -> Result<(), Refused> {
        let notice = FinalizeNotice { runner: runner.id.clone(), epoch: runner.epoch };
        let body = serde_json::to_string(&notice).map_err(|error| Refused::internal(&error))?;
        if let Err(error) = self.queue.send(&QueueName::Finalize, body).await {
            tracing::warn!(runner = %runner.id, error = chain(&error), "nobody was asked to attend to a runner; refresh will");
        }
        Ok(())
    }

    /// Whether `pool`'s runners are attended to by more than their agents.
    pub(crate) fn is_attended(pool: &Pool) -> bool {
        pool.rules.dispatch == Dispatch::Hook
    }
}

fn ended_as(status: JobOutcome, source: FinalizeSource) -> String {
    let status = status.as_str();
    match source {
        FinalizeSource::Gc => {
            format!("its machine was taken from it, and nobody said how its job ended: {status}")
        }
        FinalizeSource::Hook | FinalizeSource::Poller | FinalizeSource::Webhook | FinalizeSource::Agent => {
            format!("its job ended: {status}, said by {}", source.as_str())
        }
    }
}

pub(super) fn of_checkpoint(
    at: Timestamp,
    who: &Actor,
    what: &str,
    before: &Checkpoint,
    after: &Checkpoint,
    why: impl Into<String>,
) -> AuditEntry {
    let state = |checkpoint: &Checkpoint| Some(checkpoint.state.as_str().to_owned());
    let entry =
        AuditEntry { from: state(before), to: state(after), ..AuditEntry::of(at, who.clone(), what, why) };
    // Its job ran until that was said; what comes then is the cleaning.
    let begun = before.finalized.map_or(before.created_at, |finalized| finalized.at);
    let is_given_up = before.finalized.is_none() && after.is_forgotten();
    entry.came_out(if is_given_up { AuditResult::Error } else { AuditResult::Ok }, at.since(begun))
}
