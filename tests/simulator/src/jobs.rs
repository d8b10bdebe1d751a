//! The jobs that a CI system hands out by itself: what each does on its machine, and what its hooks ask and say there. A hook asks again for as long as
//! the agent's own would, and a job whose first hook is refused fails at once. Who hands it out, and who carries its calls, is the world.

use super::calls::{Call, Reply};
use super::chance::Chance;
use super::faults::Fault;
use super::ground::Ground;
use super::schedule::Event;
use motorpool_control::{Refused, RefusedKind};
use motorpool_domain::checkpoint::JobOutcome;
use motorpool_domain::{CheckpointName, JobId, RunnerId};
use motorpool_wire::checkpoint::{CheckpointView, CreateCheckpoint, FinalizeCheckpoint};

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
    number: usize,
    pub(crate) id: JobId,
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

/// How a job behaves, drawn once.
#[derive(Debug)]
struct Manner {
    lasts_ms: u64,
    outcome: JobOutcome,
    /// What its last hook says of it, if there is one: it does not know all.
    says: Option<JobOutcome>,
    /// So long after its script its CI system knows.
    known_after_ms: u64,
    steps: bool,
    /// So long after that each of its webhooks sets out, all of one delivery.
    webhooks: Vec<u64>,
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

impl Job {
    pub(crate) fn draw(chance: &mut Chance, number: usize) -> Option<Self> {
        let outcome = match chance.between(0, 20) {
            0..11 => JobOutcome::Success,
            11..18 => JobOutcome::Failure,
            _ => JobOutcome::Canceled,
        };
        let says = match chance.between(0, 20) {
            0..8 => None,
            8..17 => Some(outcome),
            17..19 => Some(JobOutcome::Success),
            _ => Some(JobOutcome::Failure),
        };
        let stuck = chance.hits(600);
        let lasts_ms = match stuck {
            true => chance.between(20 * 60_000, 30 * 60_000),
            false => chance.skewed(2_000, 6 * 60_000),
        };
        let webhooks = match chance.between(0, 10) {
            0..3 => Vec::new(),
            3..7 => vec![chance.skewed(50, 20_000)],
            7..9 => vec![chance.skewed(50, 20_000), chance.skewed(50, 120_000)],
            _ => vec![chance.skewed(50, 20_000), chance.between(10 * 60_000, 25 * 60_000)],
        };
        let known_after_ms = chance.skewed(0, 25_000);
        let steps = chance.hits(4_000);
        let manner = Manner { lasts_ms, outcome, says, known_after_ms, steps, webhooks };
        Self::of(number, manner)
    }

    /// One that is asked for when all is well.
    pub(crate) fn in_the_calm(number: usize) -> Option<Self> {
        let outcome = if number.is_multiple_of(2) { JobOutcome::Success } else { JobOutcome::Failure };
        let says = number.is_multiple_of(3).then_some(outcome);
        let webhooks = if number.is_multiple_of(5) { vec![1_000] } else { Vec::new() };
        let manner =
            Manner { lasts_ms: 20_000, outcome, says, known_after_ms: 1_000, steps: false, webhooks };
        Some(Self { in_the_calm: true, ..Self::of(number, manner)? })
    }

    fn of(number: usize, manner: Manner) -> Option<Self> {
        Some(Self {
            number,
            id: JobId::parse(number.to_string()).ok()?,
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
                    key: None,
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
        match self.manner.says {
            Some(_) => {
                self.stage = Stage::Ends { until_ms: ground.now_ms() + HOOK_MS };
                self.plan(ground, 0, JobEvent::Hook);
            }
            None => self.stage = Stage::Over,
        }
    }

    /// Whether its hook is to run before another step of it.
    pub(crate) fn has_another_step(&self) -> bool {
        matches!(self.stage, Stage::Runs)
    }

    /// Its CI system knows that it is over, and how; nothing if it knew.
    pub(crate) fn known(&mut self) -> Option<(JobOutcome, &[u64])> {
        if std::mem::replace(&mut self.is_known_to_be_over, true) {
            return None;
        }
        Some((self.outcome, &self.manner.webhooks))
    }

    /// Nothing of it is left on its machine. Its CI system notices in a while.
    pub(crate) fn is_killed(&mut self, ground: &Ground) {
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
                "job {} still {:?}; what its hook was refused last: {refused}",
                self.id, self.stage
            ));
        }
        (self.in_the_calm && !self.served).then(|| {
            format!(
                "job {} came when all was well, and did not run; what its hook was refused last: {refused}",
                self.id
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
