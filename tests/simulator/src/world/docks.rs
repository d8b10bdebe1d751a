//! Machines whose CI system is like GitHub: it hands its jobs to the programs of registrations that we make, one to each, and forgets a registration with
//! its job.

use super::{World, paused};
use crate::ci::{Entry, Over, Taken, whole_seconds};
use crate::faults::Fault;
use crate::host::Host;
use crate::jobs::{Job, Origin};
use motorpool_domain::checkpoint::{CompletedJob, JobOutcome};
use motorpool_domain::runner::RunnerState;

impl World {
    /// The job that has waited for longest, to one of those programs that wait for a job.
    pub(super) fn registry_hands_out(&mut self, is_meant: impl Fn(&Entry) -> bool) {
        let Some(number) = self.next_job(Origin::Registry) else { return };
        let open: Vec<(usize, Entry)> = {
            let ci = self.ground.ci();
            let takes = |(index, host): (usize, &Host)| {
                let is_up = host.is_on() && paused(&self.ground, host).is_none();
                let entry = host.takes_jobs_as().and_then(|name| ci.open(name))?;
                (is_up && is_meant(entry)).then(|| (index, entry.clone()))
            };
            self.hosts.iter().enumerate().filter_map(takes).collect()
        };
        let Some((index, entry)) = self.ground.chance().one_of(&open).cloned() else { return };
        self.shop.is_handed_out(Origin::Registry);
        let (Some(host), Some(job)) = (self.hosts.get(index), self.shop.jobs.get_mut(number)) else { return };
        self.ground.ci().runs.takes(number, &entry, self.ground.now_ms());
        host.tell(&self.ground, || format!("its CI system gives {} job {number} of {}", entry.name, job.id));
        let is_idle = {
            let oracle = self.ground.oracle();
            oracle.runner(&host.runner).is_some_and(|record| record.state == RunnerState::Idle)
        };
        if host.is_stopping() || !is_idle {
            self.ground.fired(Fault::JobInThePause);
        }
        job.begins(&self.ground, index);
    }

    /// Its registration is about to be taken back, and just then a job comes, before its time.
    pub(super) fn job_in_the_pause(&mut self, name: &str) {
        let next = {
            let ci = self.ground.ci();
            let is_to_come = |job: &&Job| job.origin == Origin::Registry && !ci.runs.knows(job.number);
            self.shop.before_the_calm().iter().find(is_to_come).map(|job| job.number)
        };
        if let Some(number) = next {
            self.asked(number);
            self.registry_hands_out(|entry| entry.name == name);
        }
    }

    /// It knows that a job is over: by the program that had it, which ends, or since it has heard nothing of that for long.
    pub(super) fn registry_knows(&mut self, number: usize, host: Option<usize>, outcome: JobOutcome) {
        let taken = self.ground.ci().runs.over(number, outcome, self.ground.now_ms());
        let Some(Taken { name, runner, epoch, .. }) = taken else { return };
        if let Some(job) = self.shop.jobs.get(number) {
            self.ground.oracle().job_over(&job.id, Some((runner, epoch)), outcome);
        }
        self.ground.tell(|| format!("ci: job {number} on {name} is over: {outcome:?}"));
        let host = host.and_then(|index| self.hosts.get_mut(index));
        if host.is_some_and(|host| host.ends_with_its_job(&self.ground, &name)) {
            self.ground.ci().job_over(&name);
        }
    }

    pub(super) fn told_by_registry(&self, job: &Job) -> Option<CompletedJob> {
        let ci = self.ground.ci();
        let (Taken { name, .. }, Over { outcome, at_ms }) = ci.runs.ended(job.number)?;
        Some(CompletedJob {
            id: job.id.clone(),
            projects: Vec::new(),
            attempt: None,
            runners: vec![name.clone()],
            ended_at: Some(whole_seconds(at_ms)),
            status: outcome,
        })
    }
}
