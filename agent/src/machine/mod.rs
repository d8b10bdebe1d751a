//! What the agent does, as a pure machine: an input and the time go in, effects come out. No I/O, no clock, no chance:
//! the driver beside it does what the effects say, and the seed is an argument.

mod contact;
mod memory;
mod program;
mod tasks;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_deadlines;
#[cfg(test)]
mod tests_program;
#[cfg(test)]
mod tests_properties;
#[cfg(test)]
mod tests_tokens;
mod tokens;

pub use memory::{Deadlines, Kind, Memory, Registered, Remembered};
pub use program::{Fetch, RunEnd, RunStart};
pub use tasks::{Act, TaskStart};
pub use tokens::Token;

use std::time::Duration;

use motorpool_domain::runner::{Notice, TaskOutcome};
use motorpool_domain::{RunnerId, TaskId};
use motorpool_wire::agent::{Protocol, RegistrationAnswer, SyncAnswer, SyncRequest};

use crate::clock::BootInstant;
use contact::Contact;
use program::{Ends, Run};
use tasks::Task;
use tokens::Tokens;

/// What work gets between being asked to end and being killed, when nothing hurries.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// `sent_at` is read just before the request goes out.
    SyncAnswered {
        sent_at: BootInstant,
        answer: SyncAnswer,
    },
    SyncFailed(SyncFailure),
    /// The whole tree of the task's script is gone.
    TaskEnded {
        task: TaskId,
        outcome: TaskOutcome,
    },
    /// What a runner program needs to begin.
    Registered {
        fetch: Fetch,
        answer: RegistrationAnswer,
    },
    RegistrationFailed {
        fetch: Fetch,
        failure: RegistrationFailure,
    },
    /// The whole tree of the CI system's runner program is gone.
    RunEnded(RunEnd),
    /// The provider says what it will do to this machine.
    Noticed(Notice),
    /// The runner program on this machine is of this version.
    ProgramFound {
        version: String,
    },
    /// Another token is on the disk beside the present one.
    TokenMade {
        sha256: String,
    },
    /// It could not be written.
    TokenNotMade,
    TimerFired,
    StopRequested,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncFailure {
    /// No answer, or none that could be understood.
    Unreachable,
    /// The token was refused.
    Unauthorized,
    /// The runner is over.
    Gone { message: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistrationFailure {
    /// No answer, or one that may be another in a while: after `wait`, if that was said.
    Later { wait: Option<Duration> },
    /// It is not what should be any more: the next sync says what is.
    Outdated,
    /// The same question would get the same answer.
    Refused { why: String },
}

/// To be done in the order in which they come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Exactly one `SyncAnswered` or `SyncFailed` follows, unless another `Sync` takes its place.
    Sync(SyncRequest, Token),
    /// `TokenMade` or `TokenNotMade` follows: made by chance, and on the disk beside the present one.
    MakeToken,
    /// The next token is the present one from now on, and the one before is to be forgotten.
    AdoptToken,
    /// `TaskEnded` follows, also if it could not start.
    StartTask(TaskStart),
    StopTask {
        grace: Duration,
    },
    /// `Registered` or `RegistrationFailed` follows, unless another takes its place.
    FetchRegistration(Fetch),
    /// `RunEnded` follows, also if it could not start.
    StartRun(RunStart),
    StopRun {
        grace: Duration,
    },
    /// All work that runs must now be over by then.
    RenewFence(BootInstant),
    SaveState(Memory),
    /// One timer: this takes the place of the last.
    SetTimer(BootInstant),
    /// All work is gone. End the host, then the agent.
    EndHost {
        why: String,
    },
    /// All work is gone. End the agent alone.
    EndAgent {
        why: String,
    },
}

/// What stays the same as long as the agent's process lives.
#[derive(Debug, Clone)]
pub struct Settings {
    pub runner: RunnerId,
    pub boot_id: String,
    pub agent_version: String,
    /// A name for this process that nobody can guess, and that is written nowhere.
    pub session: String,
    /// The SHA-256 of a token that the disk has beside the present one: the last process named it, or was about to.
    pub next_token: Option<String>,
    /// Of all jitter.
    pub seed: u64,
    /// If no answer came in this boot, this is the fence.
    pub first_contact_by: BootInstant,
}

#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    memory: Memory,
    /// What the disk has.
    saved: Memory,
    task: Option<Task>,
    run: Option<Run>,
    ends: Ends,
    /// Of this boot: a provider takes none back.
    notice: Option<Notice>,
    program_version: Option<String>,
    tokens: Tokens,
    contact: Contact,
    phase: Phase,
    timer: Option<BootInstant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Working,
    /// No new work; when the last is gone, the end comes.
    Leaving(End),
    Over,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    Host { why: String },
    Agent { why: String },
}

impl Machine {
    /// `memory` is what the disk has, after [`Memory::after_restart`]. The first `TimerFired` sends the first sync.
    pub fn new(settings: Settings, memory: Memory, now: BootInstant) -> Self {
        let contact = Contact::starting(settings.seed, now);
        let saved = memory.clone();
        let tokens = Tokens::found(settings.next_token.clone());
        Self {
            settings,
            memory,
            saved,
            task: None,
            run: None,
            ends: Ends::default(),
            notice: None,
            program_version: None,
            tokens,
            contact,
            phase: Phase::Working,
            timer: None,
        }
    }

    pub fn step(&mut self, input: Input, now: BootInstant) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.phase == Phase::Over {
            return effects;
        }
        match input {
            Input::SyncAnswered { sent_at, answer } => self.answered(sent_at, &answer, now, &mut effects),
            Input::SyncFailed(failure) => self.sync_failed(failure, now, &mut effects),
            Input::TaskEnded { task, outcome } => self.task_ended(&task, outcome, now, &mut effects),
            Input::Registered { fetch, answer } => self.fetched(&fetch, answer, now, &mut effects),
            Input::RegistrationFailed { fetch, failure } => self.fetch_failed(&fetch, failure, now),
            Input::RunEnded(end) => self.run_ended(&end, now, &mut effects),
            Input::Noticed(notice) => self.noticed(notice, now),
            Input::ProgramFound { version } => self.program_version = Some(version),
            Input::TokenMade { sha256 } => self.token_made(sha256, now),
            Input::TokenNotMade => self.tokens.not_made(),
            // It is spent; whatever is still to come gets a new one.
            Input::TimerFired => self.timer = None,
            Input::StopRequested => self.stop(&mut effects),
        }
        self.keep_deadlines(now, &mut effects);
        self.save(&mut effects);
        match &self.phase {
            Phase::Working => {
                self.make_token_if_due(&mut effects);
                self.fetch_if_due(now, &mut effects);
                self.sync_if_due(now, &mut effects);
            }
            Phase::Leaving(end) if self.task.is_none() && self.run.is_none() => {
                effects.push(match end.clone() {
                    End::Host { why } => Effect::EndHost { why },
                    End::Agent { why } => Effect::EndAgent { why },
                });
                self.phase = Phase::Over;
            }
            Phase::Leaving(_) | Phase::Over => {}
        }
        self.set_timer(&mut effects);
        effects
    }

    fn answered(
        &mut self,
        sent_at: BootInstant,
        answer: &SyncAnswer,
        now: BootInstant,
        effects: &mut Vec<Effect>,
    ) {
        if self.phase != Phase::Working {
            return;
        }
        if answer.epoch < self.memory.epoch {
            // Epochs only rise. Whatever says this is not our control plane as it is now.
            self.contact.failed(now);
            return;
        }
        self.contact.answered(sent_at, answer, now);
        self.tokens.answered(answer, effects);
        let deadlines = Deadlines::of_answer(sent_at, answer);
        self.memory.deadlines = Some(deadlines);
        self.memory.kept = answer.kept;
        if answer.epoch > self.memory.epoch {
            self.memory.enter(answer.epoch);
            self.drop_old_task(effects);
        }
        self.drop_unwanted_fetch(answer.task.as_ref(), now);
        if self.processes_run() {
            // Without a deadline there is still a fence to move: away.
            let at = deadlines.work_ends_at().unwrap_or(BootInstant::from_boot_ms(u64::MAX));
            effects.push(Effect::RenewFence(at));
        }
        if answer.end {
            self.leave(format!("the control plane ended it ({})", answer.state), effects);
        } else if let Some(order) = &answer.task {
            self.consider(order, now, effects);
        }
    }

    fn sync_failed(&mut self, failure: SyncFailure, now: BootInstant, effects: &mut Vec<Effect>) {
        match failure {
            SyncFailure::Unreachable => self.tokens.unanswered(),
            SyncFailure::Unauthorized if self.tokens.refused() => return self.contact.retry_at(now),
            SyncFailure::Unauthorized | SyncFailure::Gone { .. } => {}
        }
        match failure {
            SyncFailure::Unauthorized if self.memory.kept => self.contact.refused(now),
            SyncFailure::Unreachable | SyncFailure::Unauthorized => self.contact.failed(now),
            SyncFailure::Gone { message } => {
                if self.phase == Phase::Working {
                    self.leave(format!("the control plane says that it is gone: {message}"), effects);
                }
            }
        }
    }

    /// The first is told at once, and so is a worse one.
    fn noticed(&mut self, notice: Notice, now: BootInstant) {
        let worse = match (self.notice, notice) {
            (None, Notice::Interruption | Notice::Rebalance)
            | (Some(Notice::Rebalance), Notice::Interruption) => true,
            (Some(Notice::Interruption), Notice::Interruption | Notice::Rebalance)
            | (Some(Notice::Rebalance), Notice::Rebalance) => false,
        };
        if worse {
            self.notice = Some(notice);
            self.contact.report_at(now);
        }
    }

    fn stop(&mut self, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Working {
            self.phase = Phase::Leaving(End::Agent { why: "it was told to stop".to_owned() });
            self.end_processes(GRACE, effects);
        } else {
            self.end_processes(Duration::ZERO, effects);
        }
    }

    /// The runner is over: its host goes, or if the machine is kept, its work and the agent.
    fn leave(&mut self, why: String, effects: &mut Vec<Effect>) {
        if self.memory.kept {
            self.phase = Phase::Leaving(End::Agent { why });
            self.end_processes(GRACE, effects);
        } else {
            self.phase = Phase::Leaving(End::Host { why });
            self.end_processes(Duration::ZERO, effects);
        }
    }

    /// Checked at every step, whatever its input: after a pause, a deadline may have passed long ago.
    fn keep_deadlines(&mut self, now: BootInstant, effects: &mut Vec<Effect>) {
        if !self.work_time_over(now) {
            return;
        }
        self.end_processes(Duration::ZERO, effects);
        let fenced = self.deadlines().fence.is_some_and(|fence| fence.passed(now));
        if fenced && !self.memory.kept && self.phase == Phase::Working {
            let why = "it heard nothing from the control plane until its fence".to_owned();
            self.phase = Phase::Leaving(End::Host { why });
        }
    }

    fn deadlines(&self) -> Deadlines {
        let first = Deadlines { threshold: None, fence: Some(self.settings.first_contact_by) };
        self.memory.deadlines.unwrap_or(first)
    }

    fn work_time_over(&self, now: BootInstant) -> bool {
        self.deadlines().work_ends_at().is_some_and(|at| at.passed(now))
    }

    fn save(&mut self, effects: &mut Vec<Effect>) {
        if !self.memory.much_like(&self.saved) {
            self.saved = self.memory.clone();
            effects.push(Effect::SaveState(self.memory.clone()));
        }
    }

    fn sync_if_due(&mut self, now: BootInstant, effects: &mut Vec<Effect>) {
        if !self.contact.next_at().is_some_and(|at| at.passed(now)) {
            return;
        }
        let Settings { runner, boot_id, agent_version, session, next_token: _, seed: _, first_contact_by: _ } =
            &self.settings;
        let (token, next_token_sha256) = self.tokens.send();
        let request = SyncRequest {
            protocol: Protocol::OURS,
            runner: runner.clone(),
            epoch: self.memory.epoch,
            boot_id: boot_id.clone(),
            agent_version: agent_version.clone(),
            registered: self.memory.registered.as_ref().map(|registered| registered.label.clone()),
            busy: self.task.as_ref().map(|task| task.id().clone()),
            results: self.memory.results(),
            notice: self.notice,
            program_version: self.program_version.clone(),
            session: Some(session.clone()),
            next_token_sha256,
            wait_ms: u64::try_from(self.contact.wait().as_millis()).unwrap_or(u64::MAX),
        };
        effects.push(Effect::Sync(request, token));
        self.contact.sent();
    }

    /// Deadlines that have nothing left to end are left out, or a timer in the past would fire for ever.
    fn set_timer(&mut self, effects: &mut Vec<Effect>) {
        let working = self.phase == Phase::Working;
        let sync = self.contact.next_at().filter(|_| working);
        let work = self.deadlines().work_ends_at().filter(|_| self.process_to_kill());
        let host = self.deadlines().fence.filter(|_| working && !self.memory.kept);
        let fetch = self.fetch_again_at().filter(|_| working);
        let timer = [sync, work, host, fetch].into_iter().flatten().min();
        if timer != self.timer {
            self.timer = timer;
            effects.extend(timer.map(Effect::SetTimer));
        }
    }
}
