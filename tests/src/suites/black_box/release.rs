//! `POST /release`: what is given back, by whom, and again.

use super::target::{only_member, text};
use super::{SMALL, TEAM_A, Target, Watch};
use anyhow::{Context, Result, ensure};
use serde_json::json;

pub async fn a_released_runner_is_cleaned_and_idle_again(target: &Target) -> Result<()> {
    target.at_rest(SMALL).await?;
    let workflow = target.name("give-back");
    let claim = target.api.provision(&workflow, SMALL, 1).await?;
    let claim = target.settled(&claim).await?;
    ensure!(claim["state"] == "ready", "{claim}");
    let epoch = claim["runners"][0]["epoch"].as_u64().context("an epoch")?;
    let runner = only_member(&claim)?;

    let released = target.api.release(&workflow).await?;
    ensure!(released["state"] == "released" && released["short"] == 0, "{released}");
    ensure!(text(&released, "why").contains("operator"), "{released}");
    let idle = target.runner_in(&runner, "idle").await?;
    ensure!(idle["epoch"] == epoch + 1 && idle["claim"].is_null(), "{idle}");
    ensure!(text(&idle, "proof").contains("cleanup"), "{idle}");
    Ok(())
}

pub async fn releasing_again_is_harmless(target: &Target) -> Result<()> {
    let (pool, [mut agent]) = target.idle_pool("twice").await?;
    let claim = target.api.provision("twice", &pool, 1).await?;
    agent.work_until("running").await?;
    let first = target.api.release("twice").await?;
    ensure!(first["claim"] == claim["claim"] && first["state"] == "released", "{first}");
    let watch = Watch::over(target, &[&pool]).await?;
    for _ in 0..3 {
        let again = target.api.release("twice").await?;
        ensure!(again["claim"] == first["claim"] && again["why"] == first["why"], "{again}");
        watch.unchanged().await?;
    }
    agent.work_until("idle").await?;

    // The runner has begun another life with another holder: the old release does not touch it.
    let next = target.api.provision("next", &pool, 1).await?;
    agent.work_until("running").await?;
    let again = target.api.release("twice").await?;
    ensure!(again["claim"] == first["claim"], "{again}");
    let next = target.api.claim(text(&next, "claim")).await?;
    ensure!(next["state"] == "ready" && next["runners"][0]["state"] == "running", "{next}");
    Ok(())
}

pub async fn a_claim_that_waits_can_be_released(target: &Target) -> Result<()> {
    let pool = target.metal_pool("give-up", json!({})).await?;
    let claim = target.api.provision("give-up", &pool, 1).await?;
    let released = target.api.release("give-up").await?;
    ensure!(released["claim"] == claim["claim"] && released["state"] == "released", "{released}");
    ensure!(released["threshold_in_ms"].is_null() && released["short"] == 0, "{released}");
    ensure!(target.api.pool(&pool).await?["waiting"] == 0, "nobody waits any more");
    Ok(())
}

pub async fn a_workflow_gives_back_all_that_it_holds_or_one_pools(target: &Target) -> Result<()> {
    let one = target.metal_pool("both-one", json!({})).await?;
    let two = target.metal_pool("both-two", json!({})).await?;
    let workflow = target.name("both");
    let on_one = target.api.provision(&workflow, &one, 1).await?;
    let on_two = target.api.provision(&workflow, &two, 1).await?;

    let by_pool = json!({"workflow": workflow, "pool": one});
    let released = target.api.post("release", by_pool).await?.expect(202)?;
    ensure!(released["claim"] == on_one["claim"] && released["also"].is_null(), "{released}");
    ensure!(target.api.claim(text(&on_two, "claim")).await?["state"] == "pending", "the other is open still");

    let on_one = target.api.provision(&workflow, &one, 1).await?;
    let released = target.api.release(&workflow).await?;
    let also = released["also"].as_array().context("the other claim")?;
    let mut ended =
        vec![text(&released, "claim"), also.first().and_then(|id| id.as_str()).unwrap_or_default()];
    let mut expected = vec![text(&on_one, "claim"), text(&on_two, "claim")];
    ended.sort_unstable();
    expected.sort_unstable();
    ensure!(ended == expected, "{released}");
    Ok(())
}

pub async fn an_operator_releases_for_a_team(target: &Target) -> Result<()> {
    let pool = target.metal_pool("for-team", json!({})).await?;
    let claim = target.team_a.provision("for-team", &pool, 1).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    let own = target.api.post("release", json!({"workflow": "for-team"})).await?;
    watch.refused(own, 404, "not_found").await?;
    let answer = target.api.post("release", json!({"workflow": "for-team", "owner": TEAM_A})).await?;
    let released = answer.expect(202)?;
    ensure!(released["claim"] == claim["claim"] && released["state"] == "released", "{released}");
    ensure!(text(&released, "why").contains("operator"), "{released}");
    Ok(())
}

pub async fn what_nobody_holds_cannot_be_released(target: &Target) -> Result<()> {
    let pool = target.metal_pool("nothing", json!({})).await?;
    target.api.provision("something", &pool, 1).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    for body in [
        json!({"workflow": target.name("never-seen")}),
        json!({"workflow": "something", "pool": "elsewhere"}),
        json!({"workflow": "something", "owner": "team-c"}),
    ] {
        watch.refused(target.api.post("release", body).await?, 404, "not_found").await?;
    }
    Ok(())
}
