//! What the suite is run against, and how its cases name and make what they need.

use crate::fakes::fake_agent::{FakeAgent, sha256_hex};
use crate::harness::api::{Answer, Api};
use crate::harness::serve::WEBHOOK_SECRET;
use crate::harness::wait::until;
use anyhow::{Context, Result};
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Pools of the target's own file: `SMALL` launches its machines, in `METAL` they are registered.
pub const SMALL: &str = "small";
pub const METAL: &str = "metal";
pub const SMALL_MAX: u32 = 3;
pub const METAL_MAX: u32 = 20;

pub const TEAM_A: &str = "team-a";
pub const TEAM_B: &str = "team-b";
const TOKEN_A: &str = "mp_team_a_for_tests_only_0123456789";
const TOKEN_B: &str = "mp_team_b_for_tests_only_0123456789";
const REFRESH_S: u32 = 3;

#[derive(Debug, Clone)]
pub struct Target {
    /// With the operator's token.
    pub api: Api,
    pub team_a: Api,
    pub team_b: Api,
    pub(super) habits: Habits,
    /// Sets what this run makes apart from what an earlier one left.
    run: String,
}

/// In what two targets may differ by design. Everything else they have in common, to the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Habits {
    /// One process: it holds an answer for as long as it is asked to, and turns a flood away itself.
    Process,
    /// Functions: they hold an answer more briefly, a sync not at all, and the platform in front of them may turn a flood away in
    /// words of its own.
    Functions,
}

impl Target {
    pub fn new(operator: Api, run: &str) -> Self {
        Self::with(Habits::Process, operator, run)
    }

    pub fn of_functions(operator: Api, run: &str) -> Self {
        Self::with(Habits::Functions, operator, run)
    }

    fn with(habits: Habits, operator: Api, run: &str) -> Self {
        let team_a = operator.as_who(Some(TOKEN_A));
        let team_b = operator.as_who(Some(TOKEN_B));
        Self { api: operator, team_a, team_b, habits, run: run.to_owned() }
    }

    /// The pools file that a target must have been started with.
    pub fn pools_file() -> String {
        let (a, b) = (sha256_hex(TOKEN_A), sha256_hex(TOKEN_B));
        format!(
            r#"
            refresh_seconds = {REFRESH_S}
            [resource_classes]
            large = {{ cpu = 4, memory_mb = 8192 }}
            [teams.{TEAM_A}]
            token_sha256 = ["{a}"]
            [teams.{TEAM_B}]
            token_sha256 = ["{b}"]
            [pools.{SMALL}]
            backend = "local"
            max = {SMALL_MAX}
            # Where whoever runs the tests is not root.
            trusted = true
            cpu = 2
            memory_mb = 2048
            # Where another control plane took or released a machine, its agent hears of it at its next sync.
            heartbeat_seconds = 3
            # Longer than all cases together.
            idle_minutes = 60
            [pools.{METAL}]
            backend = "bare_metal"
            max = {METAL_MAX}
            cleanup_cmd = "true"
            "#
        )
    }

    /// The same for a target that takes GitHub's webhooks; the secrets that it names are put into `dir`.
    pub fn pools_file_with_webhooks(dir: &Path) -> Result<String> {
        for (name, secret) in
            [("webhook-secret", WEBHOOK_SECRET), ("github-token", "ghp_for_tests_only_0123456789")]
        {
            let file = dir.join(name);
            fs::write(&file, secret)?;
            fs::set_permissions(&file, Permissions::from_mode(0o600))?;
        }
        let github = "[github]\ntoken_file = \"github-token\"\nwebhook_secret_file = \"webhook-secret\"\n";
        Ok(format!("{}\n{github}", Self::pools_file()))
    }

    /// What functions have in place of what stands above the pools in the file.
    pub fn settings() -> Value {
        json!({
            "refresh_seconds": REFRESH_S,
            "teams": {TEAM_A: [sha256_hex(TOKEN_A)], TEAM_B: [sha256_hex(TOKEN_B)]},
            "resource_classes": {"large": {"cpu": 4, "memory_mb": 8192}},
        })
    }

    /// A name that no other run uses.
    pub fn name(&self, name: &str) -> String {
        format!("{name}-{}", self.run)
    }

    /// Nobody's token, or somebody's.
    pub fn as_who(&self, token: Option<&str>) -> Api {
        self.api.as_who(token)
    }

    /// A pool of machines that are registered, for one case alone; `more` changes or adds settings.
    pub async fn metal_pool(&self, name: &str, more: Value) -> Result<String> {
        let name = self.name(name);
        let mut settings = metal_settings();
        if let (Value::Object(settings), Value::Object(more)) = (&mut settings, more) {
            settings.extend(more);
        }
        self.api.put(&format!("pools/{name}"), settings).await?.expect(200)?;
        Ok(name)
    }

    /// A pool of its own with `N` idle machines.
    pub async fn idle_pool<const N: usize>(&self, name: &str) -> Result<(String, [FakeAgent; N])> {
        let pool = self.metal_pool(name, json!({})).await?;
        let mut agents = Vec::new();
        for number in 1..=N {
            let runner = format!("{pool}-{number}");
            agents.push(FakeAgent::idle(&self.api, &pool, &runner, json!({})).await?);
        }
        let agents = agents.try_into().ok().context("another number of agents")?;
        Ok((pool, agents))
    }

    /// A `workflow_job` as GitHub sends it, signed with this secret.
    pub async fn told_by_github(&self, secret: &str, delivery: &str, event: &Value) -> Result<Answer> {
        let body = event.to_string();
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(secret.as_bytes())?;
        mac.update(body.as_bytes());
        let signature: String =
            mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let nobody = self.as_who(None);
        let request = nobody
            .request(Method::POST, "webhooks/github")
            .header("content-type", "application/json")
            .header("x-github-event", "workflow_job")
            .header("x-github-delivery", delivery)
            .header("x-hub-signature-256", format!("sha256={signature}"))
            .body(body);
        nobody.send(request).await
    }

    /// A claim, followed for as long as the target may be asked to wait. One that may answer sooner is asked again.
    pub async fn followed(&self, claim: &Value) -> Result<Value> {
        let path = format!("claims/{}?wait=60", text(claim, "claim"));
        loop {
            let claim = self.api.get(&path).await?.expect(200)?;
            if claim["state"] != "pending" || self.habits == Habits::Process {
                return Ok(claim);
            }
        }
    }

    /// The claim, once it is no longer pending.
    pub async fn settled(&self, claim: &Value) -> Result<Value> {
        let id = text(claim, "claim");
        until(&format!("claim {id} is no longer pending"), async || {
            let claim = self.api.get(&format!("claims/{id}?wait=20")).await?.expect(200)?;
            Ok((claim["state"] != "pending").then_some(claim))
        })
        .await
    }

    /// Waits until nothing that an earlier case left in this pool moves any more: all of its runners are idle.
    pub async fn at_rest(&self, pool: &str) -> Result<()> {
        until(&format!("pool {pool} is at rest"), async || {
            let runners = self.api.runners(pool).await?;
            Ok(runners.iter().all(|runner| runner["state"] == "idle").then_some(()))
        })
        .await
    }

    /// The runner, once it is in this state.
    pub async fn runner_in(&self, runner: &str, state: &str) -> Result<Value> {
        until(&format!("runner {runner} is {state}"), async || {
            let seen = self.api.runner(runner).await?;
            Ok((seen["state"] == state).then_some(seen))
        })
        .await
    }
}

/// Settings that do for machines which nobody really has.
pub(super) fn metal_settings() -> Value {
    json!({"backend": "bare_metal", "cleanup_cmd": "true", "max": 10, "heartbeat_seconds": 60})
}

/// A field's text; empty if it is none.
pub(super) fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or_default()
}

/// The ids of the runners that a claim has.
pub(super) fn members(claim: &Value) -> Vec<String> {
    let runners = claim["runners"].as_array().into_iter().flatten();
    runners.map(|runner| text(runner, "runner").to_owned()).collect()
}

/// The one runner that a claim has.
pub(super) fn only_member(claim: &Value) -> Result<String> {
    let [runner]: [String; 1] =
        members(claim).try_into().map_err(|all| anyhow::anyhow!("not one runner but {all:?}: {claim}"))?;
    Ok(runner)
}
