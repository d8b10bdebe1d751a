//! `create`: a job begins on a runner. The runner is told from its token, and takes its step in the transaction that writes the checkpoint.

use super::view::view;
use crate::control::Control;
use crate::error::{Refused, chain};
use crate::measures::Step;
use crate::store::{CheckpointWritten, RunnerWrite};
use crate::tries::Tries;
use motorpool_domain::checkpoint::{
    Checkpoint, Creating, Job, NotCreated, cannot_be_asked_for, creating, is_asked_sooner,
};
use motorpool_domain::pool::Pool;
use motorpool_domain::record::Key;
use motorpool_domain::runner::{Change, Decision, Hold, Holder, Runner, RunnerEvent, decide};
use motorpool_domain::text::steers;
use motorpool_domain::{Actor, AuditEntry, AuditResult, CheckpointName, Timestamp};
use motorpool_wire::checkpoint::{CheckpointView, CreateCheckpoint, LONGEST_NAME};

impl Control {
    /// The same job of the same runner again is answered with the same checkpoint: the answer may have been lost.
    pub async fn create_checkpoint(
        &self,
        token: &str,
        request: CreateCheckpoint,
    ) -> Result<CheckpointView, Refused> {
        let now = self.now();
        let CreateCheckpoint { runner_id, job_id, project, attempt, caller, key } = request;
        let runner = self.runner_with_token(token, now).await?;
        if runner_id.is_some_and(|named| named != runner.id) {
            return Err(Refused::forbidden(
                "this token is not that of the runner that the request names",
                "leave runner_id out, or send that runner's own token",
            ));
        }
        if ![&project, &caller, &key].into_iter().flatten().all(|name| is_fit_name(name)) {
            return Err(Refused::invalid(
                format!(
                    "project, caller and key must be at most {LONGEST_NAME} characters, and none of them a control"
                ),
                "leave them out, or shorten them",
            ));
        }
        let runner = self.heard_directly(runner, now).await?;
        let job = Job { id: job_id, project, attempt, caller, key };
        let checkpoint = self.open_checkpoint(runner, &job, now).await?;
        Ok(view(&checkpoint))
    }

    async fn open_checkpoint(
        &self,
        runner: Runner,
        job: &Job,
        now: Timestamp,
    ) -> Result<Checkpoint, Refused> {
        let pool = self.pool_record(&runner.pool).await?.pool;
        if let Some(problem) = cannot_be_asked_for(job, &pool.rules) {
            return Err(Refused::invalid(problem.to_string(), problem.hint()));
        }
        let (mut runner, mut tries) = (runner, Tries::new());
        loop {
            tries.again(|| format!("runner {}", runner.id))?;
            let active = match &runner.checkpoint {
                Some(name) => self.store.checkpoint(name).await?,
                None => None,
            };
            match (creating(&runner, active.as_ref(), job, &pool.rules, now), active) {
                (Creating::Same, Some(active)) => return Ok(active),
                (Creating::Refused(refusal), active) => {
                    if let Some(active) = active {
                        self.ask_sooner(&pool, &runner, &active, now).await;
                    }
                    return Err(not_created(&refusal));
                }
                (how @ (Creating::Holding | Creating::Attached | Creating::Same), _) => {
                    if let Some(made) = self.write_checkpoint(&pool, &runner, job, &how, now).await? {
                        return Ok(made);
                    }
                }
            }
            let found = self.runner_record(&runner.id).await?;
            if !found.has_the_token_of(&runner) {
                return Err(crate::runner::not_its_token());
            }
            runner = found;
        }
    }

    /// Has the CI system asked at once about a job that another one has come after. A hint: losing it costs the time until it is asked anyway.
    async fn ask_sooner(&self, pool: &Pool, runner: &Runner, active: &Checkpoint, now: Timestamp) {
        if !is_asked_sooner(active, &pool.rules, now) {
            return;
        }
        let asks = async {
            self.store.look_at_checkpoint_again(active, now).await?;
            self.ask_for_attention(runner).await
        };
        if let Err(error) = asks.await {
            tracing::warn!(checkpoint = %active.name, runner = %runner.id, error = chain(&error), "nobody asks about a job at once that another one has come after; it is asked about in its time");
        }
    }

    /// Nothing if the runner is no longer what it was decided on.
    async fn write_checkpoint(
        &self,
        pool: &Pool,
        before: &Runner,
        job: &Job,
        how: &Creating,
        now: Timestamp,
    ) -> Result<Option<Checkpoint>, Refused> {
        let rules = &pool.rules;
        let word = u32::try_from(self.entropy.bits() & u128::from(u32::MAX)).unwrap_or_default();
        let name = CheckpointName::of(&job.id, now, word);
        let hold = (*how == Creating::Holding).then(|| Hold {
            holder: Holder::Checkpoint(name.clone()),
            warm: true,
            max_runtime: rules.checkpoints.lasts,
        });
        let event = RunnerEvent::CheckpointCreated { checkpoint: name.clone(), hold };
        let Change { after, why } = match decide(before, &event, rules, now) {
            Decision::Change(change) => *change,
            Decision::Stay | Decision::Refuse(_) => {
                return Err(not_created(&NotCreated::Runner(before.state.name())));
            }
        };
        let who = Actor::Runner(before.id.clone());
        let checkpoint = Checkpoint::open(name, before, job.clone(), &rules.checkpoints, now);
        let told = format!("job {} begins on runner {}", job.id, before.id);
        let took = self.now().since(now);
        let entry =
            AuditEntry::of_new(now, who.clone(), "created", "created", told).came_out(AuditResult::Ok, took);
        let runner_entry = AuditEntry::of_runner(now, who.clone(), before, &after, &why);
        let write = RunnerWrite::of(before, &after, rules, &runner_entry);
        match self.store.create_checkpoint(&checkpoint, &entry, write).await? {
            CheckpointWritten::Lost => return Ok(None),
            CheckpointWritten::Done => {}
        }
        // With the write, which the entry could not know yet.
        let took = self.now().since(now);
        self.measures().took(Step::Create, rules.backend, AuditResult::Ok, took);
        tracing::info!(
            checkpoint = %checkpoint.name,
            runner = %before.id,
            pool = %pool.name,
            job = %job.id,
            backend_type = rules.backend.name(),
            checkpoint_create_duration_seconds = took.as_secs_f64(),
            "a checkpoint was created"
        );
        self.wake(Key::from(&before.id));
        Ok(Some(checkpoint))
    }
}

fn is_fit_name(name: &str) -> bool {
    name.chars().count() <= LONGEST_NAME && !name.chars().any(steers)
}

fn not_created(refusal: &NotCreated) -> Refused {
    let said = refusal.to_string();
    match refusal {
        NotCreated::Active(_) => Refused::conflict(
            said,
            "wait for its end; if two jobs come to one machine, set the CI runner's concurrency to 1",
        ),
        NotCreated::Cooling { wait } => Refused::too_many(said, *wait),
        NotCreated::Runner(_) => Refused::conflict(
            said,
            "`motorpool runners` says what it is at; GET /runner/readiness says when it can take a job",
        ),
    }
}
