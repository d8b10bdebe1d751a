//! Carries out the effects of an agent's machine: what it runs, how long that takes, and when it ends its host.

use super::program::Program;
use super::{Host, HostEvent, Phase};
use crate::calls::{Call, Reply};
use crate::faults::Fault;
use crate::ground::Ground;
use crate::schedule::Event;
use crate::weather::Wind;
use crate::yard::Power;
use motorpool_agent::machine::{Effect, Fetch, Input, Kind, RegistrationFailure, TaskStart, Token};
use motorpool_control::RefusedKind;
use motorpool_domain::runner::TaskOutcome;
use motorpool_domain::{Label, TaskId};
use motorpool_wire::agent::{RegistrationRequest, SyncRequest};
use std::sync::Arc;
use std::time::Duration;

/// At most one task's script and one runner program.
#[derive(Debug, Default)]
pub(super) struct Work {
    begun: u64,
    task: Option<Task>,
    pub(super) run: Option<Program>,
    /// The last registration that was asked for, by the number of its call.
    fetching: Option<(u64, Fetch)>,
}

#[derive(Debug)]
struct Task {
    nth: u64,
    id: TaskId,
    kind: Kind,
}

impl Work {
    pub(super) fn any(&self) -> bool {
        self.task.is_some() || self.run.is_some()
    }

    pub(super) fn is_at_a_task(&self) -> bool {
        self.task.is_some()
    }

    pub(super) fn next(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }
}

impl Host {
    pub(super) fn step(&mut self, ground: &Arc<Ground>, input: Input) -> Option<(u64, Call)> {
        let now = self.clock.now(ground.now_ms());
        let Phase::Working(machine) = &mut self.phase else { return None };
        let effects = machine.step(input, now);
        let mut makes_token = false;
        let (mut call, life) = (None, self.life);
        for effect in effects {
            // Its process has died meanwhile.
            if self.life != life {
                return None;
            }
            match effect {
                Effect::Sync(request, token) => call = Some(self.sync(ground, request, token)),
                Effect::MakeToken => makes_token = true,
                Effect::AdoptToken => self.adopt_token(ground),
                Effect::StartTask(start) => self.start_task(ground, start),
                Effect::StopTask { grace } => self.stop_task(ground, grace),
                Effect::FetchRegistration(fetch) => self.fetch(ground, fetch),
                Effect::StartRun(start) => self.start_run(ground, &start),
                Effect::StopRun { grace } => self.stop_run(ground, grace),
                Effect::RenewFence(_) => {}
                Effect::SaveState(memory) => {
                    self.disk.memory = Some(memory);
                    self.disk.boot = self.boots;
                }
                Effect::SetTimer(at) => {
                    self.timer += 1;
                    let wait_ms = self.clock.until_ms(at, ground.now_ms());
                    self.plan(ground, wait_ms, HostEvent::Timer(self.timer));
                }
                Effect::EndHost { why } => self.end_host(ground, &why),
                Effect::EndAgent { why } => {
                    self.tell(ground, || format!("the agent ends: {why}"));
                    self.phase = Phase::Over;
                }
            }
        }
        // Its sync, if one goes out now, gives way to the next.
        if makes_token && self.life == life { self.make_token(ground).or(call) } else { call }
    }

    fn sync(&mut self, ground: &Ground, request: SyncRequest, token: Token) -> (u64, Call) {
        if let Some(last) = self.last_request.take()
            && last.epoch < request.epoch
        {
            self.old_request = Some(last);
        }
        self.last_request = Some(request.clone());
        self.calls += 1;
        self.sent_at = self.clock.now(ground.now_ms());
        (self.calls, Call::Sync { token: self.which(token), request })
    }

    /// The call itself goes out a moment later, beside a sync that may go out now.
    fn fetch(&mut self, ground: &Ground, fetch: Fetch) {
        let nth = self.work.next();
        self.work.fetching = Some((nth, fetch));
        self.plan(ground, 1, HostEvent::Fetches { nth });
    }

    pub(super) fn fetches(&self, nth: u64) -> Option<(u64, Call)> {
        let (_, Fetch { label, epoch, count }) =
            self.work.fetching.as_ref().filter(|(last, _)| *last == nth)?;
        let request = RegistrationRequest {
            runner: self.runner.clone(),
            epoch: *epoch,
            label: label.clone(),
            count: *count,
            session: Some(self.session()),
        };
        Some((nth, Call::Fetch { token: self.token(), request }))
    }

    /// A reply to the last fetch; one to an earlier finds nobody.
    pub(super) fn fetched(&mut self, nth: u64, reply: Reply) -> Option<Input> {
        let (_, fetch) = self.work.fetching.take_if(|(last, _)| *last == nth)?;
        let failure = match reply {
            Reply::Fetched(Ok(answer)) => return Some(Input::Registered { fetch, answer }),
            Reply::Fetched(Err(refused)) => match refused.kind {
                RefusedKind::Conflict => RegistrationFailure::Outdated,
                RefusedKind::TooManyRequests
                | RefusedKind::Unavailable
                | RefusedKind::Unauthorized
                | RefusedKind::Gone
                | RefusedKind::Internal => RegistrationFailure::Later { wait: refused.retry_after },
                RefusedKind::InvalidRequest | RefusedKind::Forbidden | RefusedKind::NotFound => {
                    RegistrationFailure::Refused { why: refused.message }
                }
            },
            Reply::Nothing
            | Reply::Claim(_)
            | Reply::Synced(_)
            | Reply::Joined(_)
            | Reply::Refreshed(_)
            | Reply::Registered(_)
            | Reply::Commanded(_)
            | Reply::Checkpoint(_)
            | Reply::Finalized(_)
            | Reply::Heard(_)
            | Reply::Attended(_) => RegistrationFailure::Later { wait: None },
        };
        Some(Input::RegistrationFailed { fetch, failure })
    }

    /// Invariant 13: no job begins on a machine that another's has been on since it was cleaned.
    fn start_task(&mut self, ground: &Ground, start: TaskStart) {
        let TaskStart { id, kind, label, .. } = start;
        self.may_work(ground);
        if matches!(kind, Kind::Cleanup | Kind::Reset) {
            self.is_emptied(ground, &id);
        }
        let (low, high) = match kind {
            Kind::Prepare => (1_000, 30_000),
            Kind::Register | Kind::Deregister => (300, 15_000),
            Kind::Cleanup | Kind::Reset => (500, 60_000),
            Kind::Readiness => (200, 20_000),
        };
        let wait_ms = self.chance.skewed(low, high);
        let outcome = match ground.strikes(Wind::TasksFail) {
            true => TaskOutcome::Failed { why: "it ended with exit code 1".to_owned() },
            false => TaskOutcome::Done,
        };
        self.tell(ground, || format!("begins {id}, which takes {wait_ms} ms: {outcome:?}"));
        // Where a CI system hands out jobs by itself, each says so when it begins.
        if let (Kind::Register, Some(label)) = (kind, &label)
            && !self.is_dock
            && !ground.forge().has(&self.runner)
        {
            self.is_used(ground, label);
        }
        let nth = self.work.next();
        self.work.task = Some(Task { nth, id, kind });
        self.plan(ground, wait_ms, HostEvent::TaskOver { nth, outcome });
    }

    /// Invariant 16: of two machines of a runner, only the one that its record names does its work.
    pub(super) fn may_work(&self, ground: &Ground) {
        if self.clock.is_minutes_off() {
            ground.fired(Fault::AgentClockSkew);
        }
        if self.cloud {
            ground.oracle().may_work(ground.now_ms(), &self.runner, &self.machine);
        }
    }

    /// Invariants 27 and 30: nobody uses the machine that is cleaned now, and its CI system brings it no job. All that runs on it ends by this.
    fn is_emptied(&self, ground: &Ground, task: &TaskId) {
        ground.oracle().may_be_emptied(ground.now_ms(), &self.runner, task);
        if self.is_dock {
            return self.dock_is_emptied(ground, task);
        }
        let (has_hooks, is_paused, job) = {
            let forge = ground.forge();
            (forge.has(&self.runner), forge.is_paused(&self.runner), forge.job_of(&self.runner).cloned())
        };
        if !has_hooks {
            return;
        }
        let is_late = ground.oracle().time_is_over(ground.now_ms(), &self.runner);
        if !is_paused || (job.is_some() && !is_late) {
            let pause = if is_paused { "paused" } else { "not paused" };
            let what = format!(
                "the machine of {} is cleaned by {task}; in its CI system it is {pause}, and its job is {job:?}",
                self.runner
            );
            ground.broken(30, &[&self.runner], what);
        }
        ground.plan_in(0, Event::Emptied { host: self.index });
    }

    /// There the program that takes a job has ended before, and with it whatever it ran.
    fn dock_is_emptied(&self, ground: &Ground, task: &TaskId) {
        let (program, job) = (self.takes_jobs_as(), self.unfinished_job(ground));
        if program.is_some() || job.is_some() {
            let what = format!(
                "the machine of {} is cleaned by {task}; its program there is {program:?}, and its job is {job:?}",
                self.runner
            );
            ground.broken(30, &[&self.runner], what);
        }
        ground.plan_in(0, Event::Emptied { host: self.index });
    }

    /// From here on a job may come.
    pub(crate) fn is_used(&self, ground: &Ground, label: &Label) {
        let earlier = {
            let mut yard = ground.yard();
            let site = yard.site_mut(&self.machine);
            site.and_then(|site| site.used_by.replace(label.clone()))
        };
        if let Some(earlier) = earlier.filter(|earlier| earlier != label) {
            let what = format!(
                "the machine of {} takes jobs of {label}, and was not cleaned since {earlier} had it",
                self.runner
            );
            ground.broken(13, &[&self.runner], what);
        }
    }

    pub(super) fn task_over(&mut self, ground: &Ground, nth: u64, outcome: TaskOutcome) -> Option<Input> {
        let Task { id, kind, .. } = self.work.task.take_if(|task| task.nth == nth)?;
        if matches!(kind, Kind::Cleanup | Kind::Reset)
            && outcome == TaskOutcome::Done
            && let Some(site) = ground.yard().site_mut(&self.machine)
        {
            site.used_by = None;
        }
        Some(Input::TaskEnded { task: id, outcome })
    }

    fn stop_task(&mut self, ground: &Ground, grace: Duration) {
        let nth = self.work.next();
        let Some(task) = &mut self.work.task else { return };
        task.nth = nth;
        let outcome = TaskOutcome::Failed { why: "it was told to end".to_owned() };
        let wait_ms = self.dies_in_ms(grace);
        self.plan(ground, wait_ms, HostEvent::TaskOver { nth, outcome });
    }

    pub(super) fn dies_in_ms(&mut self, grace: Duration) -> u64 {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(0);
        self.chance.between(10, 100 + grace_ms)
    }

    /// The host powers itself down. A kept one is started again by its owner, some time later.
    pub(super) fn end_host(&mut self, ground: &Ground, why: &str) {
        self.tell(ground, || format!("ends itself: {why}"));
        self.phase = Phase::Over;
        let wait_ms = self.chance.between(500, 20_000);
        if self.kept {
            let again_ms = self.chance.between(60_000, 300_000);
            ground.plan_in(again_ms, Event::PowerOn(self.machine.clone()));
            return;
        }
        ground.yard().turn(&self.machine, Power::Stopping, ground.now_ms());
        ground.plan_in(wait_ms, Event::PowerOff(self.machine.clone()));
    }
}
