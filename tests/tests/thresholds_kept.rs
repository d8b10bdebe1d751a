//! Each state's threshold, and silence, on machines that are kept: refresh alone cleans or quarantines them, and ends none. Their
//! agents are scripted: they are silent when the test is. Every pass of refresh is one that the test asked for.

use anyhow::{Context, Result, ensure};
use motorpool_tests::fakes::fake_agent::{FakeAgent, register, secret_of};
use motorpool_tests::harness::api::Api;
use motorpool_tests::harness::serve::Serve;
use motorpool_tests::harness::story::{
    audit, must_have_stepped, refreshed_to, refreshed_until, state, steps_by_refresh, text, used,
};
use motorpool_tests::harness::wait::until;
use serde_json::{Value, json};

/// One pool `p` of the operator's own machines with short heartbeats, and what the test adds to it.
fn serve(more: &str) -> Result<Serve> {
    Serve::start(&format!(
        "refresh_seconds = 3600\nsweep_seconds = 86400\n\
         [pools.p]\nbackend = \"bare_metal\"\ncleanup_cmd = \"true\"\nheartbeat_seconds = 1\n{more}"
    ))
}

/// A machine that a claim holds, which is ready.
async fn running(api: &Api) -> Result<(FakeAgent, String)> {
    let mut agent = FakeAgent::idle(api, "p", "m-1", json!({})).await?;
    let claim = text(&api.provision("w", "p", 1).await?, "claim")?;
    agent.work_until("running").await?;
    let seen = api.claim(&claim).await?;
    ensure!(seen["state"] == "ready", "{seen}");
    Ok((agent, claim))
}

/// It comes back to where it is wanted, and its slot was its own all the time.
async fn comes_back(api: &Api, agent: &mut FakeAgent, epoch: u64) -> Result<()> {
    agent.work_until("idle").await?;
    let seen = api.runner(&agent.runner).await?;
    ensure!(seen["epoch"] == epoch && seen["proof"] == "its cleanup succeeded", "{seen}");
    ensure!(used(api, "p").await? == 1, "its slot is gone");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn created_is_terminated_and_its_agent_comes_too_late() -> Result<()> {
    let serve = serve("created_seconds = 1")?;
    let api = serve.api();
    let secret = secret_of(&register(api, "p", "m-1", json!({})).await?)?;
    refreshed_to(api, "m-1", "terminated").await?;
    let why = "it did not become ready in time: the agent on m-1 never called; its log or console says why, and it must reach the control plane's address";
    must_have_stepped(api, "m-1", "created@1", "terminating@1", why).await?;
    ensure!(used(api, "p").await? == 0, "the slot was not given back");
    let (code, message) = FakeAgent::new(api, "m-1").bootstrap(&secret).await?.refusal(410)?;
    ensure!(code == "gone", "{code}: {message}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_and_silent_is_quarantined_until_a_person_releases_it() -> Result<()> {
    let serve = serve("")?;
    let api = serve.api();
    let mut agent = FakeAgent::idle(api, "p", "m-1", json!({})).await?;
    refreshed_to(api, "m-1", "quarantined").await?;
    must_have_stepped(api, "m-1", "idle@2", "quarantined@2", "its agent fell silent while idle").await?;

    // It is heard again, and stays where it is: a person must look.
    let answer = agent.step().await?;
    ensure!(
        answer["state"] == "quarantined" && answer["task"].is_null() && answer["end"] == false,
        "{answer}"
    );
    api.post("refresh?sweep=now", json!({})).await?.expect(200)?;
    ensure!(state(api, "m-1").await? == "quarantined" && used(api, "p").await? == 1);
    let claim = api.post("claim", json!({"workflow": "w", "pool": "p"})).await?;
    ensure!(claim.status == 404, "a quarantined runner was claimed: {claim:?}");

    api.post("runners/m-1/release", json!({})).await?.expect(202)?;
    ensure!(state(api, "m-1").await? == "resetting");
    comes_back(api, &mut agent, 3).await
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_stays_at_its_threshold_while_it_is_heard_and_is_quarantined_when_it_is_not() -> Result<()> {
    let serve = serve("idle_seconds = 1")?;
    let api = serve.api();
    let agent = FakeAgent::idle(api, "p", "m-1", json!({})).await?;
    let stayed = async || {
        agent.sync().await?.expect(200)?;
        let steps = steps_by_refresh(api, "m-1", "idle@2", "idle@2", "still wanted in the pool").await?;
        Ok((steps >= 3).then_some(()))
    };
    refreshed_until(api, "it stays beyond three thresholds", stayed).await?;
    ensure!(state(api, "m-1").await? == "idle", "{}", api.runner("m-1").await?);
    // Each pass finds its threshold passed: that it is still wanted must not hide that nobody is there.
    until("it is quarantined", async || {
        let seen = api.runner("m-1").await?;
        if seen["threshold_in_ms"] == 0 {
            api.refresh().await?;
        }
        Ok((seen["state"] == "quarantined").then_some(()))
    })
    .await?;
    must_have_stepped(api, "m-1", "idle@2", "quarantined@2", "its agent fell silent while idle").await
}

#[tokio::test(flavor = "multi_thread")]
async fn claimed_is_reset_and_its_claim_waits_for_another() -> Result<()> {
    let serve = serve("claimed_seconds = 4")?;
    let api = serve.api();
    let mut agent = FakeAgent::idle(api, "p", "m-1", json!({})).await?;
    let claim = text(&api.provision("w", "p", 1).await?, "claim")?;
    ensure!(state(api, "m-1").await? == "claimed");
    refreshed_to(api, "m-1", "resetting").await?;
    must_have_stepped(api, "m-1", "claimed@2", "resetting@3", "it did not register in time").await?;
    let entries = audit(api, &claim).await?;
    let lost = |entry: &Value| entry["what"] == "lost runners";
    ensure!(entries.iter().any(lost), "the claim does not know: {entries:?}");

    // Clean again, it is the first that the claim gets.
    agent.work_until("running").await?;
    let seen = api.claim(&claim).await?;
    ensure!(seen["state"] == "ready" && seen["runners"][0]["epoch"] == 3, "{seen}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn running_is_reset_with_the_end_of_its_claim() -> Result<()> {
    let serve = serve("max_runtime_seconds = 5")?;
    let api = serve.api();
    let (mut agent, claim) = running(api).await?;
    refreshed_to(api, "m-1", "resetting").await?;
    must_have_stepped(api, "m-1", "running@2", "resetting@3", "its holder's time was over").await?;
    let seen = api.claim(&claim).await?;
    ensure!(seen["state"] == "released" && seen["why"] == "its time was over", "{seen}");

    // What it is still registered for is the first thing that the agent must undo.
    let answer = agent.step().await?;
    ensure!(answer["epoch"] == 3 && !answer["task"]["kind"]["deregister"].is_null(), "{answer}");
    comes_back(api, &mut agent, 3).await
}

#[tokio::test(flavor = "multi_thread")]
async fn running_and_silent_waits_for_its_threshold() -> Result<()> {
    let serve = serve("")?;
    let api = serve.api();
    let (mut agent, claim) = running(api).await?;
    // By then it is silent, and a pass has looked.
    refreshed_until(api, "it is silent", async || {
        Ok(api.runner("m-1").await?["seen_ms_ago"].as_u64().filter(|ago| *ago > 6_000))
    })
    .await?;
    ensure!(state(api, "m-1").await? == "running", "{}", api.runner("m-1").await?);
    let answer = agent.step().await?;
    ensure!(answer["state"] == "running" && answer["task"].is_null(), "{answer}");
    let seen = api.claim(&claim).await?;
    ensure!(seen["state"] == "ready" && seen["short"] == 0, "{seen}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn releasing_is_quarantined() -> Result<()> {
    let serve = serve("releasing_seconds = 2")?;
    let api = serve.api();
    let (mut agent, _) = running(api).await?;
    api.release("w").await?;
    ensure!(state(api, "m-1").await? == "releasing");
    refreshed_to(api, "m-1", "quarantined").await?;
    let why = "it did not deregister in time";
    must_have_stepped(api, "m-1", "releasing@2", "quarantined@2", why).await?;
    api.post("runners/m-1/release", json!({})).await?.expect(202)?;
    comes_back(api, &mut agent, 3).await
}

#[tokio::test(flavor = "multi_thread")]
async fn resetting_is_tried_again_with_backoff_then_quarantined() -> Result<()> {
    let serve = serve("resetting_seconds = 1")?;
    let api = serve.api();
    let (mut agent, _) = running(api).await?;
    api.release("w").await?;
    agent.work_until("resetting").await?;
    refreshed_to(api, "m-1", "quarantined").await?;
    let again = "cleaning again: it took too long";
    let retries = steps_by_refresh(api, "m-1", "resetting@3", "resetting@3", again).await?;
    ensure!(retries == 2, "{:?}", audit(api, "m-1").await?);
    let why = "it could not be cleaned in 3 attempts: it took too long";
    must_have_stepped(api, "m-1", "resetting@3", "quarantined@3", why).await?;

    // Each attempt has its own time, and a pause before it that doubles.
    let mut at: Vec<u64> = audit(api, "m-1")
        .await?
        .iter()
        .filter(|entry| entry["to"] == "resetting@3" || entry["from"] == "resetting@3")
        .map(|entry| entry["at"].as_u64().context("no time"))
        .collect::<Result<_>>()?;
    at.sort_unstable();
    let spans: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    ensure!(spans.len() == 3 && spans[0] >= 1_000 && spans[1] >= 2_000 && spans[2] >= 3_000, "{spans:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_08_after_its_removal_a_heartbeat_is_told_that_it_is_gone() -> Result<()> {
    let serve = serve("")?;
    let api = serve.api();
    let (agent, claim) = running(api).await?;
    api.delete("runners/m-1").await?.refusal(409)?;
    api.delete("runners/m-1?force=true").await?.expect(202)?;
    ensure!(state(api, "m-1").await? == "terminated" && used(api, "p").await? == 0);
    let before = api.runner("m-1").await?;
    for _ in 0..3 {
        let (code, message) = agent.sync().await?.refusal(410)?;
        ensure!(code == "gone", "{code}: {message}");
    }
    ensure!(api.runner("m-1").await?["seen_ms_ago"].as_u64() >= before["seen_ms_ago"].as_u64());
    let seen = api.claim(&claim).await?;
    ensure!(seen["state"] == "ready" && seen["short"] == 1, "{seen}");

    // Registered anew, it begins another life, and the claim gets it.
    let mut again = FakeAgent::join(api, "p", "m-1", json!({})).await?;
    again.epoch = 3;
    again.work_until("running").await?;
    agent.sync().await?.refusal(401)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quarantined_machine_is_removed_by_a_person() -> Result<()> {
    let serve = serve("")?;
    let api = serve.api();
    let agent = FakeAgent::idle(api, "p", "m-1", json!({})).await?;
    refreshed_to(api, "m-1", "quarantined").await?;
    api.delete("runners/m-1").await?.expect(202)?;
    let seen = api.runner("m-1").await?;
    ensure!(seen["state"] == "terminated" && seen["why"] == "an operator removed it", "{seen}");
    ensure!(used(api, "p").await? == 0, "the slot was not given back");
    agent.sync().await?.refusal(410)?;
    Ok(())
}
