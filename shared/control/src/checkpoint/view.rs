//! A checkpoint, and whether a runner can take a job, as callers see them.

use crate::caller::Caller;
use crate::control::Control;
use crate::error::Refused;
use jiff::Timestamp as Instant;
use motorpool_domain::checkpoint::{Checkpoint, CheckpointState};
use motorpool_domain::runner::{Runner, RunnerState};
use motorpool_domain::{CheckpointName, Timestamp};
use motorpool_wire::checkpoint::{CheckpointView, Readiness};

impl Control {
    pub async fn checkpoint_status(
        &self,
        token: &str,
        name: &CheckpointName,
    ) -> Result<CheckpointView, Refused> {
        let runner = self.runner_with_token(token, self.now()).await?;
        Ok(view(&self.own_checkpoint(&runner, name).await?))
    }

    /// Whichever runner it is of.
    pub async fn any_checkpoint_status(
        &self,
        caller: &Caller,
        name: &CheckpointName,
    ) -> Result<CheckpointView, Refused> {
        caller.must_be_operator("look at a runner's checkpoint")?;
        Ok(view(&self.checkpoint_record(name).await?))
    }

    pub async fn readiness(&self, token: &str) -> Result<Readiness, Refused> {
        let now = self.now();
        let runner = self.heard_directly(self.runner_with_token(token, now).await?, now).await?;
        let cools = runner.cools_until.is_some_and(|until| until > now);
        let ready = runner.state == RunnerState::Idle && runner.paused_at.is_none() && !cools;
        Ok(Readiness { state: runner.state.name().as_str().to_owned(), ready, runner_id: runner.id })
    }

    /// A runner's token is good for that runner alone.
    pub(super) async fn own_checkpoint(
        &self,
        runner: &Runner,
        name: &CheckpointName,
    ) -> Result<Checkpoint, Refused> {
        let checkpoint = self.checkpoint_record(name).await?;
        match checkpoint.runner == runner.id {
            true => Ok(checkpoint),
            false => Err(Refused::forbidden(
                "this checkpoint is not of this token's runner",
                "send the token of the runner that the job ran on",
            )),
        }
    }

    pub(super) async fn checkpoint_record(&self, name: &CheckpointName) -> Result<Checkpoint, Refused> {
        self.store.checkpoint(name).await?.ok_or_else(|| {
            Refused::not_found(
                format!("there is no checkpoint {name}"),
                "take the name that create answered with; ended ones are kept for 30 days",
            )
        })
    }
}

pub(super) fn view(checkpoint: &Checkpoint) -> CheckpointView {
    let Checkpoint { name, runner, job, caller, state, created_at, finalized, .. } = checkpoint;
    CheckpointView {
        name: name.clone(),
        runner_id: runner.clone(),
        job_id: job.clone(),
        state: state.as_str().to_owned(),
        created_at: in_words(*created_at),
        caller: caller.clone(),
        finalize_status: finalized.map(|finalized| finalized.status),
        finalize_source: finalized.map(|finalized| finalized.source),
        finalized_at: finalized.map(|finalized| in_words(finalized.at)),
        why: why(checkpoint).to_owned(),
    }
}

fn why(checkpoint: &Checkpoint) -> &str {
    match &checkpoint.state {
        CheckpointState::Created if checkpoint.is_forgotten() => {
            "nobody said in time that its job has ended; its machine is being cleaned"
        }
        CheckpointState::Created => "its job runs",
        CheckpointState::FinalizeQueued => "its job has ended, and its machine is being cleaned",
        CheckpointState::Reset { why, .. }
        | CheckpointState::Deleted { why, .. }
        | CheckpointState::GcReset { why, .. } => why,
    }
}

/// RFC 3339, in UTC.
fn in_words(at: Timestamp) -> String {
    let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    Instant::from_millisecond(millis).unwrap_or(Instant::MAX).to_string()
}
