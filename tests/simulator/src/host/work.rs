//! Carries out the effects of an agent's machine: what it runs, how long that takes, and when it ends its host.

use super::{Host, HostEvent, Phase};
use crate::calls::Call;
use crate::ground::Ground;
use crate::schedule::Event;
use crate::weather::Wind;
use crate::yard::Power;
use motorpool_agent::machine::{Effect, Input, Kind, RunEnd, RunStart, TaskStart};
use motorpool_domain::runner::TaskOutcome;
use motorpool_domain::{Label, TaskId};
use motorpool_wire::agent::SyncRequest;
use std::sync::Arc;
use std::time::Duration;

/// At most one task's script and one runner program.
#[derive(Debug, Default)]
pub(super) struct Work {
    begun: u64,
    task: Option<Task>,
    run: Option<u64>,
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

    fn next(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }
}

impl Host {
    pub(super) fn step(&mut self, ground: &Arc<Ground>, input: Input) -> Option<(u64, Call)> {
        let now = self.clock.now(ground.now_ms());
        let Phase::Working(machine) = &mut self.phase else { return None };
        let effects = machine.step(input, now);
        let mut call = None;
        for effect in effects {
            match effect {
                Effect::Sync(request) => call = Some(self.sync(ground, request)),
                Effect::StartTask(start) => self.start_task(ground, start),
                Effect::StopTask { grace } => self.stop_task(ground, grace),
                // No simulated pool has a CI system.
                Effect::FetchRegistration(_) => {}
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
        call
    }

    fn sync(&mut self, ground: &Ground, request: SyncRequest) -> (u64, Call) {
        if let Some(last) = self.last_request.take()
            && last.epoch < request.epoch
        {
            self.old_request = Some(last);
        }
        self.last_request = Some(request.clone());
        self.calls += 1;
        self.sent_at = self.clock.now(ground.now_ms());
        (self.calls, Call::Sync { token: self.token(), request })
    }

    /// Invariant 13: no job begins on a machine that another's has been on since it was cleaned.
    fn start_task(&mut self, ground: &Ground, start: TaskStart) {
        let TaskStart { id, kind, label, .. } = start;
        self.may_work(ground);
        let (low, high) = match kind {
            Kind::Prepare => (1_000, 30_000),
            Kind::Register | Kind::Deregister => (300, 15_000),
            Kind::Cleanup => (500, 60_000),
        };
        let wait_ms = self.chance.skewed(low, high);
        let outcome = match ground.strikes(Wind::TasksFail) {
            true => TaskOutcome::Failed { why: "it ended with exit code 1".to_owned() },
            false => TaskOutcome::Done,
        };
        self.tell(ground, || format!("begins {id}, which takes {wait_ms} ms: {outcome:?}"));
        if let (Kind::Register, Some(label)) = (kind, &label) {
            self.is_used(ground, label);
        }
        let nth = self.work.next();
        self.work.task = Some(Task { nth, id, kind });
        self.plan(ground, wait_ms, HostEvent::TaskOver { nth, outcome });
    }

    fn start_run(&mut self, ground: &Ground, start: &RunStart) {
        self.may_work(ground);
        self.is_used(ground, &start.label);
        let nth = self.work.next();
        self.work.run = Some(nth);
        let wait_ms = self.chance.between(20_000, 400_000);
        self.plan(ground, wait_ms, HostEvent::RunOver { nth });
    }

    /// Invariant 16: of two machines of a runner, only the one that its record names does its work.
    fn may_work(&self, ground: &Ground) {
        if self.cloud {
            ground.oracle().may_work(ground.now_ms(), &self.runner, &self.machine);
        }
    }

    /// From here on a job may come.
    fn is_used(&self, ground: &Ground, label: &Label) {
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
        if kind == Kind::Cleanup
            && outcome == TaskOutcome::Done
            && let Some(site) = ground.yard().site_mut(&self.machine)
        {
            site.used_by = None;
        }
        Some(Input::TaskEnded { task: id, outcome })
    }

    pub(super) fn run_over(&mut self, nth: u64) -> Option<Input> {
        self.work.run.take_if(|run| *run == nth)?;
        Some(Input::RunEnded(RunEnd { well: true, how: "it ended with exit code 0".to_owned() }))
    }

    fn stop_task(&mut self, ground: &Ground, grace: Duration) {
        let nth = self.work.next();
        let Some(task) = &mut self.work.task else { return };
        task.nth = nth;
        let outcome = TaskOutcome::Failed { why: "it was told to end".to_owned() };
        let wait_ms = self.dies_in_ms(grace);
        self.plan(ground, wait_ms, HostEvent::TaskOver { nth, outcome });
    }

    fn stop_run(&mut self, ground: &Ground, grace: Duration) {
        let nth = self.work.next();
        if self.work.run.replace(nth).is_some() {
            let wait_ms = self.dies_in_ms(grace);
            self.plan(ground, wait_ms, HostEvent::RunOver { nth });
        } else {
            self.work.run = None;
        }
    }

    fn dies_in_ms(&mut self, grace: Duration) -> u64 {
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
