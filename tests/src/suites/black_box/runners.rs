//! The operator's verbs on runners: register, list, remove, quarantine and out of it.

use super::target::text;
use super::{SMALL, Target, Watch};
use crate::fakes::fake_agent::{FakeAgent, register, secret_of};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

pub async fn a_registered_machine_gets_its_secret_once(target: &Target) -> Result<()> {
    let pool = target.metal_pool("secret", json!({})).await?;
    let runner = target.name("mac-01");
    let machine = json!({"instance_type": "mac.m4", "cpu": 10, "memory_mb": 16384});
    let registered = register(&target.api, &pool, &runner, machine.clone()).await?;
    ensure!(registered["runner"] == runner.as_str() && registered["pool"] == pool.as_str(), "{registered}");
    ensure!(registered["valid_for_ms"].is_u64(), "{registered}");
    let secret = secret_of(&registered)?;

    let seen = target.api.runner(&runner).await?;
    ensure!(seen["state"] == "created" && seen["epoch"] == 1 && seen["kept"] == true, "{seen}");
    ensure!(seen["instance_type"] == "mac.m4" && seen["cpu"] == 10 && seen["memory_mb"] == 16384, "{seen}");
    ensure!(seen["usage"] == "on-demand" && seen["claim"].is_null() && seen["proof"].is_null(), "{seen}");

    // Nobody can ask for it again, and it stands nowhere.
    let watch = Watch::over(target, &[&pool]).await?;
    let mut body = json!({"runner_id": runner, "pool": pool});
    watch.refused_naming(target.api.post("runners", body.clone()).await?, 409, "conflict", &runner).await?;
    body["cpu"] = json!(4);
    watch.refused(target.api.post("runners", body).await?, 409, "conflict").await?;
    for path in [
        format!("runners/{runner}"),
        format!("runners?pool={pool}"),
        format!("audit?subject={runner}"),
        format!("audit?subject=pool:{pool}"),
        format!("pools/{pool}"),
        "/metrics".to_owned(),
    ] {
        let answer = target.api.get(&path).await?.expect(200)?;
        ensure!(!answer.to_string().contains(&secret), "{path} shows the secret");
    }
    Ok(())
}

pub async fn a_machine_is_registered_only_where_it_can_be(target: &Target) -> Result<()> {
    target.at_rest(SMALL).await?;
    let pool = target.metal_pool("full", json!({"max": 1})).await?;
    register(&target.api, &pool, &target.name("full-1"), json!({})).await?;
    let watch = Watch::over(target, &[&pool, SMALL]).await?;
    let body = json!({"runner_id": target.name("full-2"), "pool": pool});
    watch.refused_naming(target.api.post("runners", body).await?, 409, "conflict", "full").await?;
    let body = json!({"runner_id": target.name("full-2"), "pool": SMALL});
    watch.refused_naming(target.api.post("runners", body).await?, 400, "invalid_request", SMALL).await?;
    let body = json!({"runner_id": target.name("full-2"), "pool": "nowhere"});
    watch.refused_naming(target.api.post("runners", body).await?, 404, "not_found", "nowhere").await?;
    target.api.get(&format!("runners/{}", target.name("full-2"))).await?.refusal(404)?;
    Ok(())
}

pub async fn runners_are_listed_page_by_page_and_by_state(target: &Target) -> Result<()> {
    let (pool, agents) = target.idle_pool::<3>("listed").await?;
    for number in 4..=5 {
        register(&target.api, &pool, &format!("{pool}-{number}"), json!({})).await?;
    }
    let all = target.api.get(&format!("runners?pool={pool}")).await?.expect(200)?;
    ensure!(all["next"] == Value::Null && all.get("next").is_some(), "next is there, and null: {all}");
    ensure!(ids(&all)? == (1..=5).map(|n| format!("{pool}-{n}")).collect::<Vec<_>>(), "{all}");

    let mut listed = Vec::new();
    let mut after = String::new();
    for page_number in 0.. {
        ensure!(page_number < 4, "the pages do not end");
        let page = target.api.get(&format!("runners?pool={pool}&limit=2{after}")).await?.expect(200)?;
        ensure!(ids(&page)?.len() <= 2, "{page}");
        listed.extend(ids(&page)?);
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    listed.sort();
    ensure!(listed == ids(&all)?, "{listed:?}");

    for (state, count) in [("idle", 3), ("created", 2), ("running", 0), ("terminated", 0)] {
        let page = target.api.get(&format!("runners?pool={pool}&state={state}")).await?.expect(200)?;
        ensure!(ids(&page)?.len() == count, "{state}: {page}");
    }
    let gone = &agents.first().context("an agent")?.runner;
    target.api.delete(&format!("runners/{gone}")).await?.expect(202)?;
    let page = target.api.get(&format!("runners?pool={pool}&state=terminated")).await?.expect(200)?;
    ensure!(ids(&page)? == [gone.clone()], "{page}");
    ensure!(target.api.runners(&pool).await?.len() == 4, "the list shows who lives");

    let watch = Watch::over(target, &[&pool]).await?;
    for query in ["limit=0", "limit=501", "limit=x", "after=garbage", "after=%00", "state=asleep", "page=2"] {
        let answer = target.api.get(&format!("runners?pool={pool}&{query}")).await?;
        watch.refused(answer, 400, "invalid_request").await?;
    }
    watch.refused(target.api.get("runners?pool=nowhere").await?, 404, "not_found").await?;
    watch.refused(target.api.get("runners/nobody").await?, 404, "not_found").await?;
    Ok(())
}

pub async fn a_free_runner_is_removed_and_gives_its_slot_back(target: &Target) -> Result<()> {
    let (pool, [agent]) = target.idle_pool("removed").await?;
    let path = format!("runners/{}", agent.runner);
    let removed = target.api.delete(&path).await?.expect(202)?;
    ensure!(["terminating", "terminated"].contains(&text(&removed, "state")), "{removed}");
    let gone = target.runner_in(&agent.runner, "terminated").await?;
    ensure!(text(&gone, "why").contains("operator"), "{gone}");
    ensure!(target.api.pool(&pool).await?["used"] == 0, "its slot is free");
    // Again is harmless.
    target.api.delete(&path).await?.expect(202)?;
    target.api.post("claim", json!({"workflow": "late", "pool": pool})).await?.refusal(404)?;

    // It may come back under its old id, and begins a new life.
    let again = FakeAgent::join(&target.api, &pool, &agent.runner, json!({})).await?;
    let seen = target.api.runner(&again.runner).await?;
    ensure!(seen["epoch"] == 3 && seen["state"] == "created", "{seen}");
    Ok(())
}

pub async fn a_held_runner_is_not_removed(target: &Target) -> Result<()> {
    let (pool, [mut agent]) = target.idle_pool("held").await?;
    let path = format!("runners/{}", agent.runner);
    target.api.provision("held", &pool, 1).await?;
    // While it is claimed, running, and on its way back.
    for state in ["claimed", "running", "releasing"] {
        match state {
            "running" => drop(agent.work_until("running").await?),
            "releasing" => drop(target.api.release("held").await?),
            _ => {}
        }
        target.runner_in(&agent.runner, state).await?;
        let watch = Watch::over(target, &[&pool]).await?;
        watch.refused_naming(target.api.delete(&path).await?, 409, "conflict", state).await?;
        let both = target.api.delete(&format!("{path}?drain=true&force=true")).await?;
        watch.refused(both, 400, "invalid_request").await?;
        let neither = target.api.delete(&format!("{path}?drain=maybe")).await?;
        watch.refused(neither, 400, "invalid_request").await?;
    }
    Ok(())
}

pub async fn a_drained_runner_goes_once_its_holder_is_done(target: &Target) -> Result<()> {
    let (pool, [mut agent]) = target.idle_pool("drained").await?;
    let claim = target.api.provision("drained", &pool, 1).await?;
    agent.work_until("running").await?;
    let path = format!("runners/{}?drain=true", agent.runner);
    let draining = target.api.delete(&path).await?.expect(202)?;
    ensure!(draining["state"] == "running" && draining["draining"] == true, "{draining}");
    target.api.delete(&path).await?.expect(202)?;
    let claim = target.api.claim(text(&claim, "claim")).await?;
    ensure!(claim["state"] == "ready" && claim["short"] == 0, "its holder goes on: {claim}");

    target.api.release("drained").await?;
    agent.step().await?;
    let last = agent.sync().await?;
    ensure!(last.status == 410 || last.body["end"] == true, "{last:?}");
    let gone = target.runner_in(&agent.runner, "terminated").await?;
    ensure!(gone["epoch"] == 2, "it was not cleaned for anybody else: {gone}");
    Ok(())
}

pub async fn a_runner_taken_by_force_is_replaced(target: &Target) -> Result<()> {
    let (pool, mut agents) = target.idle_pool::<2>("forced").await?;
    let claim = target.api.provision("forced", &pool, 1).await?;
    let taken = super::target::only_member(&claim)?;
    agents.sort_by_key(|agent| agent.runner != taken);
    let [first, second] = &mut agents;
    first.work_until("running").await?;
    target.api.delete(&format!("runners/{taken}?force=true")).await?.expect(202)?;

    let refilled = second.work_until("running").await?;
    ensure!(refilled["epoch"] == 2, "{refilled}");
    let claim = target.api.claim(text(&claim, "claim")).await?;
    ensure!(claim["state"] == "ready" && claim["short"] == 0, "{claim}");
    ensure!(super::target::only_member(&claim)? == second.runner, "{claim}");
    let answer = first.sync().await?;
    ensure!(answer.status == 410, "the removed one is told to end: {answer:?}");
    Ok(())
}

pub async fn a_runner_that_cannot_be_cleaned_waits_for_a_person(target: &Target) -> Result<()> {
    // The heartbeat is also the unit of the back-off between attempts.
    let pool = target.metal_pool("unclean", json!({"heartbeat_seconds": 1})).await?;
    let mut agent = FakeAgent::idle(&target.api, &pool, &target.name("unclean-1"), json!({})).await?;
    target.api.provision("unclean", &pool, 1).await?;
    agent.work_until("running").await?;
    target.api.release("unclean").await?;
    agent.work_until("resetting").await?;
    agent.fail_until("the disk is full", "quarantined").await?;
    let seen = target.api.runner(&agent.runner).await?;
    ensure!(text(&seen, "why").contains("the disk is full") && seen["threshold_in_ms"].is_null(), "{seen}");
    ensure!(seen["proof"].is_null(), "nothing was proven: {seen}");
    target.api.post("claim", json!({"workflow": "unclean-2", "pool": pool})).await?.refusal(404)?;
    comes_back_clean(target, &mut agent).await
}

pub async fn a_runner_that_cannot_deregister_waits_for_a_person(target: &Target) -> Result<()> {
    let (pool, [mut agent]) = target.idle_pool("stuck").await?;
    target.api.provision("stuck", &pool, 1).await?;
    agent.work_until("running").await?;
    target.api.release("stuck").await?;
    agent.fail_until("the CI system does not answer", "quarantined").await?;
    let seen = target.api.runner(&agent.runner).await?;
    ensure!(text(&seen, "why").contains("the CI system does not answer"), "{seen}");
    comes_back_clean(target, &mut agent).await?;

    // A quarantined one may also be removed.
    target.api.provision("stuck-again", &pool, 1).await?;
    agent.work_until("running").await?;
    target.api.release("stuck-again").await?;
    agent.fail_until("still no answer", "quarantined").await?;
    target.api.delete(&format!("runners/{}", agent.runner)).await?.expect(202)?;
    target.runner_in(&agent.runner, "terminated").await?;
    Ok(())
}

/// One that starts anew while the CI system still knows it is deregistered before it is cleaned; that is tried as often.
pub async fn a_reset_that_cannot_deregister_is_tried_again(target: &Target) -> Result<()> {
    let pool = target.metal_pool("known", json!({"heartbeat_seconds": 1})).await?;
    let mut agent = FakeAgent::idle(&target.api, &pool, &target.name("known-1"), json!({})).await?;
    target.api.provision("known", &pool, 1).await?;
    agent.work_until("running").await?;
    agent.boot_id = "boot-2".to_owned();
    agent.fail_until("the CI system does not answer", "quarantined").await?;
    let seen = target.api.runner(&agent.runner).await?;
    ensure!(text(&seen, "why").contains("it could not deregister"), "{seen}");
    target.api.release("known").await?;
    comes_back_clean(target, &mut agent).await
}

/// Released from quarantine it is cleaned first, in a new epoch; and only a quarantined runner can be released.
async fn comes_back_clean(target: &Target, agent: &mut FakeAgent) -> Result<()> {
    let path = format!("runners/{}/release", agent.runner);
    let epoch = agent.epoch;
    let released = target.api.post(&path, json!({})).await?.expect(202)?;
    ensure!(released["state"] == "resetting" && released["epoch"] == epoch + 1, "{released}");
    agent.work_until("idle").await?;
    let idle = target.api.runner(&agent.runner).await?;
    ensure!(idle["epoch"] == epoch + 1 && text(&idle, "proof").contains("cleanup"), "{idle}");
    let pool = text(&idle, "pool").to_owned();
    let watch = Watch::over(target, &[&pool]).await?;
    watch.refused(target.api.post(&path, json!({})).await?, 409, "conflict").await?;
    watch.refused(target.api.post("runners/nobody/release", json!({})).await?, 404, "not_found").await?;
    Ok(())
}

fn ids(page: &Value) -> Result<Vec<String>> {
    let runners = page["runners"].as_array().context("runners")?;
    let mut ids: Vec<String> = runners.iter().map(|runner| text(runner, "runner").to_owned()).collect();
    ids.sort();
    Ok(ids)
}
