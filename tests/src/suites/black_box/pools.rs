//! Pools over the API: made, shown, changed, deleted; and those of the file, which are changed there alone.

use super::target::metal_settings;
use super::{METAL, METAL_MAX, SMALL, SMALL_MAX, Target, Watch};
use crate::fakes::fake_agent::FakeAgent;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

pub async fn a_pool_is_made_shown_changed_and_deleted(target: &Target) -> Result<()> {
    let name = target.name("made");
    let path = format!("pools/{name}");
    let made = target.api.put(&path, metal_settings()).await?.expect(200)?;
    ensure!(made["pool"] == name.as_str() && made["source"] == "api" && made["max"] == 10, "{made}");
    ensure!(made["backend"] == "bare_metal" && made["dispatch"] == "claim", "{made}");
    ensure!(made["clean"] == "cleanup" && made["used"] == 0 && made["waiting"] == 0, "{made}");
    for state in
        ["created", "resetting", "idle", "claimed", "running", "releasing", "quarantined", "terminating"]
    {
        ensure!(made["counts"][state] == 0, "{state} is not counted: {made}");
    }
    ensure!(target.api.pool(&name).await? == made, "shown as made");
    ensure!(target.api.put(&path, metal_settings()).await?.expect(200)? == made, "made again");
    ensure!(listed(target, &name).await?.as_ref() == Some(&made), "listed as made");

    let mut settings = metal_settings();
    settings["max"] = json!(7);
    settings["clean"] = json!("keep");
    let changed = target.api.put(&path, settings).await?.expect(200)?;
    ensure!(changed["max"] == 7 && changed["clean"] == "keep", "{changed}");
    ensure!(target.api.pool(&name).await? == changed, "shown as changed");

    let deleted = target.api.delete(&path).await?.expect(204)?;
    ensure!(deleted.is_null(), "{deleted}");
    target.api.get(&path).await?.refusal(404)?;
    target.api.delete(&path).await?.refusal(404)?;
    ensure!(listed(target, &name).await?.is_none(), "it is listed still");
    let ask = json!({"workflow": "late", "pool": name});
    target.api.post("provision", ask).await?.refusal(404)?;
    Ok(())
}

pub async fn a_pool_of_the_file_is_changed_there_alone(target: &Target) -> Result<()> {
    target.at_rest(SMALL).await?;
    let watch = Watch::over(target, &[METAL, SMALL]).await?;
    for (name, max) in [(METAL, METAL_MAX), (SMALL, SMALL_MAX)] {
        let pool = target.api.pool(name).await?;
        ensure!(pool["source"] == "file" && pool["max"] == max && pool["retired"] == false, "{pool}");
        let answer = target.api.put(&format!("pools/{name}"), metal_settings()).await?;
        watch.refused_naming(answer, 409, "conflict", "pools file").await?;
        let answer = target.api.delete(&format!("pools/{name}")).await?;
        watch.refused_naming(answer, 409, "conflict", "pools file").await?;
    }
    Ok(())
}

pub async fn a_pool_with_runners_is_not_deleted(target: &Target) -> Result<()> {
    let (pool, [FakeAgent { runner, .. }]) = target.idle_pool("in-use").await?;
    let path = format!("pools/{pool}");
    let watch = Watch::over(target, &[&pool]).await?;
    watch.refused(target.api.delete(&path).await?, 409, "conflict").await?;
    target.api.delete(&format!("runners/{runner}")).await?.expect(202)?;
    target.api.delete(&path).await?.expect(204)?;
    Ok(())
}

/// A claim that was accepted must not be forgotten with its pool.
pub async fn a_pool_that_claims_wait_for_is_not_deleted(target: &Target) -> Result<()> {
    let pool = target.metal_pool("awaited", json!({})).await?;
    target.api.provision("awaited", &pool, 1).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    watch.refused(target.api.delete(&format!("pools/{pool}")).await?, 409, "conflict").await?;
    target.api.release("awaited").await?;
    target.api.delete(&format!("pools/{pool}")).await?.expect(204)?;
    Ok(())
}

/// A pool's new rules are those of what comes; what is there goes on.
pub async fn a_pool_with_runners_can_be_changed(target: &Target) -> Result<()> {
    let (pool, agents) = target.idle_pool::<2>("smaller").await?;
    let mut settings = metal_settings();
    settings["max"] = json!(1);
    let changed = target.api.put(&format!("pools/{pool}"), settings).await?.expect(200)?;
    ensure!(changed["max"] == 1 && changed["used"] == 2 && changed["counts"]["idle"] == 2, "{changed}");
    let body = json!({"runner_id": target.name("one-too-many"), "pool": pool});
    target.api.post("runners", body).await?.refusal(409)?;
    ensure!(agents.len() == 2, "both live on");
    Ok(())
}

/// Where its machines are asked for and ended must not change under them.
pub async fn a_pool_with_runners_keeps_its_backend(target: &Target) -> Result<()> {
    let (pool, agents) = target.idle_pool::<2>("moved").await?;
    let path = format!("pools/{pool}");
    let watch = Watch::over(target, &[&pool]).await?;
    let local = json!({"backend": "local", "trusted": true, "max": 2});
    watch.refused_naming(target.api.put(&path, local.clone()).await?, 409, "conflict", "2 runners").await?;
    let plan = target.api.post(&format!("{path}/plan"), local.clone()).await?.expect(200)?;
    ensure!(plan["refused"].as_str().is_some_and(|why| why.contains("2 runners")), "{plan}");
    for agent in &agents {
        target.api.delete(&format!("runners/{}", agent.runner)).await?.expect(202)?;
    }
    let moved = target.api.put(&path, local).await?.expect(200)?;
    ensure!(moved["backend"] == "local" && moved["used"] == 0, "{moved}");
    Ok(())
}

pub async fn settings_that_cannot_hold_are_refused_by_name(target: &Target) -> Result<()> {
    let known = target.metal_pool("strict", json!({})).await?;
    let unknown = target.name("strict-new");
    let watch = Watch::over(target, &[&known]).await?;
    let with = |field: &str, value: Value| {
        let mut settings = metal_settings();
        settings[field] = value;
        settings
    };
    for (settings, named) in [
        (json!({}), "backend"),
        (json!({"backend": "cloud"}), "cloud"),
        (json!({"backend": "ec2"}), "ec2"),
        (json!({"backend": "bare_metal"}), "cleanup_cmd"),
        (with("dispatch", json!("lease")), "lease"),
        (with("dispatch", json!("push")), "push"),
        (with("clean", json!("replace")), "clean"),
        (with("clean", json!("reset")), "reset_cmd"),
        (with("max", json!(0)), "max"),
        (with("max", json!(1001)), "max"),
        (with("max", json!(-1)), "max"),
        (with("max", json!("9")), "max"),
        (with("max", json!(1.5)), "max"),
        (with("min_idle", json!(1)), "min_idle"),
        (with("idle_seconds", json!(0)), "idle"),
        (with("created_minutes", json!(50_000)), "created"),
        (with("heartbeat_seconds", json!(0)), "heartbeat"),
        (with("cpu", json!(0)), "cpu"),
        (with("usage", json!("cheap")), "cheap"),
        (with("idle_minute", json!(5)), "idle_minute"),
        (
            json!({"backend": "bare_metal", "cleanup_cmd": "true", "wait_minutes": 1, "wait_seconds": 60}),
            "wait",
        ),
        (json!(["bare_metal"]), "object"),
        (with("instance_type", json!("$(id)")), "instance_type"),
    ] {
        for name in [&known, &unknown] {
            let answer = target.api.put(&format!("pools/{name}"), settings.clone()).await?;
            watch.refused_naming(answer, 400, "invalid_request", named).await?;
        }
    }
    target.api.get(&format!("pools/{unknown}")).await?.refusal(404)?;
    Ok(())
}

pub async fn teams_see_pools_and_their_counts(target: &Target) -> Result<()> {
    let pool = target.metal_pool("seen", json!({})).await?;
    FakeAgent::idle(&target.api, &pool, &target.name("seen-1"), json!({})).await?;
    let seen = target.team_a.pool(&pool).await?;
    ensure!(seen["counts"]["idle"] == 1 && seen["used"] == 1, "{seen}");
    let all = target.team_b.get("pools").await?.expect(200)?;
    ensure!(all["pools"].as_array().is_some_and(|pools| pools.contains(&seen)), "{all}");
    Ok(())
}

async fn listed(target: &Target, name: &str) -> Result<Option<Value>> {
    let all = target.api.get("pools").await?.expect(200)?;
    let pools = all["pools"].as_array().context("pools")?;
    Ok(pools.iter().find(|pool| pool["pool"] == name).cloned())
}
