//! A CI system like GitHub: it knows registered runners by name, gives each one job, and forgets it after that. What it lists is the truth that
//! registrations are held against. It stands apart from the fake GitHub of `tests/ci` since it answers at the port, where that speaks HTTP.

use super::Way;
use crate::faults::Fault;
use crate::ground::Ground;
use crate::planes::installation;
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

#[derive(Debug)]
pub(crate) struct SimCi {
    ground: Arc<Ground>,
    way: Way,
}

impl SimCi {
    pub(crate) fn new(ground: &Arc<Ground>) -> Self {
        Self { ground: Arc::clone(ground), way: Way::new(ground) }
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
        self.way.there("remove a runner").await?;
        let removed = {
            let mut ci = self.ground.ci();
            let is_there = ci.listed.get(id).is_some_and(|entry| entry.scope == scope);
            is_there.then(|| ci.listed.remove(id)).flatten()
        };
        if let Some(entry) = removed {
            self.ground.tell(|| format!("ci: forgets {}", entry.name));
        }
        self.way.back("remove a runner").await
    }

    async fn list(&self, scope: &str, prefix: &str) -> Result<Vec<ListedRunner>, CiError> {
        self.way.there("list runners").await?;
        let ci = self.ground.ci();
        let there =
            ci.listed.iter().filter(|(_, entry)| entry.scope == scope && entry.name.starts_with(prefix));
        Ok(there
            .map(|(id, entry)| ListedRunner { id: id.clone(), name: entry.name.clone(), busy: false })
            .collect())
    }

    /// It gives a registered runner its one job, and forgets both after that: what is still listed runs.
    async fn job_status(&self, job: &CiJob) -> Result<JobStatus, CiError> {
        self.way.there("look up a job").await?;
        let is_its = |entry: &Entry| job.runner.as_deref() == Some(entry.name.as_str());
        let runs = self.ground.ci().listed().any(|entry| entry.scope == job.scope && is_its(entry));
        Ok(if runs { JobStatus::Running } else { JobStatus::Unknown })
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
