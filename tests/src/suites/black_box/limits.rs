//! More than is allowed: long bodies, and many at once. Loopback-sized; how much memory it costs is tested with `serve` itself.

use super::target::Habits;
use super::{METAL, Target, Watch};
use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use serde_json::json;

/// How many requests a flood has.
const FLOOD: usize = 300;

pub async fn refuse_18_an_oversized_body_is_refused(target: &Target) -> Result<()> {
    let pool = target.metal_pool("oversized", json!({})).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    let padding = |bytes: usize| {
        let body = json!({"workflow": "w", "pool": pool}).to_string();
        format!("{body}{}", " ".repeat(bytes - body.len()))
    };
    for path in ["provision", "claim", "release", "runners", "agent/bootstrap"] {
        let answer = target.api.post_raw(path, "application/json", padding(65 * 1024)).await?;
        watch.refused(answer, 413, "invalid_request").await.context(path)?;
    }
    let answer = target.api.post_raw("agent/sync", "application/json", padding(257 * 1024)).await?;
    watch.refused(answer, 413, "invalid_request").await.context("agent/sync")?;
    // As much as is allowed is read to its end.
    let answer = target.api.post_raw("provision", "application/json", padding(64 * 1024)).await?;
    ensure!(answer.status == 202, "{answer:?}");
    Ok(())
}

/// A sync may bring the output of tasks.
pub async fn a_sync_may_be_longer_than_other_bodies(target: &Target) -> Result<()> {
    let (_, [agent]) = target.idle_pool("longer").await?;
    let mut report = agent.report();
    report["agent_version"] = json!("v".repeat(150_000));
    let told = agent.say(report).await?.expect(200)?;
    ensure!(told["state"] == "idle", "{told}");
    Ok(())
}

/// Each is served, or told to come back: none hangs, none fails.
pub async fn refuse_18_a_flood_is_served_or_told_to_come_back(target: &Target) -> Result<()> {
    let pool = target.metal_pool("flood", json!({})).await?;
    let watch = Watch::over(target, &[&pool, METAL]).await?;
    let body = json!({"workflow": "w", "pool": "nowhere"});
    let asks = (0..FLOOD).map(|_| target.team_a.post("provision", body.clone()));
    for answer in join_all(asks).await {
        let answer = answer?;
        ensure!([404, 429].contains(&answer.status), "{answer:?}");
        if answer.status == 404 || target.habits == Habits::Process {
            answer.clone().refusal(answer.status)?;
        }
    }
    watch.unchanged().await?;
    target.api.get("pools").await?.expect(200)?;
    Ok(())
}

/// Many who ask the same at once get one and the same claim.
pub async fn many_who_ask_the_same_get_the_same_claim(target: &Target) -> Result<()> {
    let (pool, _) = target.idle_pool::<3>("stampede").await?;
    let asks = (0..50)
        .map(|_| target.team_a.post("provision", json!({"workflow": "one", "pool": pool, "count": 2})));
    let mut claims = Vec::new();
    for answer in join_all(asks).await {
        let answer = answer?;
        if answer.status != 429 {
            claims.push(answer.expect(202)?["claim"].clone());
        }
    }
    claims.dedup();
    ensure!(claims.len() == 1, "{claims:?}");
    let seen = target.api.pool(&pool).await?;
    ensure!(seen["counts"]["claimed"] == 2 && seen["counts"]["idle"] == 1, "{seen}");
    Ok(())
}
