//! The jobs that a CI system hands out by itself: what each does on its machine, and what its hooks ask and say there. A hook asks again for as long as
//! the agent's own would, and a job whose first hook is refused fails at once. Who hands it out, and who carries its calls, is the world.

mod manner;

use super::calls::{Call, Reply};
use super::chance::Chance;
use super::faults::Fault;
use super::ground::Ground;
use super::schedule::Event;
use manner::Manner;
use motorpool_control::{Refused, RefusedKind};
use motorpool_domain::checkpoint::JobOutcome;
use motorpool_domain::{CheckpointName, JobId, RunnerId};
use motorpool_wire::checkpoint::{CheckpointView, CreateCheckpoint, FinalizeCheckpoint};

/// Whose job it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Like GitLab's: it has an id of its own, and its runner goes on after it.
    Forge,
    /// Like GitHub's: it shares the id of its run with others, and the program that took it ends with it.
    Registry,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobEvent {
    /// It is asked for.
    Asked,
    /// Its hook calls, for the first time or again.
    Hook,
    /// Its hook runs once more, before another step of it.
    AnotherStep,
    ScriptOver,
    /// Its CI system knows that it is over.
    Known,
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) number: usize,
    /// Its own, or its run's.
    pub(crate) id: JobId,
    pub(crate) origin: Origin,
    manner: Manner,
    stage: Stage,
    /// The host that it is on, or was on last.
    pub(crate) host: Option<usize>,
    /// Rises when it is killed: what was meant for it before is dropped.
    pub(crate) life: u32,
    checkpoint: Option<CheckpointName>,
    /// As its CI system will say.
    outcome: JobOutcome,
    is_known_to_be_over: bool,
    /// Asked for after faults have stopped, and so must run to its own end.
    in_the_calm: bool,
    served: bool,
    refused: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waits,
    /// Its hook asks for a checkpoint.
    Begins {
        until_ms: u64,
    },
    Runs,
    /// Its hook says that it is over.
    Ends {
        until_ms: u64,
    },
    Over,
}

/// As long as an agent tries for a hook.
const HOOK_MS: u64 = 30_000;
/// At most: those that follow one another.
const JOBS_OF_A_RUN: usize = 4;
/// It looks once a second whether its job is over.
const LAST_HOOK_MS: u64 = 2_000;

impl Job {
    pub(crate) fn draw(chance: &mut Chance, number: usize, origin: Origin) -> Option<Self> {
        let manner = Manner::draw(chance, origin);
        Self::of(number, origin, manner)
    }

    /// One that is asked for when all is well.
    pub(crate) fn in_the_calm(number: usize, origin: Origin) -> Option<Self> {
        let manner = Manner::in_the_calm(number, origin);
        Some(Self { in_the_calm: true, ..Self::of(number, origin, manner)? })
    }

    fn of(number: usize, origin: Origin, manner: Manner) -> Option<Self> {
        let id = match origin {
            Origin::Forge => number.to_string(),
            Origin::Registry => format!("run-{}", number / JOBS_OF_A_RUN),
        };
        Some(Self {
            number,
            id: JobId::parse(id).ok()?,
            origin,
            outcome: manner.outcome,
            manner,
            stage: Stage::Waits,
            host: None,
            life: 0,
            checkpoint: None,
            is_known_to_be_over: false,
            in_the_calm: false,
            served: false,
            refused: None,
        })
    }

    /// Whether anything of it is on its machine.
    pub(crate) fn is_on_a_machine(&self) -> bool {
        match self.stage {
            Stage::Begins { .. } | Stage::Runs | Stage::Ends { .. } => true,
            Stage::Waits | Stage::Over => false,
        }
    }

    /// Nobody took it for long, and who asked for it waits no longer.
    pub(crate) fn is_given_up(&mut self) {
        self.stage = Stage::Over;
        self.is_known_to_be_over = true;
    }

    /// It is given to the CI system's runner on a host.
    pub(crate) fn begins(&mut self, ground: &Ground, host: usize) {
        self.host = Some(host);
        self.stage = Stage::Begins { until_ms: ground.now_ms() + HOOK_MS };
        self.later(ground, 100, 2_000, JobEvent::Hook);
    }

    /// What its hook asks or says now, with the token that it was lent.
    pub(crate) fn call(&self, token: String) -> Option<Call> {
        match (self.stage, &self.checkpoint, self.manner.says) {
            (Stage::Begins { .. } | Stage::Runs, _, _) => {
                let request = CreateCheckpoint {
                    runner_id: None,
                    job_id: self.id.clone(),
                    project: None,
                    attempt: None,
                    caller: None,
                    key: match self.origin {
                        Origin::Forge => None,
                        // It runs once a job.
                        Origin::Registry => Some(format!("once-{}", self.number)),
                    },
                };
                Some(Call::Create { token, request })
            }
            (Stage::Ends { .. }, Some(name), Some(status)) => {
                let request = FinalizeCheckpoint { checkpoint_name: name.clone(), status, source: None };
                Some(Call::Finalize { token, request })
            }
            (Stage::Ends { .. } | Stage::Waits | Stage::Over, _, _) => None,
        }
    }

    /// Its hook got no answer that it could use: it asks again, or gives up.
    pub(crate) fn asks_again(&mut self, ground: &Ground, wait_ms: u64) {
        let until_ms = match self.stage {
            Stage::Begins { until_ms } | Stage::Ends { until_ms } => until_ms,
            // Before another step.
            Stage::Runs => u64::MAX,
            Stage::Waits | Stage::Over => return,
        };
        if ground.now_ms() + wait_ms < until_ms {
            return self.later(ground, wait_ms, wait_ms + 1_000, JobEvent::Hook);
        }
        match self.stage {
            Stage::Ends { .. } => self.stage = Stage::Over,
            Stage::Begins { .. } | Stage::Runs | Stage::Waits | Stage::Over => self.fails(ground),
        }
    }

    /// An answer to its hook. Says whether its script begins.
    pub(crate) fn told(&mut self, ground: &Ground, runner: &RunnerId, reply: &Reply) -> bool {
        let asks_in_ms = |refused: &Refused| match (refused.kind, refused.retry_after) {
            (RefusedKind::TooManyRequests, Some(wait)) => {
                Some(u64::try_from(wait.as_millis()).unwrap_or(HOOK_MS))
            }
            (RefusedKind::Internal | RefusedKind::Unavailable, _) => Some(1_000),
            (_, _) => None,
        };
        match reply {
            Reply::Checkpoint(Ok(view)) => return self.has(ground, runner, view),
            Reply::Finalized(Ok(_)) => self.stage = Stage::Over,
            Reply::Checkpoint(Err(refused)) | Reply::Finalized(Err(refused)) => {
                self.refused = Some(refused.message.clone());
                match (asks_in_ms(refused), self.stage) {
                    (Some(wait_ms), _) => self.asks_again(ground, wait_ms),
                    (None, Stage::Begins { .. } | Stage::Runs) => self.fails(ground),
                    (None, Stage::Ends { .. } | Stage::Waits | Stage::Over) => self.stage = Stage::Over,
                }
            }
            Reply::Nothing
            | Reply::Claim(_)
            | Reply::Synced(_)
            | Reply::Joined(_)
            | Reply::Refreshed(_)
            | Reply::Registered(_)
            | Reply::Fetched(_)
            | Reply::Commanded(_)
            | Reply::Heard(_)
            | Reply::Attended(_) => self.asks_again(ground, 1_000),
        }
        false
    }

    /// Invariant 26: the same job again has the same checkpoint, and it is there.
    fn has(&mut self, ground: &Ground, runner: &RunnerId, view: &CheckpointView) -> bool {
        let is_its = ground
            .oracle()
            .checkpoint(&view.name)
            .is_some_and(|checkpoint| checkpoint.runner == *runner && checkpoint.job == self.id);
        let same = self.checkpoint.as_ref().is_none_or(|earlier| *earlier == view.name);
        if !is_its || !same {
            let what = format!(
                "job {} on {runner} is answered with {}, and had {:?} before",
                self.id, view.name, self.checkpoint
            );
            ground.broken(26, &[&view.name, runner], what);
        }
        if self.checkpoint.replace(view.name.clone()).is_some() {
            ground.fired(Fault::CreatedAgain);
        }
        let Stage::Begins { .. } = self.stage else { return false };
        self.stage = Stage::Runs;
        self.plan(ground, self.manner.lasts_ms, JobEvent::ScriptOver);
        if self.manner.steps {
            let wait_ms = ground.chance().between(0, self.manner.lasts_ms + 1);
            self.plan(ground, wait_ms, JobEvent::AnotherStep);
        }
        true
    }

    pub(crate) fn script_over(&mut self, ground: &Ground) {
        let Stage::Runs = self.stage else { return };
        self.served = true;
        self.plan(ground, self.manner.known_after_ms, JobEvent::Known);
        if self.manner.says_early {
            self.last_hook(ground, 0);
        }
    }

    fn last_hook(&mut self, ground: &Ground, wait_ms: u64) {
        match self.manner.says {
            Some(_) => {
                self.stage = Stage::Ends { until_ms: ground.now_ms() + HOOK_MS };
                self.plan(ground, wait_ms, JobEvent::Hook);
            }
            None => self.stage = Stage::Over,
        }
    }

    /// Whether its hook is to run before another step of it.
    pub(crate) fn has_another_step(&self) -> bool {
        matches!(self.stage, Stage::Runs)
    }

    /// Its CI system knows that it is over, and how; nothing if it knew.
    pub(crate) fn known(&mut self, ground: &Ground) -> Option<(JobOutcome, &[u64])> {
        if std::mem::replace(&mut self.is_known_to_be_over, true) {
            return None;
        }
        // What was left behind for that speaks now.
        if self.stage == Stage::Runs {
            let wait_ms = ground.chance().between(0, LAST_HOOK_MS);
            self.last_hook(ground, wait_ms);
        }
        Some((self.outcome, &self.manner.webhooks))
    }

    /// Nothing of it is left on its machine. Its CI system notices in a while.
    pub(crate) fn is_killed(&mut self, ground: &Ground) {
        if let (Origin::Registry, Stage::Ends { .. }) = (self.origin, self.stage) {
            ground.fired(Fault::LastHookCutOff);
        }
        self.life += 1;
        self.stage = Stage::Over;
        if !self.is_known_to_be_over {
            self.outcome = JobOutcome::Failure;
            self.later(ground, 5_000, 120_000, JobEvent::Known);
        }
    }

    /// Its hook has failed, and so has it.
    fn fails(&mut self, ground: &Ground) {
        self.life += 1;
        self.stage = Stage::Over;
        self.outcome = JobOutcome::Failure;
        self.later(ground, 100, 3_000, JobEvent::Known);
    }

    /// What its last hook says of its end.
    pub(crate) fn says(&self) -> Option<JobOutcome> {
        self.manner.says
    }

    pub(crate) fn checkpoint(&self) -> Option<&CheckpointName> {
        self.checkpoint.as_ref()
    }

    /// What it has to complain of when the world ends.
    pub(crate) fn complaint(&self) -> Option<String> {
        let refused = self.refused.as_deref().unwrap_or("nothing");
        if self.stage != Stage::Over || !self.is_known_to_be_over {
            return Some(format!(
                "job {} of {} still {:?}; what its hook was refused last: {refused}",
                self.number, self.id, self.stage
            ));
        }
        (self.in_the_calm && !self.served).then(|| {
            format!(
                "job {} of {} came when all was well, and did not run; what its hook was refused last: {refused}",
                self.number, self.id
            )
        })
    }

    fn later(&self, ground: &Ground, low_ms: u64, high_ms: u64, event: JobEvent) {
        let wait_ms = ground.chance().between(low_ms, high_ms);
        self.plan(ground, wait_ms, event);
    }

    fn plan(&self, ground: &Ground, wait_ms: u64, event: JobEvent) {
        ground.plan_in(wait_ms, Event::Job { number: self.number, life: self.life, event });
    }
}
