//! Which idle runners a claim takes: those that fit what it asks for. The others stay for somebody else.

use super::Target;
use super::target::{members, text};
use crate::fakes::fake_agent::FakeAgent;
use anyhow::{Result, ensure};
use serde_json::{Value, json};

pub async fn by_instance_type(target: &Target) -> Result<()> {
    let fleet = Fleet::new(target, "types", json!({})).await?;
    let claim = fleet.provision("types", 2, json!({"allowed_instance_types": "c* m5.*"})).await?;
    fleet.took(&claim, &["c", "m"])?;
    fleet.left_is_claimable("r").await
}

pub async fn by_resource_class(target: &Target) -> Result<()> {
    let fleet = Fleet::new(target, "class", json!({})).await?;
    let claim = fleet.provision("class", 2, json!({"resource_class": "large"})).await?;
    fleet.took(&claim, &["m", "r"])?;
    fleet.left_is_claimable("c").await
}

pub async fn by_all_at_once(target: &Target) -> Result<()> {
    let fleet = Fleet::new(target, "both", json!({"usage": "spot"})).await?;
    let want = json!({"usage": "spot", "allowed_instance_types": "c* m*", "resource_class": "large"});
    let claim = fleet.provision("both", 1, want).await?;
    fleet.took(&claim, &["m"])?;
    fleet.left_is_claimable("c").await
}

/// A claim that nothing fits waits and says what does not fit; whatever it walked past is given back.
pub async fn what_does_not_fit_is_given_back(target: &Target) -> Result<()> {
    let fleet = Fleet::new(target, "unfit", json!({"usage": "on-demand"})).await?;
    for (workflow, want, named) in [
        ("usage", json!({"usage": "spot"}), "spot"),
        ("globs", json!({"allowed_instance_types": "t3.* z*"}), "t3.*"),
        ("class", json!({"resource_class": "large", "allowed_instance_types": "c*"}), "c*"),
    ] {
        let claim = fleet.provision(workflow, 1, want.clone()).await?;
        ensure!(claim["state"] == "pending" && claim["short"] == 1, "{claim}");
        ensure!(members(&claim).is_empty(), "{claim}");
        ensure!(text(&claim, "why").contains(named), "it does not say that nothing fits: {claim}");
        let (code, message) = fleet.claim_now(workflow, want).await?;
        ensure!(code == "not_found" && message.contains("pool empty"), "{code}: {message}");
    }
    let rest = fleet.provision("rest", 3, json!({})).await?;
    fleet.took(&rest, &["c", "m", "r"])
}

/// A runner that nobody before could use goes to the claim that can, not to the one that waits longest.
pub async fn a_runner_that_comes_goes_to_a_claim_that_it_fits(target: &Target) -> Result<()> {
    let pool = target.metal_pool("comes", json!({})).await?;
    let ask = |workflow: &str, globs: &str| json!({"workflow": workflow, "pool": pool, "allowed_instance_types": globs});
    let first = target.api.post("provision", ask("first", "z*")).await?.expect(202)?;
    let second = target.api.post("provision", ask("second", "c*")).await?.expect(202)?;
    let runner = target.name("comes-c");
    let mut agent =
        FakeAgent::join(&target.api, &pool, &runner, json!({"instance_type": "c5.large"})).await?;
    agent.work_until("running").await?;
    let second = target.settled(&second).await?;
    ensure!(second["state"] == "ready" && members(&second) == [runner], "{second}");
    let first = target.api.claim(text(&first, "claim")).await?;
    ensure!(first["state"] == "pending", "{first}");
    Ok(())
}

/// Three idle machines of different types and sizes.
struct Fleet<'a> {
    target: &'a Target,
    pool: String,
}

impl<'a> Fleet<'a> {
    async fn new(target: &'a Target, name: &str, settings: Value) -> Result<Self> {
        let pool = target.metal_pool(name, settings).await?;
        for (letter, machine) in [
            ("c", json!({"instance_type": "c5.large", "cpu": 2, "memory_mb": 4096})),
            ("m", json!({"instance_type": "m5.xlarge", "cpu": 4, "memory_mb": 8192})),
            ("r", json!({"instance_type": "r5.2xlarge", "cpu": 8, "memory_mb": 65536})),
        ] {
            FakeAgent::idle(&target.api, &pool, &format!("{pool}-{letter}"), machine).await?;
        }
        Ok(Self { target, pool })
    }

    async fn provision(&self, workflow: &str, count: u32, want: Value) -> Result<Value> {
        let mut ask = json!({"workflow": workflow, "pool": self.pool, "count": count});
        if let (Value::Object(ask), Value::Object(want)) = (&mut ask, want) {
            ask.extend(want);
        }
        self.target.api.post("provision", ask).await?.expect(202)
    }

    async fn claim_now(&self, workflow: &str, want: Value) -> Result<(String, String)> {
        let mut ask = json!({"workflow": format!("{workflow}-now"), "pool": self.pool});
        if let (Value::Object(ask), Value::Object(want)) = (&mut ask, want) {
            ask.extend(want);
        }
        self.target.api.post("claim", ask).await?.refusal(404)
    }

    fn took(&self, claim: &Value, letters: &[&str]) -> Result<()> {
        let mut taken = members(claim);
        taken.sort();
        let expected: Vec<String> = letters.iter().map(|letter| format!("{}-{letter}", self.pool)).collect();
        ensure!(taken == expected, "expected {expected:?}: {claim}");
        ensure!(claim["short"] == 0, "{claim}");
        Ok(())
    }

    /// The machine that was walked past is idle, and the next who asks gets one of those left.
    async fn left_is_claimable(&self, letter: &str) -> Result<()> {
        let runner = format!("{}-{letter}", self.pool);
        let seen = self.target.api.runner(&runner).await?;
        ensure!(seen["state"] == "idle" && seen["claim"].is_null(), "{seen}");
        let type_ = text(&seen, "instance_type");
        let ask = json!({"workflow": "left", "pool": self.pool, "allowed_instance_types": type_});
        let claim = self.target.api.post("claim", ask).await?.expect(200)?;
        ensure!(members(&claim) == [runner], "{claim}");
        Ok(())
    }
}
