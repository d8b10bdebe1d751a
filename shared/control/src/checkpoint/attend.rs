//! Looking after checkpoints and their runners: what their agents do not do. It notices what became of a runner, and what nobody said in time, and
//! has the runner's CI system told what it must know. A notice from the queue asks for it, and refresh does it anyway.

use super::finalize::of_checkpoint;
use crate::control::Control;
use crate::error::Refused;
use crate::store::{CheckpointWrite, CheckpointWritten, Found, WithRunner};
use crate::tries::Tries;
use futures_util::future::BoxFuture;
use motorpool_domain::alert::Incident;
use motorpool_domain::checkpoint::{
    Checkpoint, FinalizeSource, JobOutcome, abandoned, ended, forgotten, has_outlived_its_time, is_stale,
    next_look,
};
use motorpool_domain::pool::Pool;
use motorpool_domain::record::Key;
use motorpool_domain::runner::Runner;
use motorpool_domain::{Actor, CheckpointName, RunnerId, Timestamp};
use std::slice;

impl Control {
    /// Does what is to be done about a runner by now; nothing, where nothing is. One that can't be read is for a control plane that can: a notice of it would
    /// only end as a dead letter.
    pub async fn attend_to(&self, id: &RunnerId) -> Result<(), Refused> {
        let found = self.store.find_runners(slice::from_ref(id)).await?.into_iter().next();
        let Some(runner) = found.and_then(Found::into_record) else { return Ok(()) };
        match self.store.pool(&runner.pool).await? {
            Some(record) => self.attend(&record.pool, runner, self.now()).await,
            None => Ok(()),
        }
    }

    pub(crate) async fn attend(&self, pool: &Pool, runner: Runner, now: Timestamp) -> Result<(), Refused> {
        let runner = Box::pin(self.pause_in_ci(pool, runner, now)).await?;
        let runner = self.settle_clean_step(pool, runner, now).await?;
        let runner = Box::pin(self.advance_unattended(pool, runner, &Actor::Control, now)).await?;
        let runner = Box::pin(self.unpause_in_ci(pool, runner, now)).await?;
        let Some(name) = runner.checkpoint.clone() else { return Ok(()) };
        Box::pin(self.look_at_checkpoint_of(&name, Some(Box::new((pool.clone(), runner))), now)).await
    }

    /// Brings one checkpoint as far as it can be: to its end, or to the next look. On the heap: whoever notices what became of a runner is deep enough.
    pub(crate) fn look_at_checkpoint<'a>(
        &'a self,
        name: &'a CheckpointName,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(), Refused>> {
        Box::pin(self.look_at_checkpoint_of(name, None, now))
    }

    /// `known`: its pool and its runner, by who has just read that this runner has it. One that names it was not read too early: what it does not show yet,
    /// the next look finds.
    async fn look_at_checkpoint_of(
        &self,
        name: &CheckpointName,
        mut known: Option<Box<(Pool, Runner)>>,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let mut tries = Tries::new();
        loop {
            tries.again(|| format!("checkpoint {name}"))?;
            let Some(checkpoint) = self.store.checkpoint(name).await? else { return Ok(()) };
            if !checkpoint.state.is_active() {
                return Ok(());
            }
            let (pool, runner) = match known.take() {
                Some(known) => {
                    let (pool, runner) = *known;
                    (Some(pool), Some(runner))
                }
                None => (
                    self.store.pool(&checkpoint.pool).await?.map(|record| record.pool),
                    self.store.runner(&checkpoint.runner).await?,
                ),
            };
            if let Some(after) = ended(&checkpoint, runner.as_ref(), now) {
                let is_late = |pool: &Pool| has_outlived_its_time(&checkpoint, &pool.rules, now);
                let was_stale = after.is_forgotten() || pool.as_ref().is_some_and(is_late);
                self.end_checkpoint(&checkpoint, &after, was_stale, now).await?;
                continue;
            }
            // A pool that is gone had no runner left, and so no checkpoint: there was nothing to end it by.
            let (Some(pool), Some(runner)) = (pool, runner) else { return Ok(()) };
            if let Some(after) = forgotten(&checkpoint, &runner, &pool.rules, now) {
                self.forget(&checkpoint, &after, now).await?;
                continue;
            }
            if is_stale(&checkpoint, &runner, &pool.rules, now) {
                // At each look: whoever found it first may have been cut off before he could say so.
                self.raise(stale(&checkpoint), &held_up_by(&checkpoint), now).await;
            }
            if abandoned(&checkpoint, &runner) {
                let (status, source) = (JobOutcome::Canceled, FinalizeSource::Gc);
                self.finalize(name, status, source, &Actor::Control, now).await?;
                continue;
            }
            if self.poll_job(&pool, &runner, &checkpoint, now).await? {
                continue;
            }
            let polls = pool.rules.ci.is_some();
            let look_at = next_look(&checkpoint, Some(&runner), &pool.rules, polls, now);
            if look_at != checkpoint.look_at {
                self.store.look_at_checkpoint_again(&checkpoint, look_at).await?;
            }
            return Ok(());
        }
    }

    /// `was_stale`: people may have been told that it has outlived its time.
    async fn end_checkpoint(
        &self,
        before: &Checkpoint,
        after: &Checkpoint,
        was_stale: bool,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let why = after.state.why().unwrap_or_default();
        let entry = of_checkpoint(now, &Actor::Control, "ended", before, after, why);
        let write = CheckpointWrite { before, after, entry: &entry };
        if self.store.finalize_checkpoint(write, WithRunner::Whatever).await? == CheckpointWritten::Done {
            tracing::info!(
                checkpoint = %after.name,
                runner = %after.runner,
                state = after.state.as_str(),
                lasted_ms = u64::try_from(now.since(before.created_at).as_millis()).unwrap_or(u64::MAX),
                why,
                "a checkpoint came to its end"
            );
            self.wake(Key::from(&after.name));
            if was_stale {
                self.resolve(&stale(after), now).await;
            }
        }
        Ok(())
    }

    async fn forget(&self, before: &Checkpoint, after: &Checkpoint, now: Timestamp) -> Result<(), Refused> {
        let why = "nobody said in time that its job has ended";
        let entry = of_checkpoint(now, &Actor::Refresh, "forgotten", before, after, why);
        let write = CheckpointWrite { before, after, entry: &entry };
        if self.store.finalize_checkpoint(write, WithRunner::Whatever).await? == CheckpointWritten::Done {
            self.measures().finalized(FinalizeSource::Gc);
            tracing::warn!(target: "alert", checkpoint = %after.name, runner = %after.runner, job = %after.job, "a checkpoint is stale: nobody said that its job has ended, and its machine is cleaned");
        }
        Ok(())
    }
}

fn stale(checkpoint: &Checkpoint) -> Incident {
    Incident::StaleCheckpoint { checkpoint: checkpoint.name.to_string() }
}

fn held_up_by(checkpoint: &Checkpoint) -> String {
    let Checkpoint { job, runner, .. } = checkpoint;
    match checkpoint.is_forgotten() {
        true => format!("job {job} on runner {runner}: nobody said that it has ended"),
        false => format!("job {job} on runner {runner}, which its CI system has not taken out"),
    }
}
