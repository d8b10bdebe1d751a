//! `POST /claim`, `GET /claims/{claim}` with and without a wait, and the list.

use super::target::{members, text};
use super::{Target, Watch};
use crate::fakes::fake_agent::FakeAgent;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

pub async fn an_empty_pool_is_told_and_nothing_changes(target: &Target) -> Result<()> {
    let pool = target.metal_pool("empty", json!({})).await?;
    let ask = json!({"workflow": "empty", "pool": pool});
    let watch = Watch::over(target, &[&pool]).await?;
    let answer = target.api.post("claim", ask.clone()).await?;
    watch.refused_naming(answer, 404, "not_found", "pool empty").await?;

    // A machine that is there but not idle makes no difference.
    FakeAgent::join(&target.api, &pool, &target.name("not-ready"), json!({})).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    let answer = target.api.post("claim", ask).await?;
    watch.refused_naming(answer, 404, "not_found", "pool empty").await?;
    Ok(())
}

pub async fn one_idle_runner_is_taken_now(target: &Target) -> Result<()> {
    let (pool, mut agents) = target.idle_pool::<2>("now").await?;
    let ask = json!({"workflow": "now", "pool": pool});
    let claim = target.api.post("claim", ask.clone()).await?.expect(200)?;
    ensure!(claim["count"] == 1 && claim["short"] == 0 && claim["runners"][0]["warm"] == true, "{claim}");
    let again = target.api.post("claim", ask).await?.expect(200)?;
    ensure!(again["claim"] == claim["claim"] && members(&again) == members(&claim), "{again}");
    ensure!(target.api.pool(&pool).await?["counts"]["idle"] == 1, "only one was taken");

    for agent in &mut agents {
        if members(&claim).contains(&agent.runner) {
            let running = agent.work_until("running").await?;
            ensure!(
                running["epoch"] == 2 && agent.registered.as_deref() == claim["label"].as_str(),
                "{claim}"
            );
        }
    }
    let claim = target.settled(&claim).await?;
    ensure!(claim["state"] == "ready" && claim["runners"][0]["state"] == "running", "{claim}");
    Ok(())
}

pub async fn following_ends_as_soon_as_the_claim_is_ready(target: &Target) -> Result<()> {
    let (pool, [mut agent]) = target.idle_pool("follow").await?;
    let claim = target.api.provision("follow", &pool, 1).await?;
    let (followed, worked) = tokio::join!(target.followed(&claim), agent.work_until("running"));
    worked?;
    let followed = followed?;
    ensure!(followed["state"] == "ready", "the wait ended with {followed}");
    // An ended wait, and none at all, are answered at once.
    ensure!(target.followed(&claim).await?["state"] == "ready", "the same again");
    Ok(())
}

pub async fn following_tells_what_is_when_the_time_is_over(target: &Target) -> Result<()> {
    let pool = target.metal_pool("patience", json!({})).await?;
    let claim = target.api.provision("patience", &pool, 1).await?;
    let id = text(&claim, "claim");
    let followed = target.api.get(&format!("claims/{id}?wait=1")).await?.expect(200)?;
    ensure!(followed["state"] == "pending" && followed["short"] == 1, "{followed}");

    let watch = Watch::over(target, &[&pool]).await?;
    for wait in ["61", "-1", "1.5", "soon", "99999999999999999999"] {
        let answer = target.api.get(&format!("claims/{id}?wait={wait}")).await?;
        watch.refused(answer, 400, "invalid_request").await?;
    }
    let answer = target.api.get(&format!("claims/{id}?weight=1")).await?;
    watch.refused_naming(answer, 400, "invalid_request", "weight").await?;
    Ok(())
}

pub async fn following_ends_when_the_claim_is_released(target: &Target) -> Result<()> {
    let pool = target.metal_pool("leave", json!({})).await?;
    let claim = target.api.provision("leave", &pool, 1).await?;
    let (followed, released) = tokio::join!(target.followed(&claim), target.api.release("leave"));
    released?;
    let followed = followed?;
    ensure!(followed["state"] == "released", "{followed}");
    Ok(())
}

pub async fn a_claim_that_waits_too_long_fails_and_says_why(target: &Target) -> Result<()> {
    let pool = target.metal_pool("too-long", json!({"wait_seconds": 1})).await?;
    let (kept, mut agents) = (target.name("too-long-1"), Vec::new());
    agents.push(FakeAgent::idle(&target.api, &pool, &kept, json!({})).await?);
    let claim = target.api.provision("too-long", &pool, 2).await?;
    ensure!(members(&claim) == [kept.clone()], "{claim}");
    let failed = target.settled(&claim).await?;
    ensure!(failed["state"] == "failed" && text(&failed, "why").contains("waited too long"), "{failed}");
    // What it had is given back, and clean again.
    for agent in &mut agents {
        let idle = agent.work_until("idle").await?;
        ensure!(idle["epoch"] == 3, "{idle}");
    }
    Ok(())
}

pub async fn claims_are_listed_page_by_page(target: &Target) -> Result<()> {
    let pool = target.metal_pool("pages", json!({})).await?;
    let mut opened = Vec::new();
    for number in 0..5 {
        let claim = target.api.provision(&format!("pages-{number}"), &pool, 1).await?;
        opened.push(text(&claim, "claim").to_owned());
    }
    let mut listed = Vec::new();
    let mut after = String::new();
    for page_number in 0.. {
        ensure!(page_number < 4, "the pages do not end");
        let page = target.api.get(&format!("claims?pool={pool}&limit=2{after}")).await?.expect(200)?;
        let claims = page["claims"].as_array().context("claims")?;
        ensure!(claims.len() <= 2, "{page}");
        listed.extend(claims.iter().map(|claim| text(claim, "claim").to_owned()));
        match &page["next"] {
            Value::Null => break,
            next => after = format!("&after={}", next.as_str().context("next is text or null")?),
        }
    }
    listed.sort();
    opened.sort();
    ensure!(listed == opened, "{listed:?} are listed, {opened:?} are there");

    let watch = Watch::over(target, &[&pool]).await?;
    for query in ["limit=0", "limit=501", "limit=x", "after=garbage", "after=%00", "page=2"] {
        let answer = target.api.get(&format!("claims?pool={pool}&{query}")).await?;
        watch.refused(answer, 400, "invalid_request").await?;
    }
    watch.refused(target.api.get("claims").await?, 400, "invalid_request").await?;
    watch.refused(target.api.get("claims?pool=nowhere").await?, 404, "not_found").await?;
    Ok(())
}

pub async fn a_team_sees_its_own_claims(target: &Target) -> Result<()> {
    let pool = target.metal_pool("teams", json!({})).await?;
    for (who, workflow) in
        [(&target.api, "op"), (&target.team_a, "a-1"), (&target.team_a, "a-2"), (&target.team_b, "b")]
    {
        who.provision(workflow, &pool, 1).await?;
    }
    for (who, count) in [(&target.api, 4), (&target.team_a, 2), (&target.team_b, 1)] {
        let page = who.get(&format!("claims?pool={pool}")).await?.expect(200)?;
        ensure!(page["claims"].as_array().map(Vec::len) == Some(count), "{page}");
        ensure!(page["next"].is_null(), "{page}");
    }
    Ok(())
}
