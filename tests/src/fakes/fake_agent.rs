//! A scripted agent: speaks the agent's protocol over HTTP, and does its tasks by saying that they are done. It runs nothing.

use crate::harness::api::{Answer, Api};
use crate::harness::wait::PATIENCE;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// What it is and sees is open, so that a test can make it lie.
#[derive(Debug, Clone)]
pub struct FakeAgent {
    pub api: Api,
    pub runner: String,
    pub token: String,
    pub machine_id: String,
    pub boot_id: String,
    pub epoch: u64,
    pub registered: Option<String>,
    pub results: Vec<Value>,
    /// Where it is set, its token changes with each reset, as the real agent's does. Without it, it is an agent of the version before.
    pub session: Option<String>,
    /// The token that it will use next.
    pub next: Option<String>,
}

/// Other than every token before.
fn fresh_token(runner: &str) -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    format!("mp_runner_of_{runner}_{}", MADE.fetch_add(1, Ordering::Relaxed))
}

/// SHA-256 in hex, as tokens are told to the control plane.
pub fn sha256_hex(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Registers a machine, whose type and hardware `machine` may name. The answer holds its bootstrap secret.
pub async fn register(operator: &Api, pool: &str, runner: &str, machine: Value) -> Result<Value> {
    let mut body = json!({"runner_id": runner, "pool": pool});
    if let (Value::Object(body), Value::Object(machine)) = (&mut body, machine) {
        body.extend(machine);
    }
    operator.post("runners", body).await?.expect(201)
}

impl FakeAgent {
    /// An agent with a fresh token of its own, which nobody knows yet.
    pub fn new(api: &Api, runner: &str) -> Self {
        let token = fresh_token(runner);
        Self {
            api: api.as_who(Some(&token)),
            runner: runner.to_owned(),
            token,
            machine_id: format!("machine-of-{runner}"),
            boot_id: "boot-1".to_owned(),
            epoch: 1,
            registered: None,
            results: Vec::new(),
            session: None,
            next: None,
        }
    }

    /// The same with a session of its own, as if its process had just begun.
    #[must_use]
    pub fn in_session(self, session: &str) -> Self {
        Self { session: Some(session.to_owned()), ..self }
    }

    /// A registered machine whose agent has redeemed its secret.
    pub async fn join(operator: &Api, pool: &str, runner: &str, machine: Value) -> Result<Self> {
        let secret = secret_of(&register(operator, pool, runner, machine).await?)?;
        let agent = Self::new(operator, runner);
        agent.bootstrap(&secret).await?.expect(200)?;
        Ok(agent)
    }

    /// A registered machine that is idle in its pool.
    pub async fn idle(operator: &Api, pool: &str, runner: &str, machine: Value) -> Result<Self> {
        let mut agent = Self::join(operator, pool, runner, machine).await?;
        agent.work_until("idle").await?;
        Ok(agent)
    }

    pub async fn bootstrap(&self, secret: &str) -> Result<Answer> {
        let body = json!({
            "runner": self.runner,
            "secret": secret,
            "token_sha256": sha256_hex(&self.token),
            "machine_id": self.machine_id,
            "boot_id": self.boot_id,
        });
        self.api.as_who(None).post("agent/bootstrap", body).await
    }

    /// What it would say now.
    pub fn report(&self) -> Value {
        json!({
            "runner": self.runner,
            "epoch": self.epoch,
            "boot_id": self.boot_id,
            "protocol": 3, "agent_version": "fake",
            "registered": self.registered,
            "results": self.results,
            "session": self.session,
            "next_token_sha256": self.next.as_deref().map(sha256_hex),
        })
    }

    /// Goes on with the token that it made last.
    pub fn adopt_next(&mut self) {
        if let Some(next) = self.next.take() {
            self.api = self.api.as_who(Some(&next));
            self.token = next;
        }
    }

    /// Says what it sees, and does nothing about the answer.
    pub async fn sync(&self) -> Result<Answer> {
        self.say(self.report()).await
    }

    /// The same with a long poll.
    pub async fn sync_waiting(&self, wait_ms: u64) -> Result<Answer> {
        let mut report = self.report();
        report["wait_ms"] = json!(wait_ms);
        self.say(report).await
    }

    /// Says something else under its own token.
    pub async fn say(&self, report: Value) -> Result<Answer> {
        self.api.post("agent/sync", report).await
    }

    /// Syncs, and does what it is told.
    pub async fn step(&mut self) -> Result<Value> {
        self.act(&json!("done")).await
    }

    /// Syncs, and fails at what it is told.
    pub async fn fail(&mut self, why: &str) -> Result<Value> {
        self.act(&json!({"failed": {"why": why}})).await
    }

    /// Does what it is told until its runner is in this state; what it is told then, it leaves undone.
    pub async fn work_until(&mut self, state: &str) -> Result<Value> {
        self.act_until(&json!("done"), state).await
    }

    /// Fails at whatever it is told until its runner is in this state.
    pub async fn fail_until(&mut self, why: &str, state: &str) -> Result<Value> {
        self.act_until(&json!({"failed": {"why": why}}), state).await
    }

    async fn act_until(&mut self, outcome: &Value, state: &str) -> Result<Value> {
        let acting = async {
            loop {
                let answer = self.hear().await?;
                if answer["state"] == state {
                    return Ok(answer);
                }
                self.do_task(&answer["task"], outcome);
                sleep(Duration::from_millis(10)).await;
            }
        };
        match timeout(PATIENCE, acting).await {
            Ok(answer) => answer,
            Err(_) => bail!("waited {} s in vain until {} is {state}", PATIENCE.as_secs(), self.runner),
        }
    }

    async fn act(&mut self, outcome: &Value) -> Result<Value> {
        let answer = self.hear().await?;
        self.do_task(&answer["task"], outcome);
        Ok(answer)
    }

    /// Syncs, and takes over the epoch that it is told.
    async fn hear(&mut self) -> Result<Value> {
        let answer = self.sync().await?.expect(200)?;
        let epoch = answer["epoch"].as_u64().context("an epoch")?;
        if epoch != self.epoch {
            self.epoch = epoch;
            self.results.clear();
        }
        if answer["token_taken"] == true {
            self.adopt_next();
        }
        // As the real one: when what it was told to clean is clean.
        let rests = !self.results.is_empty() || answer["task"].is_null();
        if answer["token_due"] == true && rests && self.session.is_some() && self.next.is_none() {
            self.next = Some(fresh_token(&self.runner));
        }
        Ok(answer)
    }

    fn do_task(&mut self, task: &Value, outcome: &Value) {
        let Some(kind) = task["kind"].as_object() else { return };
        if let Some(register) = kind.get("register") {
            // A new registration can be undone again, as the real agent knows too.
            self.results
                .retain(|result| !result["task"].as_str().unwrap_or_default().contains("-deregister-"));
            if outcome == "done" {
                self.registered = register["label"].as_str().map(str::to_owned);
            }
        }
        if kind.contains_key("deregister") && outcome == "done" {
            self.registered = None;
        }
        self.results.push(json!({"task": task["id"], "outcome": outcome}));
    }
}

/// The bootstrap secret in the answer to a registration or a rotation.
pub fn secret_of(registered: &Value) -> Result<String> {
    Ok(registered["bootstrap_secret"].as_str().context("a bootstrap secret")?.to_owned())
}
