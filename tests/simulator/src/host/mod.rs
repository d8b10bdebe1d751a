//! A host with the real agent's machine on it: the driver carries out the machine's effects in simulated time. It has a clock of
//! its own, can be paused, started anew or cut off; what is done to its disk is noted in the yard.

mod clock;
mod join;
mod program;
mod tokens;
mod work;

use super::calls::{Call, Reply};
use super::chance::Chance;
use super::faults::Fault;
use super::ground::Ground;
use super::schedule::Event;
use super::yard::Site;
use clock::HostClock;
use motorpool_agent::clock::BootInstant;
use motorpool_agent::machine::{Input, Machine, Memory, Settings, SyncFailure};
use motorpool_control::{Refused, RefusedKind, Synced, token_sha256};
use motorpool_domain::RunnerId;
use motorpool_domain::runner::TaskOutcome;
use motorpool_wire::agent::{SyncAnswer, SyncRequest};
use std::sync::Arc;
use std::time::Duration;
use tokens::Tokens;
use work::Work;

#[derive(Debug)]
pub(crate) enum HostEvent {
    /// The agent's process starts.
    AgentStarts,
    /// It tries to redeem its secret.
    Join,
    Timer(u64),
    TaskOver {
        nth: u64,
        outcome: TaskOutcome,
    },
    RunOver {
        nth: u64,
    },
    /// It asks for what its runner program needs.
    Fetches {
        nth: u64,
    },
    /// It looks whether its provider has something to say to it.
    AsksForNotices,
}

/// What is known of a host when its machine is made.
#[derive(Debug)]
pub(crate) struct Born {
    pub(crate) runner: RunnerId,
    pub(crate) machine: String,
    pub(crate) kept: bool,
    /// It knows what its provider calls it, and shares its secret with the others of its launch.
    pub(crate) cloud: bool,
    /// A CI system brings it jobs, each by a registration of ours.
    pub(crate) is_dock: bool,
    pub(crate) secret: String,
}

#[derive(Debug)]
pub(crate) struct Host {
    index: usize,
    pub(crate) runner: RunnerId,
    pub(crate) machine: String,
    pub(crate) kept: bool,
    cloud: bool,
    pub(crate) is_dock: bool,
    /// Rises when the host or its agent starts anew: what was meant for an earlier life is dropped.
    pub(crate) life: u32,
    pub(crate) paused_until_ms: u64,
    clock: HostClock,
    boots: u32,
    chance: Chance,
    secret: String,
    tokens: Tokens,
    phase: Phase,
    disk: Disk,
    calls: u64,
    sent_at: BootInstant,
    /// When a sync was last answered and not refused, by the world's clock.
    answered_at_ms: u64,
    /// The timer that counts is the last that was set.
    timer: u64,
    work: Work,
    first_contact_by: BootInstant,
    /// By then the agent must have heard something, or have ended its host or its work.
    fence: Option<BootInstant>,
    last_request: Option<SyncRequest>,
    /// How often it has told of its notice in this epoch, and was answered.
    notice_heard: u32,
    /// How often it was answered though nobody needs it any more.
    left_over: u32,
    /// One of an epoch that is over.
    pub(crate) old_request: Option<SyncRequest>,
}

#[derive(Debug)]
enum Phase {
    Off,
    Joining {
        pause_ms: u64,
    },
    Working(Box<Machine>),
    /// The agent has ended; the host may be there still.
    Over,
}

#[derive(Debug, Default)]
struct Disk {
    redeemed: bool,
    memory: Option<Memory>,
    /// In which boot that was written.
    boot: u32,
}

const FIRST_CONTACT: Duration = Duration::from_secs(600);
const FIRST_PAUSE_MS: u64 = 500;
/// A few heartbeats.
const LONGEST_UNANSWERED_MS: u64 = 180_000;
/// How late an agent that is not paused may be: its processes take a moment to die.
const LATE: Duration = Duration::from_secs(3);

impl Host {
    pub(crate) fn new(ground: &Ground, index: usize, born: Born) -> Self {
        let Born { runner, machine, kept, cloud, is_dock, secret } = born;
        let mut chance = ground.chance().fork();
        let start = BootInstant::from_boot_ms(0);
        Self {
            index,
            runner,
            machine,
            kept,
            cloud,
            is_dock,
            life: 0,
            paused_until_ms: 0,
            clock: HostClock::boot(&mut chance, ground.now_ms()),
            boots: 0,
            chance,
            secret,
            tokens: Tokens::default(),
            phase: Phase::Off,
            disk: Disk::default(),
            calls: 0,
            sent_at: start,
            answered_at_ms: 0,
            timer: 0,
            work: Work::default(),
            first_contact_by: start,
            fence: None,
            last_request: None,
            notice_heard: 0,
            left_over: 0,
            old_request: None,
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        !matches!(self.phase, Phase::Off)
    }

    pub(crate) fn agent_is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// The machine starts, for the first time or again: with another boot id, and another clock.
    pub(crate) fn power_on(&mut self, ground: &Ground) {
        self.boots += 1;
        self.clock = HostClock::boot(&mut self.chance, ground.now_ms());
        ground.plan_in(0, Event::Emptied { host: self.index });
        self.start_agent(ground);
    }

    /// The agent's process starts anew. What it had running is gone.
    pub(crate) fn start_agent(&mut self, ground: &Ground) {
        if self.takes_jobs_as().is_some() {
            ground.plan_in(0, Event::Emptied { host: self.index });
        }
        self.life += 1;
        self.work = Work::default();
        self.tokens.forget_loans();
        self.fence = None;
        self.first_contact_by = self.clock.now(ground.now_ms()) + FIRST_CONTACT;
        self.phase = Phase::Joining { pause_ms: FIRST_PAUSE_MS };
        self.plan(ground, 100, HostEvent::AgentStarts);
    }

    pub(crate) fn power_off(&mut self, ground: &Ground) {
        ground.plan_in(0, Event::Emptied { host: self.index });
        self.life += 1;
        self.work = Work::default();
        self.phase = Phase::Off;
    }

    /// An operator gives it another secret, and starts its agent with it.
    pub(crate) fn give_secret(&mut self, ground: &Ground, secret: String) {
        self.secret = secret;
        self.tokens.begin_anew();
        self.disk.redeemed = false;
        match self.is_on() {
            true => self.start_agent(ground),
            false => self.power_on(ground),
        }
    }

    /// Something happens; the answer is a call that the agent makes, with its number.
    pub(crate) fn handle(&mut self, ground: &Arc<Ground>, event: HostEvent) -> Option<(u64, Call)> {
        match event {
            HostEvent::AgentStarts => match self.disk.memory.clone().filter(|_| self.disk.redeemed) {
                Some(memory) => self.begin(ground, memory.after_restart(self.disk.boot == self.boots)),
                None => self.join(ground),
            },
            HostEvent::Join => self.join(ground),
            HostEvent::Timer(nth) => match nth == self.timer {
                true => self.step(ground, Input::TimerFired),
                false => None,
            },
            HostEvent::TaskOver { nth, outcome } => {
                let ended = self.task_over(ground, nth, outcome)?;
                self.step(ground, ended)
            }
            HostEvent::AsksForNotices => {
                let notice = ground.yard().site(&self.machine).and_then(Site::notice)?;
                self.step(ground, Input::Noticed(notice))
            }
            HostEvent::RunOver { nth } => {
                let ended = self.run_over(ground, nth)?;
                self.step(ground, ended)
            }
            HostEvent::Fetches { nth } => self.fetches(nth),
        }
    }

    /// A reply to a call of the agent's. One that it no longer waits for is dropped.
    pub(crate) fn told(&mut self, ground: &Arc<Ground>, call: u64, reply: Reply) -> Option<(u64, Call)> {
        if call != self.calls {
            return None;
        }
        let joining = matches!(self.phase, Phase::Joining { .. });
        match reply {
            Reply::Joined(outcome) => self.joined(ground, outcome),
            Reply::Synced(outcome) => self.synced(ground, outcome),
            Reply::Nothing if joining => self.join_later(ground),
            Reply::Nothing => self.step(ground, Input::SyncFailed(SyncFailure::Unreachable)),
            Reply::Claim(_)
            | Reply::Refreshed(_)
            | Reply::Registered(_)
            | Reply::Fetched(_)
            | Reply::Commanded(_)
            | Reply::Checkpoint(_)
            | Reply::Finalized(_)
            | Reply::Heard(_)
            | Reply::Attended(_) => None,
        }
    }

    /// A reply to a fetch of the agent's.
    pub(crate) fn told_of_fetch(
        &mut self,
        ground: &Arc<Ground>,
        nth: u64,
        reply: Reply,
    ) -> Option<(u64, Call)> {
        let input = self.fetched(nth, reply)?;
        self.step(ground, input)
    }

    /// Invariant 20: beyond its fence, a host that is not kept is gone, and on a kept one nothing runs.
    pub(crate) fn overstays(&self, now_ms: u64) -> bool {
        let Phase::Working(_) = &self.phase else { return false };
        let late_ms = u64::try_from(LATE.as_millis()).unwrap_or(0);
        let fence = self.fence.unwrap_or(self.first_contact_by);
        let over = (fence + LATE).passed(self.clock.now(now_ms)) && now_ms > self.paused_until_ms + late_ms;
        over && (!self.kept || self.work.any())
    }

    /// What the agent of an idle runner should not be doing, when all has been well for long.
    pub(crate) fn unrest(&self, ground: &Ground) -> Option<String> {
        let silent_ms = ground.now_ms().saturating_sub(self.answered_at_ms);
        let is_silent = || {
            (silent_ms > LONGEST_UNANSWERED_MS)
                .then(|| format!("has had no answer for {} s", silent_ms / 1_000))
        };
        match &self.phase {
            Phase::Off => None,
            Phase::Joining { .. } => Some("has not joined".to_owned()),
            Phase::Over => Some("has ended, and its host is on".to_owned()),
            Phase::Working(_) if self.work.is_at_a_task() => Some("is still at some work".to_owned()),
            Phase::Working(_) if self.is_dock => self.takes_no_job(ground).or_else(is_silent),
            Phase::Working(_) if self.work.any() => Some("is still at some work".to_owned()),
            Phase::Working(_) => is_silent(),
        }
    }

    fn begin(&mut self, ground: &Arc<Ground>, memory: Memory) -> Option<(u64, Call)> {
        let settings = Settings {
            runner: self.runner.clone(),
            boot_id: self.boot_id(),
            agent_version: "simulated".to_owned(),
            session: self.session(),
            next_token: self.next_token().map(|token| token_sha256(&token)),
            seed: self.chance.draw(),
            first_contact_by: self.first_contact_by,
        };
        self.fence = memory.deadlines.and_then(|deadlines| deadlines.fence);
        let machine = Machine::new(settings, memory, self.clock.now(ground.now_ms()));
        self.phase = Phase::Working(Box::new(machine));
        if self.cloud {
            let wait_ms = self.chance.between(10, 5_000);
            self.plan(ground, wait_ms, HostEvent::AsksForNotices);
        }
        self.step(ground, Input::TimerFired)
    }

    fn synced(&mut self, ground: &Arc<Ground>, outcome: Result<Box<Synced>, Refused>) -> Option<(u64, Call)> {
        let input = match outcome {
            Ok(synced) => {
                self.answered_at_ms = ground.now_ms();
                let answer = synced.answer;
                self.was_heard(ground, &answer);
                self.fence = answer.fence_in_ms.map(|ms| self.sent_at + Duration::from_millis(ms));
                if answer.fence_in_ms.is_none() {
                    self.fence = Some(BootInstant::from_boot_ms(u64::MAX));
                }
                Input::SyncAnswered { sent_at: self.sent_at, answer }
            }
            Err(refused) => Input::SyncFailed(match refused.kind {
                RefusedKind::Gone => {
                    ground.fired(Fault::HeartbeatAfterEnd);
                    SyncFailure::Gone { message: refused.message }
                }
                RefusedKind::Unauthorized | RefusedKind::Forbidden => SyncFailure::Unauthorized,
                RefusedKind::InvalidRequest
                | RefusedKind::NotFound
                | RefusedKind::Conflict
                | RefusedKind::TooManyRequests
                | RefusedKind::Unavailable
                | RefusedKind::Internal => SyncFailure::Unreachable,
            }),
        };
        self.step(ground, input)
    }

    /// A notice that was told and answered must come to something; a race may cost it a sync or two.
    fn was_heard(&mut self, ground: &Ground, answer: &SyncAnswer) {
        let told = self
            .last_request
            .as_ref()
            .is_some_and(|last| last.notice.is_some() && last.epoch == answer.epoch);
        self.notice_heard = if told { self.notice_heard + 1 } else { 0 };
        if self.notice_heard >= 3 {
            ground.oracle().notice_counts(ground.now_ms(), &self.runner, answer.epoch);
        }
        let left_over = ground.oracle().is_left_over(ground.now_ms(), &self.runner);
        self.left_over = if left_over { self.left_over + 1 } else { 0 };
        if self.left_over >= 4 {
            let what =
                format!("{} runs on for a claim that has ended, and nobody tells it to stop", self.runner);
            ground.broken(23, &[&self.runner], what);
        }
    }

    fn boot_id(&self) -> String {
        format!("boot-{}", self.boots)
    }

    fn plan(&self, ground: &Ground, wait_ms: u64, event: HostEvent) {
        ground.plan_in(wait_ms, Event::Host { host: self.index, life: self.life, event });
    }

    pub(crate) fn tell(&self, ground: &Ground, what: impl FnOnce() -> String) {
        let machine = if self.cloud { self.machine.as_str() } else { "" };
        ground.tell_of(|| format!("host {} {machine}", self.runner), what);
    }
}
