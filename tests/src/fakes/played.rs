//! Agents that a test plays: each syncs when it is told to, and does at once what it is given to do.

use anyhow::Result;
use motorpool_control::{Control, Refused, token_sha256};
use motorpool_domain::runner::{Notice, TaskOutcome, TaskResult};
use motorpool_domain::{Epoch, Label, RunnerId};
use motorpool_wire::agent::{BootstrapRequest, Protocol, SyncAnswer, SyncRequest, TaskKind};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub struct PlayedAgents {
    agents: Mutex<BTreeMap<String, PlayedAgent>>,
    /// What a machine fails at: a kind of task, as task ids name it.
    failing: Mutex<BTreeMap<String, &'static str>>,
}

/// The host that an agent is on.
#[derive(Debug, Clone)]
pub struct PlayedHost {
    pub runner: RunnerId,
    /// What it was told when it was launched.
    pub secret: String,
    pub machine_id: String,
    pub notice: Option<Notice>,
}

#[derive(Debug, Clone, Default)]
struct PlayedAgent {
    joined: bool,
    epoch: u64,
    registered: Option<Label>,
    results: Vec<TaskResult>,
}

impl PlayedAgents {
    /// One sync, with the task that it is given done at once. The first joins before.
    pub async fn sync(&self, control: &Control, host: &PlayedHost) -> Result<SyncAnswer, Refused> {
        let PlayedHost { runner, secret, machine_id, notice } = host;
        let token = format!("mp_runner_{machine_id}");
        let mut agent = self.agents().get(machine_id).cloned().unwrap_or_default();
        if !agent.joined {
            let request = BootstrapRequest {
                runner: runner.clone(),
                secret: secret.clone(),
                token_sha256: token_sha256(&token),
                machine_id: machine_id.clone(),
                boot_id: "boot".to_owned(),
            };
            agent.epoch = control.bootstrap(request).await?.epoch.0;
            agent.joined = true;
        }
        let request = SyncRequest {
            protocol: Protocol::OURS,
            runner: runner.clone(),
            epoch: Epoch(agent.epoch),
            boot_id: "boot".to_owned(),
            agent_version: "test".to_owned(),
            registered: agent.registered.clone(),
            busy: None,
            results: agent.results.clone(),
            notice: *notice,
            program_version: None,
            session: None,
            next_token_sha256: None,
            wait_ms: 0,
        };
        // What it knows by now it keeps, whether its sync is answered or not.
        self.agents().insert(machine_id.clone(), agent.clone());
        let answer = control.sync(&token, &request).await?.answer;
        let fails_at = lock(&self.failing).get(machine_id).copied();
        agent.take(&answer, fails_at);
        self.agents().insert(machine_id.clone(), agent);
        Ok(answer)
    }

    /// What the machine is told to do of this kind fails from now on; or nothing does.
    pub fn fails_at(&self, machine_id: &str, kind: Option<&'static str>) {
        match kind {
            Some(kind) => lock(&self.failing).insert(machine_id.to_owned(), kind),
            None => lock(&self.failing).remove(machine_id),
        };
    }

    fn agents(&self) -> MutexGuard<'_, BTreeMap<String, PlayedAgent>> {
        lock(&self.agents)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PlayedAgent {
    fn take(&mut self, answer: &SyncAnswer, fails_at: Option<&str>) {
        if answer.epoch.0 != self.epoch {
            self.epoch = answer.epoch.0;
            self.results.clear();
        }
        let Some(task) = &answer.task else { return };
        match &task.kind {
            TaskKind::Register { label, .. } => self.registered = Some(label.clone()),
            TaskKind::Deregister { .. } => self.registered = None,
            TaskKind::Prepare { .. }
            | TaskKind::Cleanup { .. }
            | TaskKind::Reset { .. }
            | TaskKind::Readiness { .. } => {}
        }
        let fails = fails_at.is_some_and(|kind| task.id.as_str().contains(&format!("-{kind}-")));
        let outcome = match fails {
            true => TaskOutcome::Failed { why: "exit code 1".to_owned() },
            false => TaskOutcome::Done,
        };
        self.results.push(TaskResult { task: task.id.clone(), outcome, took_ms: Some(1_000) });
    }
}
