//! `POST /provision`: its shape, the same key again, warm before cold, the maximum.

use super::target::{members, only_member, text};
use super::{METAL, SMALL, SMALL_MAX, Target, Watch};
use crate::fakes::fake_agent::FakeAgent;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// The shape that tools outside rely on, from the first answer to the last.
pub async fn a_claim_has_its_fixed_shape_from_pending_to_released(target: &Target) -> Result<()> {
    target.at_rest(SMALL).await?;
    let workflow = target.name("shape");
    let ask = json!({"workflow": workflow, "pool": SMALL, "count": 2});
    let opened = target.api.post("provision", ask).await?.expect(202)?;
    has_the_shape(&opened, &workflow, SMALL, 2)?;

    let ready = target.settled(&opened).await?;
    has_the_shape(&ready, &workflow, SMALL, 2)?;
    ensure!(ready["claim"] == opened["claim"] && ready["label"] == opened["label"], "{ready}");
    ensure!(ready["state"] == "ready" && ready["short"] == 0, "{ready}");
    let runners = ready["runners"].as_array().map(Vec::as_slice).unwrap_or_default();
    ensure!(runners.len() == 2, "{ready}");
    for runner in runners {
        ensure!(text(runner, "runner").starts_with("r-"), "{runner}");
        ensure!(runner["state"] == "running" && runner["epoch"].is_u64(), "{runner}");
        ensure!(runner["warm"].is_boolean(), "{runner}");
    }
    let pool = target.api.pool(SMALL).await?;
    ensure!(pool["pool"] == SMALL && pool["counts"]["running"].as_u64() >= Some(2), "{pool}");

    let released = target.api.release(&workflow).await?;
    has_the_shape(&released, &workflow, SMALL, 2)?;
    ensure!(released["state"] == "released" && released["claim"] == opened["claim"], "{released}");
    Ok(())
}

pub async fn one_runner_is_asked_for_if_no_count_is_given(target: &Target) -> Result<()> {
    let pool = target.metal_pool("count", json!({})).await?;
    let ask = json!({"workflow": "one", "pool": pool});
    let claim = target.api.post("provision", ask).await?.expect(202)?;
    ensure!(claim["count"] == 1 && claim["short"] == 1, "{claim}");
    Ok(())
}

pub async fn asking_again_gives_the_same_answer(target: &Target) -> Result<()> {
    let (pool, mut agents) = target.idle_pool::<1>("again").await?;
    let ask = json!({
        "workflow": "again", "pool": pool, "count": 2, "max_runtime_minutes": 10,
        "usage": "on-demand", "allowed_instance_types": "*",
    });
    let first = lasting(target.api.post("provision", ask.clone()).await?.expect(202)?);
    for _ in 0..3 {
        let again = lasting(target.api.post("provision", ask.clone()).await?.expect(202)?);
        ensure!(again == first, "{again} is not {first}");
    }
    for agent in &mut agents {
        agent.work_until("running").await?;
    }
    let again = target.api.post("provision", ask).await?.expect(202)?;
    ensure!(again["claim"] == first["claim"] && again["runners"][0]["state"] == "running", "{again}");
    let all = target.api.get(&format!("claims?pool={pool}")).await?.expect(200)?;
    ensure!(all["claims"].as_array().map(Vec::len) == Some(1), "{all}");
    Ok(())
}

pub async fn asking_otherwise_is_a_conflict_that_names_the_claim(target: &Target) -> Result<()> {
    let pool = target.metal_pool("otherwise", json!({})).await?;
    let ask = json!({"workflow": "otherwise", "pool": pool, "count": 2});
    let claim = target.api.post("provision", ask.clone()).await?.expect(202)?;
    let watch = Watch::over(target, &[&pool]).await?;
    for (field, value) in [
        ("count", json!(1)),
        ("max_runtime_minutes", json!(5)),
        ("usage", json!("on-demand")),
        ("allowed_instance_types", json!("*")),
        ("resource_class", json!("large")),
    ] {
        let mut other = ask.clone();
        other[field] = value;
        let answer = target.api.post("provision", other).await?;
        watch.refused_naming(answer, 409, "conflict", text(&claim, "claim")).await?;
    }
    let answer = target.api.post("claim", json!({"workflow": "otherwise", "pool": pool})).await?;
    watch.refused_naming(answer, 409, "conflict", text(&claim, "claim")).await?;
    Ok(())
}

pub async fn an_ended_claims_key_opens_a_new_one(target: &Target) -> Result<()> {
    let pool = target.metal_pool("ended", json!({})).await?;
    let first = target.api.provision("ended", &pool, 1).await?;
    target.api.release("ended").await?;
    // With other parameters too: the old claim no longer binds.
    let second = target.api.provision("ended", &pool, 2).await?;
    ensure!(second["claim"] != first["claim"] && second["state"] == "pending", "{second}");
    let first = target.api.claim(text(&first, "claim")).await?;
    ensure!(first["state"] == "released", "{first}");
    Ok(())
}

pub async fn a_claim_is_known_by_owner_workflow_and_pool(target: &Target) -> Result<()> {
    let one = target.metal_pool("key-one", json!({})).await?;
    let two = target.metal_pool("key-two", json!({})).await?;
    let mut ids = Vec::new();
    for (who, owner) in [(&target.api, "operator"), (&target.team_a, "team-a"), (&target.team_b, "team-b")] {
        for pool in [&one, &two] {
            let claim = who.provision("the-same", pool, 1).await?;
            ensure!(claim["owner"] == owner, "{claim}");
            ids.push(text(&claim, "claim").to_owned());
        }
    }
    ids.sort();
    ids.dedup();
    ensure!(ids.len() == 6, "{ids:?}");
    Ok(())
}

pub async fn a_claim_that_waits_says_why_and_gets_what_comes(target: &Target) -> Result<()> {
    let pool = target.metal_pool("waits", json!({})).await?;
    let claim = target.api.provision("waits", &pool, 1).await?;
    ensure!(claim["state"] == "pending" && claim["short"] == 1, "{claim}");
    ensure!(text(&claim, "why").contains("no idle runner"), "{claim}");

    let runner = target.name("waits-1");
    let mut agent = FakeAgent::join(&target.api, &pool, &runner, json!({})).await?;
    agent.work_until("running").await?;
    let claim = target.settled(&claim).await?;
    ensure!(claim["state"] == "ready" && members(&claim) == [runner], "{claim}");
    ensure!(text(&claim, "why").contains("ready"), "{claim}");
    Ok(())
}

pub async fn idle_runners_come_before_new_ones(target: &Target) -> Result<()> {
    target.at_rest(SMALL).await?;
    let first = target.api.provision(&target.name("first"), SMALL, 1).await?;
    let first = target.settled(&first).await?;
    let runner = only_member(&first)?;
    let epoch = first["runners"][0]["epoch"].as_u64().context("an epoch")?;
    target.api.release(&target.name("first")).await?;
    target.runner_in(&runner, "idle").await?;
    let idle = target.api.pool(SMALL).await?["counts"]["idle"].as_u64().context("a count")?;

    let all = target.api.provision(&target.name("mixed"), SMALL, SMALL_MAX).await?;
    let all = target.settled(&all).await?;
    ensure!(all["state"] == "ready", "{all}");
    let members = all["runners"].as_array().context("runners")?;
    let warm: Vec<&Value> = members.iter().filter(|member| member["warm"] == true).collect();
    ensure!(u64::try_from(warm.len())? == idle, "{idle} were idle: {all}");
    let again = warm.iter().find(|member| member["runner"] == runner.as_str()).context("the idle one")?;
    ensure!(again["epoch"] == epoch + 1, "{all}");
    target.api.release(&target.name("mixed")).await?;
    Ok(())
}

pub async fn the_maximum_holds_and_who_waits_is_next(target: &Target) -> Result<()> {
    target.at_rest(SMALL).await?;
    let all = target.api.provision(&target.name("all"), SMALL, SMALL_MAX).await?;
    let all = target.settled(&all).await?;
    ensure!(all["state"] == "ready", "{all}");
    let next = target.api.provision(&target.name("next"), SMALL, 1).await?;
    ensure!(next["state"] == "pending" && text(&next, "why").contains("maximum"), "{next}");
    let pool = target.api.pool(SMALL).await?;
    ensure!(pool["used"] == SMALL_MAX && pool["waiting"] == 1, "{pool}");

    target.api.release(&target.name("all")).await?;
    let next = target.settled(&next).await?;
    ensure!(next["state"] == "ready" && next["runners"][0]["warm"] == true, "{next}");
    ensure!(target.api.pool(SMALL).await?["used"] == SMALL_MAX, "no more machines than before");
    target.api.release(&target.name("next")).await?;
    Ok(())
}

/// The claim was given away before its machine came: the machine joins the pool instead.
pub async fn a_claim_released_while_its_runner_starts_leaves_an_idle_runner(target: &Target) -> Result<()> {
    // Of its own, so that no machine is there yet.
    let (workflow, pool) = (target.name("hasty"), target.name("hasty"));
    let settings = json!({"backend": "local", "trusted": true, "max": 1, "cpu": 1, "memory_mb": 512, "heartbeat_seconds": 3});
    target.api.put(&format!("pools/{pool}"), settings).await?.expect(200)?;
    let claim = target.api.provision(&workflow, &pool, 1).await?;
    let runner = only_member(&claim)?;
    target.api.release(&workflow).await?;
    let idle = target.runner_in(&runner, "idle").await?;
    ensure!(idle["claim"].is_null(), "{idle}");
    Ok(())
}

pub async fn refreshing_by_hand_tells_what_it_did(target: &Target) -> Result<()> {
    let report = target.api.refresh().await?;
    for figure in ["examined", "reaped", "announced", "launched"] {
        ensure!(report[figure].is_u64(), "{figure} is missing: {report}");
    }
    let swept = target.api.post("refresh?sweep=now", json!({})).await?.expect(200)?;
    ensure!(swept["swept"] == true, "{swept}");
    ensure!(target.api.pool(METAL).await?["counts"]["idle"].is_u64(), "counts by state");
    Ok(())
}

fn has_the_shape(claim: &Value, workflow: &str, pool: &str, count: u32) -> Result<()> {
    let id = text(claim, "claim");
    ensure!(id.starts_with("c-") && claim["label"] == format!("motorpool-{id}"), "{claim}");
    ensure!(claim["workflow"] == workflow && claim["pool"] == pool && claim["count"] == count, "{claim}");
    let states = ["pending", "ready", "released", "failed"];
    ensure!(states.contains(&text(claim, "state")), "{claim}");
    ensure!(claim["short"].is_u64() && !text(claim, "why").is_empty(), "{claim}");
    ensure!(claim["runners"].is_array(), "{claim}");
    Ok(())
}

/// A claim without what counts down.
fn lasting(mut claim: Value) -> Value {
    if let Value::Object(fields) = &mut claim {
        fields.remove("threshold_in_ms");
    }
    claim
}
