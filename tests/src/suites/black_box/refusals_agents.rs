//! Agents that may not any more: rotated or removed ones, and messages from an old life.

use super::target::text;
use super::{Target, Watch};
use crate::fakes::fake_agent::{FakeAgent, register, secret_of};
use anyhow::{Context, Result, ensure};
use motorpool_domain::text::steers;
use serde_json::json;

pub async fn refuse_10_an_old_token_is_void_after_rotation(target: &Target) -> Result<()> {
    let pool = target.metal_pool("rotated", json!({})).await?;
    let runner = target.name("rotated-1");
    let registered = register(&target.api, &pool, &runner, json!({})).await?;
    let old_secret = secret_of(&registered)?;
    let mut old = FakeAgent::new(&target.api, &runner);
    old.bootstrap(&old_secret).await?.expect(200)?;
    old.work_until("idle").await?;

    let rotated = target.api.post(&format!("runners/{runner}/token"), json!({})).await?.expect(200)?;
    let new_secret = secret_of(&rotated)?;
    ensure!(new_secret != old_secret && rotated["runner"] == runner.as_str(), "a new secret");
    let watch = Watch::over(target, &[&pool]).await?;
    watch.refused(old.sync().await?, 401, "unauthorized").await?;
    watch.refused(old.api.get("agent/self").await?, 401, "unauthorized").await?;
    watch.refused(old.bootstrap(&old_secret).await?, 401, "unauthorized").await?;

    let mut new = FakeAgent::new(&target.api, &runner);
    new.bootstrap(&new_secret).await?.expect(200)?;
    let told = new.step().await?;
    ensure!(told["state"] == "idle" && told["epoch"] == 2, "it goes on where it was: {told}");
    let own = new.api.get("agent/self").await?.expect(200)?;
    ensure!(
        own == json!({"runner": runner, "pool": pool, "epoch": 2, "state": "idle"}),
        "its token tells: {own}"
    );
    let watch = Watch::over(target, &[&pool]).await?;
    watch.refused(old.sync().await?, 401, "unauthorized").await?;
    watch.refused(old.bootstrap(&new_secret).await?, 403, "forbidden").await?;
    target.api.provision("rotated", &pool, 1).await?;
    new.work_until("running").await?;
    Ok(())
}

pub async fn refuse_10_a_removed_runner_is_told_to_end(target: &Target) -> Result<()> {
    let pool = target.metal_pool("gone", json!({})).await?;
    let runner = target.name("gone-1");
    let registered = register(&target.api, &pool, &runner, json!({})).await?;
    let secret = secret_of(&registered)?;
    let mut agent = FakeAgent::new(&target.api, &runner);
    agent.bootstrap(&secret).await?.expect(200)?;
    agent.work_until("idle").await?;
    target.api.delete(&format!("runners/{runner}")).await?.expect(202)?;
    target.runner_in(&runner, "terminated").await?;

    let watch = Watch::over(target, &[&pool]).await?;
    watch.refused(agent.sync().await?, 410, "gone").await?;
    let stranger = FakeAgent::new(&target.api, &runner);
    watch.refused(stranger.sync().await?, 401, "unauthorized").await?;
    watch.refused(stranger.bootstrap(&secret).await?, 403, "forbidden").await?;
    let rotation = target.api.post(&format!("runners/{runner}/token"), json!({})).await?;
    watch.refused(rotation, 409, "conflict").await?;
    watch.refused(target.api.post("runners/nobody/token", json!({})).await?, 404, "not_found").await?;

    // Under the same id a new machine joins; the old one's token and secret stay void.
    let next = FakeAgent::join(&target.api, &pool, &runner, json!({})).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    watch.refused(agent.sync().await?, 401, "unauthorized").await?;
    watch.refused(agent.bootstrap(&secret).await?, 401, "unauthorized").await?;
    let told = next.sync().await?.expect(200)?;
    ensure!(told["epoch"] == 3 && told["state"] == "created", "{told}");
    Ok(())
}

pub async fn refuse_10_a_removed_machine_that_never_joined_stays_out(target: &Target) -> Result<()> {
    let pool = target.metal_pool("never", json!({})).await?;
    let runner = target.name("never-1");
    let secret = secret_of(&register(&target.api, &pool, &runner, json!({})).await?)?;
    target.api.delete(&format!("runners/{runner}")).await?.expect(202)?;
    target.runner_in(&runner, "terminated").await?;
    let watch = Watch::over(target, &[&pool]).await?;
    let agent = FakeAgent::new(&target.api, &runner);
    watch.refused(agent.bootstrap(&secret).await?, 410, "gone").await?;
    watch.refused(agent.sync().await?, 401, "unauthorized").await?;
    Ok(())
}

/// Whatever an agent says of a life that is over, or not begun, nothing changes, and it is told the present one.
pub async fn refuse_11_another_epochs_message_changes_nothing(target: &Target) -> Result<()> {
    let (pool, [mut agent]) = target.idle_pool("epochs").await?;
    let claim = target.api.provision("epochs", &pool, 1).await?;
    agent.work_until("running").await?;
    target.api.release("epochs").await?;
    agent.work_until("resetting").await?;
    ensure!(agent.epoch == 3, "a new life");

    let watch = Watch::over(target, &[&pool]).await?;
    for epoch in [0, 1, 2, 4, u64::MAX] {
        let mut lie = agent.report();
        lie["epoch"] = json!(epoch);
        lie["results"] = json!([
            {"task": "3-cleanup-1", "outcome": "done"},
            {"task": "2-deregister-1", "outcome": "done"},
            {"task": format!("{epoch}-cleanup-1"), "outcome": "done"},
        ]);
        lie["boot_id"] = json!("another-boot");
        for registered in [json!(null), claim["label"].clone()] {
            lie["registered"] = registered;
            let told = agent.say(lie.clone()).await?.expect(200)?;
            ensure!(told["epoch"] == 3 && told["state"] == "resetting", "{told}");
            watch.unchanged().await?;
        }
    }
    // Nor does the old life's registration make the next holder's runner ready.
    agent.work_until("idle").await?;
    let next = target.api.provision("next", &pool, 1).await?;
    let mut lie = agent.report();
    lie["epoch"] = json!(1);
    lie["registered"] = next["label"].clone();
    let watch = Watch::over(target, &[&pool]).await?;
    let told = agent.say(lie).await?.expect(200)?;
    ensure!(told["epoch"] == 3 && told["state"] == "claimed", "{told}");
    watch.unchanged().await?;
    ensure!(target.api.claim(text(&next, "claim")).await?["state"] == "pending", "{next}");
    Ok(())
}

/// A label that is not its claim's, and results of tasks that it was never given.
pub async fn refuse_11_what_was_never_asked_for_counts_for_nothing(target: &Target) -> Result<()> {
    let (pool, mut agents) = target.idle_pool::<2>("never-asked").await?;
    let first = target.api.provision("first", &pool, 1).await?;
    let second = target.api.provision("second", &pool, 1).await?;
    let taken = super::target::only_member(&first)?;
    agents.sort_by_key(|agent| agent.runner != taken);
    let agent = agents.first_mut().context("an agent")?;
    let watch = Watch::over(target, &[&pool]).await?;
    let mut lie = agent.report();
    lie["registered"] = second["label"].clone();
    lie["results"] = json!([
        {"task": "1-cleanup-1", "outcome": "done"},
        {"task": "2-cleanup-1", "outcome": "done"},
        {"task": "1-register-2", "outcome": {"failed": {"why": "x"}}},
    ]);
    let told = agent.say(lie).await?.expect(200)?;
    ensure!(told["state"] == "claimed" && told["task"]["kind"]["deregister"].is_object(), "{told}");
    watch.unchanged().await?;
    Ok(())
}

/// What an agent says at length is not kept at length.
pub async fn refuse_18_a_long_report_is_cut(target: &Target) -> Result<()> {
    let (pool, [mut agent]) = target.idle_pool("verbose").await?;
    target.api.provision("verbose", &pool, 1).await?;
    agent.work_until("running").await?;
    target.api.release("verbose").await?;
    agent.work_until("resetting").await?;
    let long = "x".repeat(200_000);
    agent.fail(&long).await?;
    let told = agent.sync().await?.expect(200)?;
    ensure!(told["state"] == "resetting", "{told}");
    let seen = target.api.runner(&agent.runner).await?;
    ensure!(text(&seen, "why").len() < 10_000, "{} bytes are kept", text(&seen, "why").len());
    let audit = target.api.get(&format!("audit?subject={}", agent.runner)).await?.expect(200)?;
    ensure!(audit.to_string().len() < 50_000, "the log keeps {} bytes", audit.to_string().len());
    let watch = Watch::over(target, &[&pool]).await?;
    let mut report = agent.report();
    report["results"] = json!([]);
    report["boot_id"] = json!("b".repeat(100_000));
    watch.refused_naming(agent.say(report).await?, 400, "invalid_request", "boot_id").await?;
    Ok(())
}

/// What an agent says reaches people's terminals; nothing in it moves a cursor there, or turns text around.
pub async fn refuse_25_what_steers_a_terminal_is_not_kept(target: &Target) -> Result<()> {
    let steering = "\u{1b}[2J\u{7f}\u{9b}\u{202e}x";
    let (pool, [mut agent]) = target.idle_pool("steering").await?;
    target.api.provision("steering", &pool, 1).await?;
    agent.work_until("running").await?;
    target.api.release("steering").await?;
    agent.work_until("resetting").await?;
    agent.fail(steering).await?;
    let mut report = agent.report();
    report["program_version"] = json!(steering);
    agent.say(report).await?.expect(200)?;
    for path in [format!("runners/{}", agent.runner), format!("audit?subject={}", agent.runner)] {
        let seen = target.api.get(&path).await?.expect(200)?.to_string();
        ensure!(seen.contains("␛[2J␡��x"), "{path}: {seen}");
        ensure!(!seen.contains("\\u00") && !seen.chars().any(steers), "{path}: {seen:?}");
    }
    let watch = Watch::over(target, &[&pool]).await?;
    let mut report = agent.report();
    report["boot_id"] = json!(steering);
    watch.refused_naming(agent.say(report).await?, 400, "invalid_request", "boot_id").await?;
    Ok(())
}
