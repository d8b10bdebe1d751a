//! A CI system like GitHub: it knows registered runners by name, gives each one job, and forgets it after that. What it lists is the truth that
//! registrations are held against. It stands apart from the fake GitHub of `tests/ci` since it answers at the port, where that speaks HTTP.

use super::{Runs, Way};
use crate::faults::Fault;
use crate::ground::Ground;
use crate::planes::installation;
use crate::schedule::Event;
use async_trait::async_trait;
use motorpool_control::ports::ci::{
    Ci, CiError, CiJob, CiTrouble, ListedRunner, Paused, Rate, Registered, RegistrationOrder,
};
use motorpool_domain::ci::{JobStatus, named};
use motorpool_domain::{Epoch, Label, RunnerId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The runners that it lists, by the ids that it gave them.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    made: u64,
    listed: BTreeMap<String, Entry>,
    /// What it hands out by itself.
    pub(crate) runs: Runs,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) scope: String,
    pub(crate) name: String,
    /// Whose jobs it gets.
    pub(crate) label: Label,
    /// What its name says.
    pub(crate) runner: RunnerId,
    pub(crate) epoch: Epoch,
}

impl Registry {
    pub(crate) fn listed(&self) -> impl Iterator<Item = &Entry> {
        self.listed.values()
    }

    /// The runner of this name, if it would bring it a job: it lists the runner, which has had none.
    pub(crate) fn open(&self, name: &str) -> Option<&Entry> {
        self.listed().find(|entry| entry.name == name && !self.runs.has_taken(name))
    }

    pub(crate) fn lists(&self, name: &str) -> bool {
        self.listed().any(|entry| entry.name == name)
    }

    /// A runner program with this registration has ended: it is good for one job, and was given one.
    pub(crate) fn job_over(&mut self, name: &str) {
        self.listed.retain(|_, entry| entry.name != name);
    }

    fn add(&mut self, entry: Entry) -> String {
        self.job_over(&entry.name);
        self.made += 1;
        let id = format!("{}", self.made);
        self.listed.insert(id.clone(), entry);
        id
    }
}

/// Of 10,000 registrations that are taken back before they have brought a job.
const FASTER: u32 = 5_000;

#[derive(Debug)]
pub(crate) struct SimCi {
    ground: Arc<Ground>,
    way: Way,
}

impl SimCi {
    pub(crate) fn new(ground: &Arc<Ground>) -> Self {
        Self { ground: Arc::clone(ground), way: Way::new(ground) }
    }

    /// A call sets out that takes a registration back. Now and then a job is faster.
    fn has_a_job_come(&self, id: &str) {
        let waits = {
            let ci = self.ground.ci();
            let entry = ci.listed.get(id).and_then(|entry| ci.open(&entry.name));
            entry.filter(|_| ci.runs.any()).map(|entry| entry.name.clone())
        };
        if let Some(name) = waits
            && self.ground.chance().hits(FASTER)
        {
            let wait_ms = self.ground.chance().skewed(1, 2_000);
            self.ground.plan_in(wait_ms, Event::JobInThePause(name));
        }
    }
}

#[async_trait]
impl Ci for SimCi {
    async fn register(&self, order: &RegistrationOrder<'_>) -> Result<Registered, CiError> {
        self.way.there("register a runner").await?;
        let RegistrationOrder { binding, name, label, workflow: _ } = order;
        let Some((runner, epoch)) = named(&installation(), name) else {
            return Err(CiError::Refused(format!("{name} is no name that can be told from another's")));
        };
        let (scope, name) = (binding.scope.clone(), (*name).to_owned());
        let entry = Entry { scope, name: name.clone(), label: (*label).clone(), runner, epoch };
        let id = self.ground.ci().add(entry);
        self.ground.tell(|| format!("ci: registers {name} as {label}"));
        self.way
            .back("register a runner")
            .await
            .inspect_err(|_| self.ground.fired(Fault::RegistrationAnswerLost))?;
        let secret = format!("jit-{id}").into();
        Ok(Registered { id, secret, url: None })
    }

    async fn remove(&self, scope: &str, id: &str) -> Result<(), CiError> {
        self.has_a_job_come(id);
        self.way.there("remove a runner").await?;
        let (removed, is_kept) = {
            let mut ci = self.ground.ci();
            let entry = ci.listed.get(id).filter(|entry| entry.scope == scope);
            let is_kept = entry.is_some_and(|entry| ci.runs.is_busy(&entry.name));
            let goes = entry.is_some() && !is_kept;
            (goes.then(|| ci.listed.remove(id)).flatten(), is_kept)
        };
        if let Some(entry) = removed {
            self.ground.tell(|| format!("ci: forgets {}", entry.name));
        }
        self.way.back("remove a runner").await?;
        if is_kept {
            Err(CiError::Refused("it keeps a runner while that has a job".to_owned()))
        } else {
            Ok(())
        }
    }

    async fn list(&self, scope: &str, prefix: &str) -> Result<Vec<ListedRunner>, CiError> {
        self.way.there("list runners").await?;
        let ci = self.ground.ci();
        let there =
            ci.listed.iter().filter(|(_, entry)| entry.scope == scope && entry.name.starts_with(prefix));
        Ok(there
            .map(|(id, entry)| ListedRunner {
                id: id.clone(),
                name: entry.name.clone(),
                busy: ci.runs.is_busy(&entry.name),
            })
            .collect())
    }

    async fn job_status(&self, job: &CiJob) -> Result<JobStatus, CiError> {
        self.way.there("look up a job").await?;
        let status = self.ground.ci().runs.status(job);
        self.ground.tell(|| format!("ci: the job of {} on {:?} is {status:?}", job.id, job.runner));
        self.way.back("look up a job").await?;
        status.ok_or_else(|| CiError::Refused("it uses words that nobody knows".to_owned()))
    }

    /// As with GitHub, the agent does it.
    async fn pause(&self, _scope: &str, _runner_id: &str) -> Result<Paused, CiError> {
        Ok(Paused::ByAgent)
    }

    async fn unpause(&self, _scope: &str, _runner_id: &str) -> Result<(), CiError> {
        Ok(())
    }

    fn rate(&self) -> Option<Rate> {
        None
    }

    fn trouble(&self, _: &str) -> Option<CiTrouble> {
        None
    }
}
