//! The runner program on a host, by which a CI system brings it jobs. A claim's ends when it likes. One of a dock has one job, which its CI system hands
//! out by itself, and ends with that.

use super::{Host, HostEvent};
use crate::faults::Fault;
use crate::ground::Ground;
use crate::schedule::Event;
use motorpool_agent::machine::{Input, RunEnd, RunStart};
use motorpool_domain::JobId;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Program {
    nth: u64,
    /// The name that its CI system knows it by.
    registration: Option<String>,
    /// It was told to end.
    is_stopped: bool,
}

/// Of 10,000 programs that wait for a job.
const FAILS: u32 = 600;

impl Host {
    /// The name by which its CI system may bring it a job: also while the program that has it is told to end, as long as that takes.
    pub(crate) fn takes_jobs_as(&self) -> Option<&str> {
        let program = self.work.run.as_ref().filter(|_| self.is_dock)?;
        program.registration.as_deref()
    }

    /// Why its CI system brings it none.
    pub(super) fn takes_no_job(&self, ground: &Ground) -> Option<String> {
        match self.takes_jobs_as() {
            None => Some("runs no program that takes a job".to_owned()),
            Some(name) if ground.ci().open(name).is_none() => {
                Some(format!("runs a program that takes a job as {name}, and its CI system brings that none"))
            }
            Some(_) => None,
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.work.run.as_ref().is_some_and(|program| program.is_stopped)
    }

    pub(super) fn start_run(&mut self, ground: &Ground, start: &RunStart) {
        self.may_work(ground);
        match self.is_dock {
            true => self.may_take_a_job(ground),
            false => self.is_used(ground, &start.label),
        }
        let nth = self.work.next();
        let registration = start.registration.as_ref().map(|it| it.name.clone());
        if let (true, Some(name)) = (self.is_dock, &registration) {
            self.tell(ground, || format!("its program takes a job as {name}"));
        }
        self.work.run = Some(Program { nth, registration, is_stopped: false });
        if let Some(wait_ms) = self.program_lasts_ms(ground) {
            self.plan(ground, wait_ms, HostEvent::RunOver { nth });
        }
    }

    /// One that ends with its job otherwise ends only if it fails.
    fn program_lasts_ms(&mut self, ground: &Ground) -> Option<u64> {
        match self.is_dock {
            false => Some(self.chance.between(20_000, 400_000)),
            true => {
                let fails = !ground.weather.calm(ground.now_ms()) && self.chance.hits(FAILS);
                fails.then(|| self.chance.between(1_000, 300_000))
            }
        }
    }

    /// Invariant 13: a machine is registered for another job when it is clean.
    fn may_take_a_job(&self, ground: &Ground) {
        let used_by = ground.yard().site(&self.machine).and_then(|site| site.used_by.clone());
        if let Some(earlier) = used_by {
            let what = format!(
                "a program of {} is there for another job, and the machine was not cleaned since {earlier} had it",
                self.runner
            );
            ground.broken(13, &[&self.runner, &earlier], what);
        }
    }

    /// The job of the program that is known by this name is over, and so is the program in a moment. Says whether it was there to tell its CI system.
    pub(crate) fn ends_with_its_job(&mut self, ground: &Ground, name: &str) -> bool {
        let is_it = |program: &&Program| program.registration.as_deref() == Some(name) && !program.is_stopped;
        let Some(nth) = self.work.run.as_ref().filter(is_it).map(|program| program.nth) else { return false };
        let wait_ms = self.chance.between(50, 3_000);
        self.plan(ground, wait_ms, HostEvent::RunOver { nth });
        true
    }

    pub(super) fn run_over(&mut self, ground: &Ground, nth: u64) -> Option<Input> {
        let Program { registration, is_stopped, .. } = self.work.run.take_if(|run| run.nth == nth)?;
        match (registration, self.is_dock) {
            (Some(name), true) => {
                if !is_stopped && ground.ci().lists(&name) {
                    ground.fired(Fault::ProgramFailed);
                }
                // What it ran has ended with it.
                ground.plan_in(0, Event::Emptied { host: self.index });
            }
            // It dies without a word to its CI system.
            (Some(_), false) if is_stopped => {}
            (Some(name), false) => ground.ci().job_over(&name),
            (None, _) => {}
        }
        Some(Input::RunEnded(RunEnd { well: true, how: "it ended with exit code 0".to_owned() }))
    }

    pub(super) fn stop_run(&mut self, ground: &Ground, grace: Duration) {
        if !grace.is_zero() {
            self.has_done_its_job(ground);
        }
        let nth = self.work.next();
        let Some(run) = &mut self.work.run else { return };
        (run.nth, run.is_stopped) = (nth, true);
        let wait_ms = self.dies_in_ms(grace);
        self.plan(ground, wait_ms, HostEvent::RunOver { nth });
    }

    /// Invariant 30: no job is cut off for its machine to be cleaned. At a deadline, which gives no grace, whatever runs is ended.
    fn has_done_its_job(&self, ground: &Ground) {
        if let Some(job) = self.unfinished_job(ground) {
            let what = format!("the program of {} is told to end, and its job {job} runs", self.runner);
            ground.broken(30, &[&self.runner, &job], what);
        }
    }

    /// The job that the machine of a dock must not be cleaned under: its CI system still takes it to be there, and its time is not over.
    pub(super) fn unfinished_job(&self, ground: &Ground) -> Option<JobId> {
        let (job, epoch) = ground.oracle().is_cleaned_after(ground.now_ms(), &self.runner)?;
        let is_there = self.is_dock && ground.ci().runs.is_at(&job, &self.runner, epoch);
        is_there.then_some(job)
    }
}
