//! `sync`: an agent says what is, and is told what should be. Also its heartbeat.

use super::bootstrap::gone;
use super::token::not_its_token;
use super::{Applied, is_fit_id, is_token_sha256};
use crate::control::Control;
use crate::error::Refused;
use crate::secrets::{same, token_sha256};
use motorpool_domain::audit::cut;
use motorpool_domain::ci::is_older;
use motorpool_domain::claim::{Claim, left_over};
use motorpool_domain::pool::{CheckpointRules, Pool};
use motorpool_domain::runner::{
    CleaningStep, Desired, Holder, NextToken, Observed, Runner, RunnerEvent, RunnerState, Sender, StateName,
    StepTaken, Task, TaskOutcome, TaskResult, awaits_pause, desired, is_token_due, observe, steps_taken,
    waits_for_ci,
};
use motorpool_domain::text::visible;
use motorpool_domain::time::millis;
use motorpool_domain::{Actor, Threshold, Timestamp};
use motorpool_wire::agent::{LONGEST_ID, Protocol, SyncAnswer, SyncRequest, TaskKind, TaskOrder};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synced {
    pub answer: SyncAnswer,
    /// There is something to do or to know. If not, a long poll may go on waiting.
    pub news: bool,
}

/// One report can mean several steps: deregistered, and with `keep` clean at once.
const STEPS: usize = 4;

impl Control {
    pub async fn sync(&self, token: &str, request: &SyncRequest) -> Result<Synced, Refused> {
        let now = self.now();
        let sender =
            Sender { session: request.session.as_deref(), next: request.next_token_sha256.as_deref() };
        let runner = self.known_runner(token, &request.runner, sender, now).await?;
        if !Protocol::OURS.understands(request.protocol) {
            return Err(other_protocol(request.protocol));
        }
        if !is_fit_id(&request.boot_id) {
            return Err(Refused::invalid(
                format!("boot_id must be at most {LONGEST_ID} characters, and none of them a control"),
                "send what the kernel says, or a UUID",
            ));
        }
        if !sender.session.is_none_or(is_fit_id) || !sender.next.is_none_or(is_token_sha256) {
            return Err(Refused::invalid(
                format!(
                    "session must be at most {LONGEST_ID} characters, and next_token_sha256 64 lower-case hex digits"
                ),
                "make up the one, and hash the token with SHA-256 for the other",
            ));
        }
        if runner.state.name() == StateName::Terminated {
            return Err(gone(&runner));
        }
        let pool = self.pool_record(&runner.pool).await?.pool;
        self.hear(&pool, &runner, now).await?;
        let known = runner.rev;
        // An old epoch changes nothing; its sender is told the present one.
        let runner = match request.epoch == runner.epoch {
            true => {
                let runner = self.take_next_token(&pool, runner, token, request, now).await?;
                self.take_report(&pool, runner, request, now).await?
            }
            false => runner,
        };
        let Synced { answer, news } = answer(&pool, &runner, request, now);
        // What its own report changed, its deadlines above all, an agent must know before it is cut off.
        Ok(Synced { answer, news: news || runner.rev != known })
    }

    /// Its agent's next token is its token from here on. Written by itself, and before the proof that it is clean: a runner is not idle with a token that
    /// its last holder could have read, and what a crash cuts off in between is told again with the next one.
    async fn take_next_token(
        &self,
        pool: &Pool,
        runner: Runner,
        token: &str,
        request: &SyncRequest,
        now: Timestamp,
    ) -> Result<Runner, Refused> {
        let SyncRequest { session: Some(session), next_token_sha256: Some(next), .. } = request else {
            return Ok(runner);
        };
        let from = token_sha256(token);
        if same(&from, next) {
            return Ok(runner);
        }
        let next = NextToken { token_sha256: next.clone(), session: session.clone() };
        Ok(self.report(pool, runner, &RunnerEvent::TokenChanged { from, next }, None, now).await?.0)
    }

    /// A long poll asks often: the heartbeat is written at most twice an interval.
    pub(super) async fn hear(&self, pool: &Pool, runner: &Runner, now: Timestamp) -> Result<(), Refused> {
        let half = pool.rules.limits.heartbeat / 2;
        if runner.seen_at.is_none_or(|seen_at| now.since(seen_at) >= half) {
            self.store.heartbeat(&runner.id, runner.epoch, now).await?;
        }
        Ok(())
    }

    async fn take_report(
        &self,
        pool: &Pool,
        runner: Runner,
        request: &SyncRequest,
        now: Timestamp,
    ) -> Result<Runner, Refused> {
        let mut current = runner;
        for event in told(pool, &current, request) {
            current = self.report(pool, current, &event, None, now).await?.0;
        }
        if let Some(leaving) = current.state.leaving()
            && let Some(event) = left_over(leaving, self.holding_claim(&leaving.holder).await?.as_ref())
        {
            current = self.report(pool, current, &event, None, now).await?.0;
        }
        for _ in 0..STEPS {
            let Some(event) = observe(&current, &observed(request, &current), &pool.rules) else { break };
            let (event, claim) = self.with_the_claims_time(&current, event).await?;
            let before = Box::new(current.clone());
            let (after, changed) = self.report(pool, current, &event, claim, now).await?;
            if changed {
                self.note_steps(pool, &before, &after, &request.results);
            }
            current = after;
            if !changed {
                break;
            }
        }
        self.settle_clean_step(pool, current, now).await
    }

    /// What an attempt to clean a machine took, once it has ended.
    fn note_steps(&self, pool: &Pool, before: &Runner, after: &Runner, results: &[TaskResult]) {
        let backend = pool.rules.backend;
        for StepTaken { step, result, took } in steps_taken(before, after, results) {
            self.measures().took(step.into(), backend, result, took);
            let (runner, pool, backend_type) = (&after.id, &pool.name, backend.name());
            let took_s = took.as_secs_f64();
            match step {
                CleaningStep::Reset => {
                    tracing::info!(%runner, %pool, backend_type, %result, reset_duration_seconds = took_s, "a machine's reset has ended");
                }
                CleaningStep::Cleanup => {
                    tracing::info!(%runner, %pool, backend_type, %result, checkpoint_delete_duration_seconds = took_s, "a machine's cleanup has ended");
                }
                CleaningStep::Readiness => {
                    tracing::info!(%runner, %pool, backend_type, %result, readiness_duration_seconds = took_s, "a machine's readiness was looked at");
                }
            }
        }
    }

    /// What one thing that the agent says makes of its runner, and whether it made anything. `known` is its holder, if that was read.
    async fn report(
        &self,
        pool: &Pool,
        runner: Runner,
        event: &RunnerEvent,
        known: Option<Claim>,
        now: Timestamp,
    ) -> Result<(Runner, bool), Refused> {
        let who = Actor::Runner(runner.id.clone());
        let applied = self.transition(pool, &runner, event, &who, now).await?;
        self.notify_dependents_with(&applied, known, now).await?;
        match applied {
            // Whoever waited for it may have taken it by now, and its agent should hear so at once.
            Applied::Changed { after, .. } if after.state.makes_room() => {
                Ok((self.still_its(&after).await?, true))
            }
            Applied::Changed { after, .. } => Ok((*after, true)),
            Applied::Stayed | Applied::Refused(_) => Ok((runner, false)),
            Applied::Overtaken => Ok((self.still_its(&runner).await?, false)),
        }
    }

    /// The runner as it is now, if the token that was good for it as it was read is good still.
    async fn still_its(&self, read: &Runner) -> Result<Runner, Refused> {
        let found = self.runner_record(&read.id).await?;
        match found.has_the_token_of(read) {
            true => Ok(found),
            false => Err(not_its_token()),
        }
    }

    async fn holding_claim(&self, holder: &Holder) -> Result<Option<Claim>, Refused> {
        match holder {
            Holder::Claim(claim) => Ok(self.store.claim(claim).await?),
            Holder::Checkpoint(_) => Ok(None),
        }
    }

    /// A runner that joins a ready claim has the rest of its time. With the claim, if it was read for that.
    async fn with_the_claims_time(
        &self,
        runner: &Runner,
        mut event: RunnerEvent,
    ) -> Result<(RunnerEvent, Option<Claim>), Refused> {
        let (RunnerEvent::Ready { until } | RunnerEvent::Registered { until }, Some(holder)) =
            (&mut event, runner.holder())
        else {
            return Ok((event, None));
        };
        let claim = self.holding_claim(holder).await?;
        *until = claim.as_ref().and_then(Claim::until);
        Ok((event, claim))
    }
}

fn answer(pool: &Pool, runner: &Runner, request: &SyncRequest, now: Timestamp) -> Synced {
    let limits = &pool.rules.limits;
    let observed = observed(request, runner);
    let (task, end) = match desired(runner, &observed, &pool.rules, now) {
        Desired::Rest => (None, false),
        Desired::Do(task) if !is_understood(&task, request.protocol) => {
            tracing::warn!(target: "alert", runner = %runner.id, pool = %pool.name, "an agent does not know how to reset its machine: update it");
            (None, false)
        }
        Desired::Do(task) => (order(&task, runner, pool), false),
        Desired::End => (None, true),
    };
    // Where the CI system's program waits for jobs on an idle machine, that the machine is still idle ends nothing; nor does a CI system that has not
    // said yet that its job is over.
    let waits = waits_for_ci(runner, &pool.rules) || awaits_pause(runner, &pool.rules);
    let deadline = runner.threshold.filter(|_| !waits);
    let new_task = task.as_ref().is_some_and(|task| {
        observed.busy.as_ref() != Some(&task.id) && !observed.results.iter().any(|done| done.task == task.id)
    });
    let answer = SyncAnswer {
        protocol: Protocol::OURS,
        epoch: runner.epoch,
        state: runner.state.name(),
        task,
        end,
        kept: runner.kept,
        threshold_in_ms: deadline.map(|Threshold(at)| millis(now.until(at))),
        fence_in_ms: deadline.map(|Threshold(at)| millis(now.until(at.after(limits.grace)))),
        next_sync_in_ms: millis(next_sync(runner, limits.heartbeat, now)),
        token_due: is_token_due(runner),
        token_taken: is_taken(runner, request),
    };
    // Without another token it can't be idle, and it may not have been told so yet.
    let waits_for_token =
        observed.owes_token && request.next_token_sha256.is_none() && observed.busy.is_none();
    let news = new_task || end || runner.epoch != request.epoch || waits_for_token;
    Synced { answer, news }
}

fn other_protocol(theirs: Protocol) -> Refused {
    let (Protocol(ours), Protocol(theirs)) = (Protocol::OURS, theirs);
    let hint = match theirs < ours {
        true => "update the agent on this machine, one version at a time",
        false => "update the control plane, one version at a time",
    };
    Refused::invalid(format!("this agent speaks protocol {theirs}, and this control plane {ours}"), hint)
}

/// What an agent says of its host, whatever it is doing.
fn told(pool: &Pool, runner: &Runner, request: &SyncRequest) -> Vec<RunnerEvent> {
    let said = request.program_version.as_deref().filter(|version| version.len() <= LONGEST_ID).map(visible);
    let version = said.as_ref().filter(|version| runner.program.as_ref() != Some(*version));
    let least = pool.rules.ci.as_ref().and_then(|ci| ci.minimum_version.as_ref());
    if let Some((version, least)) = version.zip(least)
        && is_older(version, least)
    {
        tracing::warn!(target: "alert", runner = %runner.id, pool = %pool.name, version, least, "a runner program is older than the pool's minimum: the CI system may refuse it soon");
    }
    let other_boot = runner.boot_id.as_deref().is_some_and(|known| known != request.boot_id);
    let booted = other_boot.then(|| RunnerEvent::NewBoot { boot_id: request.boot_id.clone() });
    let seen = version.map(|version| RunnerEvent::ProgramSeen { version: version.clone() });
    let notice = request.notice.map(|notice| RunnerEvent::InterruptionNotice { notice });
    booted.into_iter().chain(seen).chain(notice).collect()
}

/// What is on the host holds in any epoch; what was done in an old one says nothing of this one.
fn observed(request: &SyncRequest, runner: &Runner) -> Observed {
    let results = match request.epoch == runner.epoch {
        true => request.results.iter().map(kept).collect(),
        false => Vec::new(),
    };
    let owes_token = request.session.is_some() && is_token_due(runner);
    Observed { registered: request.registered.clone(), busy: request.busy.clone(), results, owes_token }
}

/// Whether the token that the request names is the runner's by now.
fn is_taken(runner: &Runner, request: &SyncRequest) -> bool {
    let its = runner.credential.as_ref().zip(request.next_token_sha256.as_ref());
    its.is_some_and(|(its, named)| same(&its.token_sha256, named))
}

/// A result, as far as it is worth keeping: what an agent says at length would make records too large to write.
fn kept(result: &TaskResult) -> TaskResult {
    let outcome = match &result.outcome {
        TaskOutcome::Done => TaskOutcome::Done,
        TaskOutcome::Failed { why } => TaskOutcome::Failed { why: cut(why.clone()) },
    };
    TaskResult { task: result.task.clone(), outcome, took_ms: result.took_ms }
}

/// An agent of the version before can't read what it does not know.
fn is_understood(task: &Task, theirs: Protocol) -> bool {
    match task {
        Task::Reset { .. } | Task::Readiness { .. } => theirs >= Protocol::RESETS,
        Task::Prepare { .. } | Task::Register { .. } | Task::Deregister { .. } | Task::Cleanup { .. } => true,
    }
}

/// A machine's own commands go before its pool's. Nothing where a pool has lost the command that its runner is to be reset with: without it nothing
/// would be proven.
fn order(task: &Task, runner: &Runner, pool: &Pool) -> Option<TaskOrder> {
    let (commands, own) = (pool.rules.commands.clone(), runner.commands.clone());
    let CheckpointRules { reset_command, readiness, .. } = pool.rules.checkpoints;
    let timeout = match task {
        Task::Reset { .. } => reset_command,
        Task::Readiness { .. } => readiness,
        Task::Prepare { .. } | Task::Register { .. } | Task::Deregister { .. } | Task::Cleanup { .. } => {
            pool.rules.limits.command
        }
    };
    let kind = match task {
        Task::Prepare { .. } => TaskKind::Prepare { script: commands.pre_runner },
        Task::Register { label, .. } => {
            // One that an operator registered there by hand needs no registration of ours.
            let by_hand = runner.ci_runner.is_some();
            let ci = pool.rules.ci.as_ref().map(|binding| binding.system);
            let ci = ci.filter(|system| system.registers() && !by_hand);
            TaskKind::Register { label: label.clone(), script: commands.register, run: commands.run, ci }
        }
        Task::Deregister { label, .. } => {
            TaskKind::Deregister { label: label.clone(), script: commands.deregister }
        }
        Task::Cleanup { .. } => TaskKind::Cleanup { script: own.cleanup.or(commands.cleanup) },
        Task::Reset { .. } => TaskKind::Reset { script: own.reset.or(commands.reset)? },
        Task::Readiness { .. } => TaskKind::Readiness { script: own.readiness.or(commands.readiness)? },
    };
    Some(TaskOrder {
        id: task.id().clone(),
        kind,
        timeout_ms: millis(timeout),
        env: pool.rules.job_env.clone(),
    })
}

/// An agent that waits for the next attempt to clean comes back when that is due.
fn next_sync(runner: &Runner, heartbeat: Duration, now: Timestamp) -> Duration {
    match &runner.state {
        RunnerState::Resetting { not_before, .. } if *not_before > now => {
            heartbeat.min(now.until(*not_before))
        }
        RunnerState::Resetting { .. }
        | RunnerState::Created { .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Releasing { .. }
        | RunnerState::Quarantined { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => heartbeat,
    }
}
