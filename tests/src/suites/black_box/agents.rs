//! A kept runner's life over the agent's protocol, as an agent sees it.

use super::target::{Habits, only_member, text};
use super::{Target, Watch};
use crate::fakes::fake_agent::{FakeAgent, register, secret_of};
use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// From the registration to the second idle, with every task in its order and its place.
pub async fn a_kept_runners_whole_life(target: &Target) -> Result<()> {
    let scripts = json!({
        "pre_runner_cmd": "prepare it", "register_cmd": "register it", "run_cmd": "run it",
        "deregister_cmd": "deregister it", "cleanup_cmd": "clean it",
    });
    let pool = target.metal_pool("life", scripts).await?;
    let mut agent = FakeAgent::join(&target.api, &pool, &target.name("life-1"), json!({})).await?;

    let told = agent.step().await?;
    is_told(&told, 1, "created", json!({"prepare": {"script": "prepare it"}}))?;
    ensure!(told["kept"] == true && told["end"] == false, "{told}");
    ensure!(told["next_sync_in_ms"].is_u64() && told["threshold_in_ms"].is_u64(), "{told}");
    ensure!(told["fence_in_ms"].as_u64() > told["threshold_in_ms"].as_u64(), "{told}");
    // Nobody knows what was done on it before it came.
    is_told(&agent.step().await?, 2, "resetting", json!({"cleanup": {"script": "clean it"}}))?;
    is_told(&agent.step().await?, 2, "idle", Value::Null)?;
    let idle = target.api.runner(&agent.runner).await?;
    ensure!(text(&idle, "proof").contains("cleanup") && idle["seen_ms_ago"].is_u64(), "{idle}");

    let claim = target.team_a.provision("life", &pool, 1).await?;
    let label = claim["label"].clone();
    ensure!(only_member(&claim)? == agent.runner && claim["runners"][0]["state"] == "claimed", "{claim}");
    let register = json!({"register": {"label": label, "script": "register it", "run": "run it"}});
    is_told(&agent.step().await?, 2, "claimed", register)?;
    is_told(&agent.step().await?, 2, "running", Value::Null)?;
    let claim = target.team_a.claim(text(&claim, "claim")).await?;
    ensure!(claim["state"] == "ready" && claim["runners"][0]["state"] == "running", "{claim}");
    ensure!(target.api.runner(&agent.runner).await?["claim"] == claim["claim"], "it is held by {claim}");

    target.team_a.release("life").await?;
    let deregister = json!({"deregister": {"label": label, "script": "deregister it"}});
    is_told(&agent.step().await?, 2, "releasing", deregister)?;
    is_told(&agent.step().await?, 3, "resetting", json!({"cleanup": {"script": "clean it"}}))?;
    let unproven = target.api.runner(&agent.runner).await?;
    ensure!(unproven["state"] == "resetting" && unproven["proof"].is_null(), "{unproven}");
    is_told(&agent.step().await?, 3, "idle", Value::Null)?;
    let idle = target.api.runner(&agent.runner).await?;
    ensure!(idle["epoch"] == 3 && text(&idle, "proof").contains("cleanup"), "{idle}");
    ensure!(idle["claim"].is_null() && idle["why"].is_null(), "{idle}");
    Ok(())
}

pub async fn a_secret_is_redeemed_by_one_token_alone(target: &Target) -> Result<()> {
    let pool = target.metal_pool("redeem", json!({})).await?;
    let runner = target.name("redeem-1");
    let secret = secret_of(&register(&target.api, &pool, &runner, json!({})).await?)?;
    let other = target.name("redeem-2");
    let others_secret = secret_of(&register(&target.api, &pool, &other, json!({})).await?)?;

    let agent = FakeAgent::new(&target.api, &runner);
    let watch = Watch::over(target, &[&pool]).await?;
    for wrong in [&others_secret, "", "mp_launch_", "x", &secret.to_uppercase(), &format!("{secret} ")] {
        watch.refused(agent.bootstrap(wrong).await?, 401, "unauthorized").await?;
    }
    let nobody = FakeAgent::new(&target.api, "nobody");
    watch.refused(nobody.bootstrap(&secret).await?, 401, "unauthorized").await?;
    watch.refused(agent.sync().await?, 401, "unauthorized").await?;

    let first = agent.bootstrap(&secret).await?.expect(200)?;
    ensure!(first == json!({"pool": pool, "epoch": 1}), "{first}");
    // The answer may have been lost.
    ensure!(agent.bootstrap(&secret).await?.expect(200)? == first, "the same hash again");
    agent.sync().await?.expect(200)?;

    let thief = FakeAgent::new(&target.api, &runner);
    let watch = Watch::over(target, &[&pool]).await?;
    watch.refused(thief.bootstrap(&secret).await?, 403, "forbidden").await?;
    watch.refused(thief.sync().await?, 401, "unauthorized").await?;
    agent.sync().await?.expect(200)?;
    Ok(())
}

pub async fn what_an_agent_sends_at_bootstrap_is_checked(target: &Target) -> Result<()> {
    let pool = target.metal_pool("checked", json!({})).await?;
    let runner = target.name("checked-1");
    let secret = secret_of(&register(&target.api, &pool, &runner, json!({})).await?)?;
    let body = json!({
        "runner": runner, "secret": secret, "token_sha256": "a".repeat(64), "machine_id": "m", "boot_id": "b",
    });
    let watch = Watch::over(target, &[&pool]).await?;
    for (field, value) in [
        ("token_sha256", json!("")),
        ("token_sha256", json!("a".repeat(63))),
        ("token_sha256", json!("A".repeat(64))),
        ("token_sha256", json!("g".repeat(64))),
        ("machine_id", json!("m".repeat(201))),
        ("boot_id", json!("b".repeat(201))),
        ("runner", json!("../x")),
        ("secret", json!(5)),
    ] {
        let mut wrong = body.clone();
        wrong[field] = value;
        let answer = target.as_who(None).post("agent/bootstrap", wrong).await?;
        watch.refused(answer, 400, "invalid_request").await?;
    }
    Ok(())
}

/// A sync that may wait is answered as soon as there is something to do; where it is answered at once, the next one is.
pub async fn a_waiting_sync_is_answered_when_there_is_work(target: &Target) -> Result<()> {
    let (pool, [agent]) = target.idle_pool("doorbell").await?;
    let (told, claim) = tokio::join!(agent.sync_waiting(60_000), target.api.provision("doorbell", &pool, 1));
    let (mut told, claim) = (told?.expect(200)?, claim?);
    if target.habits == Habits::Functions && told["state"] == "idle" {
        told = agent.sync_waiting(60_000).await?.expect(200)?;
    }
    ensure!(told["state"] == "claimed", "{told}");
    ensure!(told["task"]["kind"]["register"]["label"] == claim["label"], "{told}");
    Ok(())
}

pub async fn a_runner_that_cannot_register_is_cleaned_and_its_claim_picks_again(
    target: &Target,
) -> Result<()> {
    let (pool, mut agents) = target.idle_pool::<2>("sick").await?;
    let claim = target.api.provision("sick", &pool, 1).await?;
    let taken = only_member(&claim)?;
    agents.sort_by_key(|agent| agent.runner != taken);
    let [sick, sound] = &mut agents;
    sick.fail("no network").await?;
    let told = sick.step().await?;
    ensure!(told["state"] == "resetting" && told["epoch"] == 3, "{told}");
    sound.work_until("running").await?;
    let claim = target.settled(&claim).await?;
    ensure!(claim["state"] == "ready" && only_member(&claim)? == sound.runner, "{claim}");
    sick.work_until("idle").await?;
    Ok(())
}

/// A machine that started anew is not what its holder had: it is cleaned, and the claim lacks one until another comes.
pub async fn a_machine_that_starts_anew_loses_its_holder(target: &Target) -> Result<()> {
    let (pool, [mut agent]) = target.idle_pool("reboot").await?;
    let claim = target.api.provision("reboot", &pool, 1).await?;
    agent.work_until("running").await?;
    agent.boot_id = "boot-2".to_owned();
    agent.registered = None;
    let told = agent.sync().await?.expect(200)?;
    ensure!(told["state"] == "resetting" && told["epoch"] == 3, "{told}");
    let seen = target.api.claim(text(&claim, "claim")).await?;
    ensure!(seen["state"] == "ready" && seen["short"] == 1 && seen["runners"] == json!([]), "{seen}");
    agent.work_until("running").await?;
    let seen = target.api.claim(text(&claim, "claim")).await?;
    ensure!(seen["short"] == 0 && seen["runners"][0]["epoch"] == 3, "{seen}");
    Ok(())
}

/// With `keep` nothing has to be proven, but the runner must be out of the CI system all the same.
pub async fn a_pool_that_keeps_asks_for_no_cleaning(target: &Target) -> Result<()> {
    let pool = target.metal_pool("keep", json!({"clean": "keep"})).await?;
    let mut agent = FakeAgent::idle(&target.api, &pool, &target.name("keep-1"), json!({})).await?;
    target.api.provision("keep", &pool, 1).await?;
    agent.work_until("running").await?;
    target.api.release("keep").await?;
    let told = agent.sync().await?.expect(200)?;
    ensure!(told["state"] == "releasing" && told["task"]["kind"]["deregister"].is_object(), "{told}");
    agent.step().await?;
    let told = agent.step().await?;
    ensure!(told["state"] == "idle" && told["epoch"] == 3, "{told}");
    ensure!(text(&target.api.runner(&agent.runner).await?, "proof").contains("no proof"), "it says so");
    Ok(())
}

fn is_told(told: &Value, epoch: u64, state: &str, task: Value) -> Result<()> {
    ensure!(told["epoch"] == epoch && told["state"] == state, "expected {state} in epoch {epoch}: {told}");
    let found = if told["task"].is_null() { &Value::Null } else { &told["task"]["kind"] };
    ensure!(*found == task, "expected the task {task}: {told}");
    ensure!(found.is_null() || told["task"]["timeout_ms"].is_u64(), "{told}");
    Ok(())
}
