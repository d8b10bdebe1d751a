//! A CI system that hands out jobs by itself, as a test says: what became of each job, which runners are paused, and whether it answers at all.

use async_trait::async_trait;
use motorpool_control::ports::ci::{
    Ci, CiError, CiJob, CiTrouble, ListedRunner, Paused, Rate, Registered, RegistrationOrder,
};
use motorpool_domain::ci::JobStatus;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub struct TestCi(Mutex<Known>, Notify);

#[derive(Debug, Default)]
struct Known {
    is_down: bool,
    jobs: BTreeMap<String, JobStatus>,
    paused: BTreeSet<String>,
    busy: BTreeSet<String>,
    /// Of these runners it says nothing, neither well nor ill.
    silent_of: BTreeSet<String>,
    asked_about_jobs: usize,
}

impl TestCi {
    /// Whether it answers.
    pub fn is_down(&self, is_down: bool) {
        self.known().is_down = is_down;
    }

    pub fn job(&self, job: &str, status: JobStatus) {
        self.known().jobs.insert(job.to_owned(), status);
    }

    /// Whether it gave the runner a job that nobody else knows of.
    pub fn busy(&self, runner: &str, is_busy: bool) {
        match is_busy {
            true => self.known().busy.insert(runner.to_owned()),
            false => self.known().busy.remove(runner),
        };
    }

    /// A call to pause the runner is not answered until this is taken back.
    pub fn hangs(&self, runner: &str, hangs: bool) {
        match hangs {
            true => self.known().silent_of.insert(runner.to_owned()),
            false => self.known().silent_of.remove(runner),
        };
        self.1.notify_waiters();
    }

    /// Returns once somebody has paused the runner.
    pub async fn has_paused(&self, runner: &str) {
        self.until(|known| known.paused.contains(runner)).await;
    }

    /// How often it was asked what became of a job.
    pub fn asked_about_jobs(&self) -> usize {
        self.known().asked_about_jobs
    }

    /// Somebody's call arrives.
    pub fn paused(&self, runner: &str) {
        self.known().paused.insert(runner.to_owned());
    }

    pub fn is_paused(&self, runner: &str) -> bool {
        self.known().paused.contains(runner)
    }

    async fn until(&self, is_so: impl Fn(&Known) -> bool + Send) {
        loop {
            let changed = self.1.notified();
            let done = is_so(&self.known());
            if done {
                return;
            }
            changed.await;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answering(&self, attempted: &str) -> Result<MutexGuard<'_, Known>, CiError> {
        let known = self.known();
        match known.is_down {
            false => Ok(known),
            true => Err(CiError::Failed { attempted: attempted.to_owned(), source: "it is down".into() }),
        }
    }
}

#[async_trait]
impl Ci for TestCi {
    async fn register(&self, _: &RegistrationOrder<'_>) -> Result<Registered, CiError> {
        Err(CiError::Refused("runners are registered there by hand".to_owned()))
    }

    async fn remove(&self, _: &str, _: &str) -> Result<(), CiError> {
        Ok(())
    }

    async fn list(&self, _: &str, _: &str) -> Result<Vec<ListedRunner>, CiError> {
        Ok(Vec::new())
    }

    async fn job_status(&self, job: &CiJob) -> Result<JobStatus, CiError> {
        self.known().asked_about_jobs += 1;
        let known = self.answering("tell of a job")?;
        Ok(known.jobs.get(&job.id).copied().unwrap_or(JobStatus::Unknown))
    }

    async fn pause(&self, _: &str, runner: &str) -> Result<Paused, CiError> {
        self.until(|known| !known.silent_of.contains(runner)).await;
        let mut known = self.answering("pause a runner")?;
        known.paused.insert(runner.to_owned());
        let busy = known.busy.contains(runner);
        drop(known);
        self.1.notify_waiters();
        Ok(Paused::Acknowledged { busy })
    }

    async fn unpause(&self, _: &str, runner: &str) -> Result<(), CiError> {
        self.answering("unpause a runner")?.paused.remove(runner);
        Ok(())
    }

    fn rate(&self) -> Option<Rate> {
        None
    }

    fn trouble(&self, _: &str) -> Option<CiTrouble> {
        None
    }
}
