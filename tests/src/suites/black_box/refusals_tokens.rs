//! Tokens that an agent has replaced: with each reset it has another, and who comes with one from before is noticed.

use super::target::text;
use super::{Target, Watch};
use crate::fakes::fake_agent::{FakeAgent, register, secret_of, sha256_hex};
use anyhow::{Context, Result, ensure};
use serde_json::json;

/// A pool of its own with one idle machine, whose agent changes its token.
async fn changing(target: &Target, name: &str) -> Result<(String, FakeAgent)> {
    let pool = target.metal_pool(name, json!({})).await?;
    let runner = target.name(name);
    let secret = secret_of(&register(&target.api, &pool, &runner, json!({})).await?)?;
    let mut agent = FakeAgent::new(&target.api, &runner).in_session("its own");
    agent.bootstrap(&secret).await?.expect(200)?;
    agent.work_until("idle").await?;
    Ok((pool, agent))
}

/// What somebody has who copied the agent's token from its disk at this moment: no session stands there.
fn copied(agent: &FakeAgent) -> FakeAgent {
    FakeAgent { session: None, ..agent.clone() }
}

/// A job, and a reset after it. Gives a copy of the token that the job could read.
async fn used(target: &Target, pool: &str, agent: &mut FakeAgent) -> Result<FakeAgent> {
    let workflow = format!("job-on-{pool}");
    target.api.provision(&workflow, pool, 1).await?;
    agent.work_until("running").await?;
    let thief = copied(agent);
    target.api.release(&workflow).await?;
    agent.work_until("idle").await?;
    ensure!(agent.token != thief.token, "its token is what it was");
    Ok(thief)
}

pub async fn refuse_10_a_token_changes_with_each_reset(target: &Target) -> Result<()> {
    let (pool, mut agent) = changing(target, "changing").await?;
    let mut seen = vec![agent.token.clone()];
    for _ in 0..2 {
        used(target, &pool, &mut agent).await?;
        ensure!(!seen.contains(&agent.token), "a token came back");
        seen.push(agent.token.clone());
        agent.sync().await?.expect(200)?;
    }
    // An agent of the version before names none, and goes on with the token that it has.
    let mut older = FakeAgent::idle(&target.api, &pool, &target.name("older"), json!({})).await?;
    let token = older.token.clone();
    target.api.provision("both", &pool, 2).await?;
    older.work_until("running").await?;
    target.api.release("both").await?;
    older.work_until("idle").await?;
    ensure!(older.token == token);
    Ok(())
}

pub async fn refuse_22_a_copied_token_takes_a_kept_machine_out_of_its_pool_once(
    target: &Target,
) -> Result<()> {
    let (pool, mut agent) = changing(target, "copied").await?;
    let thief = used(target, &pool, &mut agent).await?;
    let claim = target.api.provision("next", &pool, 1).await?;
    agent.work_until("running").await?;

    let (code, message) = thief.sync().await?.refusal(401)?;
    let stranger = FakeAgent::new(&target.api, &agent.runner).sync().await?.refusal(401)?;
    ensure!((code, message) == stranger, "it tells more than to one who guesses");
    let seen = target.api.runner(&agent.runner).await?;
    ensure!(seen["state"] == "quarantined", "{seen}");
    ensure!(text(&seen, "why").contains("a token that its agent has replaced"), "{seen}");
    let audit = target.api.get(&format!("audit?subject={}", agent.runner)).await?.expect(200)?.to_string();
    ensure!(audit.contains("a token that its agent has replaced"), "{audit}");
    let claim = target.api.claim(claim["claim"].as_str().context("a claim")?).await?;
    ensure!(claim["short"] == 1 && claim["runners"] == json!([]), "its claim waits for another: {claim}");
    // Nobody knows which of the two is the agent.
    agent.sync().await?.refusal(401)?;

    // A person looks, and gives the machine a new secret. The thief has nothing more to say.
    let renewed =
        target.api.post(&format!("runners/{}/token", agent.runner), json!({})).await?.expect(200)?;
    let mut next =
        FakeAgent { epoch: agent.epoch, ..FakeAgent::new(&target.api, &agent.runner) }.in_session("new");
    next.bootstrap(&secret_of(&renewed)?).await?.expect(200)?;
    target.api.post(&format!("runners/{}/release", agent.runner), json!({})).await?.expect(202)?;
    next.work_until("running").await?;
    let watch = Watch::over(target, &[&pool]).await?;
    watch.refused(thief.sync().await?, 401, "unauthorized").await?;
    watch.refused(agent.sync().await?, 401, "unauthorized").await?;
    Ok(())
}

/// Whatever it is used for, and whatever runner it names.
pub async fn refuse_22_on_every_route_of_an_agent(target: &Target) -> Result<()> {
    for route in ["sync", "sync of another", "self", "registration"] {
        let name = format!("route-{}", route.replace(' ', "-"));
        let (pool, mut agent) = changing(target, &name).await?;
        let thief = used(target, &pool, &mut agent).await?;
        let mut report = thief.report();
        report["runner"] = json!(if route == "sync of another" { "r-nobody" } else { &thief.runner });
        let registration = json!({
            "runner": thief.runner, "epoch": agent.epoch, "label": "motorpool-c-1", "count": 1,
        });
        let answer = match route {
            "self" => thief.api.get("agent/self").await?,
            "registration" => thief.api.post("agent/registration", registration).await?,
            _sync => thief.say(report).await?,
        };
        answer.refusal(401)?;
        let seen = target.api.runner(&agent.runner).await?;
        ensure!(seen["state"] == "quarantined", "{route}: {seen}");
    }
    Ok(())
}

/// Whether the second is late or shut out, nobody can tell at first; `domain/runner/token.rs` says from when on it is an alarm.
pub async fn refuse_22_of_two_with_the_same_token_the_second_gets_nothing(target: &Target) -> Result<()> {
    let (pool, mut agent) = changing(target, "raced").await?;
    target.api.provision("raced", &pool, 1).await?;
    agent.work_until("running").await?;
    let mut thief = copied(&agent).in_session("a thief's");
    thief.next = Some("mp_runner_of_a_thief".to_owned());
    let told = thief.sync().await?.expect(200)?;
    ensure!(told["token_taken"] == true, "who comes first with it has it: {told}");
    thief.adopt_next();
    thief.sync().await?.expect(200)?;

    let watch = Watch::over(target, &[&pool]).await?;
    watch.refused(agent.sync().await?, 401, "unauthorized").await?;
    // Without a session it is no agent of ours at all.
    copied(&agent).sync().await?.refusal(401)?;
    let seen = target.api.runner(&agent.runner).await?;
    ensure!(seen["state"] == "quarantined", "{seen}");
    thief.sync().await?.refusal(401)?;
    Ok(())
}

/// Delivered twice, or looked at once more while it waits for news: it is the agent's own.
pub async fn inv_21_a_request_that_was_overtaken_is_refused_and_changes_nothing(
    target: &Target,
) -> Result<()> {
    let (pool, mut agent) = changing(target, "overtaken").await?;
    target.api.provision("overtaken", &pool, 1).await?;
    agent.work_until("running").await?;
    target.api.release("overtaken").await?;
    agent.work_until("resetting").await?;
    let waiting = FakeAgent { next: None, ..agent.clone() };
    while agent.results.is_empty() || agent.next.is_none() {
        agent.step().await?;
    }
    let naming = agent.clone();
    let told = naming.sync().await?.expect(200)?;
    ensure!(told["token_taken"] == true && told["state"] == "idle", "{told}");
    let watch = Watch::over(target, &[&pool]).await?;
    watch.refused(naming.sync().await?, 401, "unauthorized").await?;
    watch.refused(waiting.sync().await?, 401, "unauthorized").await?;
    // The answer was lost, and its process began anew: it says the same again.
    watch.refused(naming.clone().in_session("another").sync().await?, 401, "unauthorized").await?;
    agent.adopt_next();
    agent.sync().await?.expect(200)?;
    watch.unchanged().await
}

pub async fn refuse_10_a_secret_that_is_renewed_while_a_token_changes_voids_both(
    target: &Target,
) -> Result<()> {
    let (pool, mut agent) = changing(target, "renewed").await?;
    target.api.provision("renewed", &pool, 1).await?;
    agent.work_until("running").await?;
    agent.next = Some("mp_runner_never_named".to_owned());
    let renewed =
        target.api.post(&format!("runners/{}/token", agent.runner), json!({})).await?.expect(200)?;
    let mut named = agent.clone();
    named.adopt_next();
    let watch = Watch::over(target, &[&pool]).await?;
    for old in [&named, &agent] {
        watch.refused(old.sync().await?, 401, "unauthorized").await?;
        watch.refused(old.api.get("agent/self").await?, 401, "unauthorized").await?;
    }
    let mut next = FakeAgent {
        registered: agent.registered.clone(),
        epoch: agent.epoch,
        ..FakeAgent::new(&target.api, &agent.runner)
    };
    next.bootstrap(&secret_of(&renewed)?).await?.expect(200)?;
    ensure!(next.work_until("running").await?["token_taken"].is_null(), "{}", sha256_hex(&next.token));
    Ok(())
}
