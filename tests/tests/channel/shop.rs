//! A serve with a pool whose CI system hands out the jobs, and machines in it.

use anyhow::{Context, Result, ensure};
use motorpool_tests::fakes::channel_agent::{ChannelAgent, Shows};
use motorpool_tests::fakes::fake_agent::FakeAgent;
use motorpool_tests::harness::api::Api;
use motorpool_tests::harness::serve::Serve;
use motorpool_tests::harness::wait::until;
use motorpool_tests::suites::black_box::Target;
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

/// Machines whose agents the test plays, in a pool that allows commands; `closed` allows none.
const POOLS: &str = r#"
[pools.macs]
backend = "bare_metal"
dispatch = "hook"
clean = "reset"
reset_cmd = "rm -f dirt-* && echo reset >> told"
cleanup_cmd = "rm -f dirt-* && echo cleanup >> told"
readiness_cmd = "echo ready >> told"
heartbeat_seconds = 1
allow_exec = true
[pools.closed]
backend = "bare_metal"
dispatch = "hook"
clean = "reset"
reset_cmd = "true"
heartbeat_seconds = 1
"#;

pub(crate) struct Shop {
    pub(crate) serve: Serve,
    pub(crate) target: Target,
    /// Where the agents of its machines work.
    pub(crate) dir: TempDir,
}

impl Shop {
    pub(crate) fn open() -> Result<Self> {
        let serve = Serve::start(&format!("{}{POOLS}", Target::pools_file()))?;
        let target = Target::new(serve.api().clone(), "1");
        let dir = TempDir::with_prefix("motorpool-channel-")?;
        Ok(Self { serve, target, dir })
    }

    pub(crate) fn api(&self) -> &Api {
        &self.target.api
    }

    /// An idle machine whose agent syncs, with a connection beside that.
    pub(crate) async fn machine(&self, pool: &str, runner: &str) -> Result<(FakeAgent, ChannelAgent)> {
        let mut agent = FakeAgent::idle(self.api(), pool, runner, json!({})).await?;
        agent.step().await?;
        let connected = self.connect(runner, &agent.token).await?;
        Ok((agent, connected))
    }

    pub(crate) async fn connect(&self, runner: &str, token: &str) -> Result<ChannelAgent> {
        let agent = ChannelAgent::connect(self.api(), Shows::InQuery { runner, token }, self.path()).await?;
        self.connected(runner, true).await?;
        Ok(agent)
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Waits until the control plane says so.
    pub(crate) async fn connected(&self, runner: &str, is: bool) -> Result<()> {
        until(&format!("{runner} is connected: {is}"), async || {
            let shown = self.api().get(&format!("internal/agent/{runner}/connected")).await?.expect(200)?;
            Ok((shown == json!({"connected": is})).then_some(()))
        })
        .await
    }

    /// A machine that was registered with a token of its own, whose agent does not sync. Gives the token.
    pub(crate) async fn machine_with_fixed_token(&self, pool: &str, runner: &str) -> Result<String> {
        let body = json!({"runner_id": runner, "pool": pool, "credential": "token"});
        let registered = self.api().post("runners", body).await?.expect(201)?;
        let token = registered["token"].as_str().with_context(|| registered.to_string())?;
        Ok(token.to_owned())
    }

    /// What the scripts of the pool have told, in order.
    pub(crate) fn told(&self) -> Vec<String> {
        let told = std::fs::read_to_string(self.path().join("told")).unwrap_or_default();
        told.lines().map(str::to_owned).collect()
    }
}

/// The checkpoint of a job that begins once the machine has had its pause.
pub(crate) async fn created(agent: &mut ChannelAgent, job: &str) -> Result<Value> {
    loop {
        let response = agent.ask("create", json!({"job_id": job})).await?;
        if response["status"] == "ok" {
            return Ok(response["data"].clone());
        }
        ensure!(response["error"]["code"] == 429, "{response}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

pub(crate) fn name(checkpoint: &Value) -> Result<String> {
    Ok(checkpoint["name"].as_str().with_context(|| checkpoint.to_string())?.to_owned())
}
