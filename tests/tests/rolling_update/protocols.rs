//! Agents of the version before and of the one after at this control plane: each lives a whole life with the JSON that it would send, and
//! reads of an answer only what it knows.

use crate::fixtures::message;
use crate::shared::{on_each_ledger, release};
use anyhow::{Context, Result, bail, ensure};
use motorpool_control::{RefusedKind, token_sha256};
use motorpool_domain::RunnerId;
use motorpool_domain::runner::RunnerState;
use motorpool_tests::harness::world::World;
use motorpool_wire::agent::{BootstrapRequest, Protocol, SyncRequest};
use serde_json::{Value, json};

#[tokio::test]
async fn fault_29_an_agent_of_the_older_protocol_lives_a_whole_life() -> Result<()> {
    on_each_ledger(async |world: &World| a_whole_life(world, "older").await).await
}

#[tokio::test]
async fn fault_29_an_agent_of_the_newer_protocol_lives_a_whole_life() -> Result<()> {
    on_each_ledger(async |world: &World| a_whole_life(world, "newer").await).await
}

/// Its next version will be understood; it is told which side to update first.
#[tokio::test]
async fn an_agent_that_is_two_versions_apart_is_refused_and_told_who_must_be_updated() -> Result<()> {
    let Protocol(ours) = Protocol::OURS;
    for (theirs, hint) in [
        (ours - 2, "update the agent on this machine, one version at a time"),
        (ours + 2, "update the control plane, one version at a time"),
    ] {
        let world = World::new(json!({})).await?;
        world.provision("gh-1", 1).await?;
        let mut agent = ScriptedAgent::join(&world, "newer").await?;
        agent.form["protocol"] = json!(theirs);
        let before = world.runner(&agent.runner).await?;
        let refused = world.control.sync(&agent.token, &agent.report()?).await;
        let refused = refused.err().with_context(|| format!("protocol {theirs} is accepted"))?;
        ensure!(refused.kind == RefusedKind::InvalidRequest, "{refused:?}");
        let sentence = format!("this agent speaks protocol {theirs}, and this control plane {ours}");
        ensure!((refused.message, refused.hint.as_str()) == (sentence, hint), "{theirs}");
        ensure!(world.runner(&agent.runner).await? == before, "and nothing has come of it");
    }
    Ok(())
}

async fn a_whole_life(world: &World, version: &'static str) -> Result<()> {
    let claim = world.provision("gh-1", 1).await?;
    let mut agent = ScriptedAgent::join(world, version).await?;
    agent.work(world).await?;
    ensure!(world.claim(&claim).await?.state == "ready", "{:?}", agent.states);
    release(world, "gh-1").await?;
    agent.work(world).await?;
    ensure!(agent.states == ["created", "running", "releasing", "resetting", "idle"], "{:?}", agent.states);
    let runner = world.runner(&agent.runner).await?;
    ensure!(runner.state == RunnerState::Idle && runner.epoch.0 == 2 && runner.proof.is_some(), "{runner:?}");
    let changed = agent.token != format!("mp_runner_{}", agent.runner);
    ensure!(changed, "its token changes with its reset: {}", agent.token);
    world.control.sync(&agent.token, &agent.report()?).await?;
    Ok(())
}

/// An agent of which only the JSON is known. It does at once what it is given to do.
struct ScriptedAgent {
    /// A sync request of its version: `report` fills in what it has to say.
    form: Value,
    runner: RunnerId,
    token: String,
    /// Another, which it has named or will: where its version knows of sessions, its token changes with each reset.
    next: Option<String>,
    epoch: u64,
    registered: Option<String>,
    results: Vec<Value>,
    /// What it was told to be, without what was told again.
    states: Vec<String>,
}

impl ScriptedAgent {
    /// On the world's only machine.
    async fn join(world: &World, version: &'static str) -> Result<Self> {
        let there = world.machines.there();
        let [runner] = there.as_slice() else { bail!("one machine is there, and not {there:?}") };
        let token = format!("mp_runner_{runner}");
        let mut request: Value = message(&format!("agent/{version}/bootstrap_request"))?;
        request["runner"] = json!(runner);
        request["secret"] = json!(world.machines.secret(runner).context("it was launched")?);
        request["token_sha256"] = json!(token_sha256(&token));
        let request: BootstrapRequest = serde_json::from_value(request)?;
        let answer = serde_json::to_value(world.control.bootstrap(request).await?)?;
        Ok(Self {
            form: message(&format!("agent/{version}/sync_request"))?,
            runner: runner.clone(),
            token,
            next: None,
            epoch: answer["epoch"].as_u64().context("an epoch")?,
            registered: None,
            results: Vec::new(),
            states: Vec::new(),
        })
    }

    /// Until there is nothing to do.
    async fn work(&mut self, world: &World) -> Result<()> {
        loop {
            let synced = world.control.sync(&self.token, &self.report()?).await?;
            let answer = serde_json::to_value(synced.answer)?;
            if !self.take(&answer)? {
                return Ok(());
            }
        }
    }

    /// What it has nothing to say of is left out.
    fn report(&self) -> Result<SyncRequest> {
        let mut report = self.form.clone();
        let fields = report.as_object_mut().context("a request has fields")?;
        for unsaid in ["registered", "busy", "results", "notice", "next_token_sha256"] {
            fields.remove(unsaid);
        }
        report["runner"] = json!(self.runner);
        report["epoch"] = json!(self.epoch);
        if let Some(next) = &self.next {
            report["next_token_sha256"] = json!(token_sha256(next));
        }
        if let Some(label) = &self.registered {
            report["registered"] = json!(label);
        }
        if !self.results.is_empty() {
            report["results"] = json!(self.results);
        }
        Ok(serde_json::from_value(report)?)
    }

    /// Whether there was a task.
    fn take(&mut self, answer: &Value) -> Result<bool> {
        let state = answer["state"].as_str().context("a state")?.to_owned();
        if self.states.last() != Some(&state) {
            self.states.push(state);
        }
        let epoch = answer["epoch"].as_u64().context("an epoch")?;
        if epoch != self.epoch {
            self.epoch = epoch;
            self.results.clear();
        }
        if answer["token_taken"] == true {
            self.token = self.next.take().context("a token that it named")?;
        }
        if answer["token_due"] == true && self.form.get("session").is_some() {
            self.next = Some(format!("{}_{epoch}", self.token));
        }
        let task = &answer["task"];
        if task.is_null() {
            return Ok(false);
        }
        if let Some(label) = task["kind"]["register"]["label"].as_str() {
            self.registered = Some(label.to_owned());
        }
        if task["kind"].get("deregister").is_some() {
            self.registered = None;
        }
        self.results.push(json!({"task": task["id"], "outcome": "done"}));
        Ok(true)
    }
}
