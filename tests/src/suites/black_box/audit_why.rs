//! The audit log and `why`: who, what, from, to and why, in order, in plain words.

use super::Target;
use super::target::{only_member, text};
use crate::fakes::fake_agent::FakeAgent;
use crate::harness::story::audit;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// A runner's log tells its whole life, the newest first, page by page.
pub async fn a_runners_log_tells_its_life(target: &Target) -> Result<()> {
    let (agent, claim) = lived(target, "log").await?;
    let runner = agent.runner.as_str();
    let path = format!("audit?subject={runner}");
    let page = target.api.get(&path).await?.expect(200)?;
    ensure!(page["subject"] == runner && page["next"].is_null(), "{page}");
    let mut entries = page["entries"].as_array().context("entries")?.clone();
    ensure!(is_sorted_by_time(entries.iter().rev()), "not the newest first: {page}");
    for entry in &entries {
        ensure!(entry["at"].is_u64() && !entry["who"].is_null(), "{entry}");
        ensure!(!text(entry, "what").is_empty() && !text(entry, "why").is_empty(), "{entry}");
    }
    entries.reverse();
    let moves: Vec<(&str, &str, String)> = entries
        .iter()
        .filter(|entry| entry["what"] == "transition" && entry["from"] != entry["to"])
        .map(|entry| (text(entry, "from"), text(entry, "to"), who(entry)))
        .collect();
    let agent_itself = format!("runner {runner}");
    let by = |who: &str| who.to_owned();
    let expected = [
        ("created@1", "resetting@2", by(&agent_itself)),
        ("resetting@2", "idle@2", by(&agent_itself)),
        ("idle@2", "claimed@2", by("owner team-a")),
        ("claimed@2", "running@2", by(&agent_itself)),
        ("running@2", "releasing@2", by("control")),
        ("releasing@2", "resetting@3", by(&agent_itself)),
        ("resetting@3", "idle@3", by(&agent_itself)),
    ];
    ensure!(moves == expected, "{moves:#?}");
    let first = entries.first().context("an entry")?;
    ensure!(first["what"] == "registered" && who(first) == "owner operator", "{first}");
    ensure!(entries.iter().any(|entry| entry["what"] == "bootstrap" && who(entry) == agent_itself), "{page}");
    let taken = entries.iter().find(|entry| entry["to"] == "claimed@2").context("taken")?;
    ensure!(text(taken, "why").contains(&claim), "{taken}");

    let mut paged = Vec::new();
    let mut after = String::new();
    loop {
        let page = target.api.get(&format!("{path}&limit=3{after}")).await?.expect(200)?;
        paged.extend(page["entries"].as_array().context("entries")?.clone());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    paged.reverse();
    ensure!(paged == entries, "the pages tell {paged:#?}, the whole {entries:#?}");
    Ok(())
}

/// A claim's story, the oldest first, and how it ended.
pub async fn why_tells_a_claims_story(target: &Target) -> Result<()> {
    let (_, claim) = lived(target, "story").await?;
    let path = format!("claims/{claim}/why");
    let story = target.team_a.get(&path).await?.expect(200)?;
    ensure!(story["claim"] == claim.as_str() && story["state"] == "released", "{story}");
    ensure!(text(&story, "why").contains("released by team-a"), "{story}");
    let history = story["history"].as_array().context("a history")?;
    ensure!(is_sorted_by_time(history.iter()), "not the oldest first: {story}");
    let steps: Vec<(&str, &str, &str, String)> = history
        .iter()
        .map(|entry| (text(entry, "what"), text(entry, "from"), text(entry, "to"), who(entry)))
        .collect();
    let team = || "owner team-a".to_owned();
    let control = || "control".to_owned();
    let expected = [
        ("opened", "", "pending", team()),
        ("took an idle runner", "pending", "pending", team()),
        ("became ready", "pending", "ready", control()),
        ("released", "ready", "released", team()),
    ];
    ensure!(steps == expected, "{steps:#?}");
    ensure!(history.iter().all(|entry| !text(entry, "why").is_empty()), "{story}");
    ensure!(
        target.api.get(&path).await?.expect(200)?["history"] == story["history"],
        "the operator sees it too"
    );
    let audit = target.api.get(&format!("audit?subject={claim}")).await?.expect(200)?;
    let mut entries = audit["entries"].as_array().context("entries")?.clone();
    entries.reverse();
    ensure!(entries == *history, "the log tells the same: {audit}");
    Ok(())
}

/// Why a claim waits, for each of its runners and for what it lacks.
pub async fn why_tells_what_a_claim_waits_for(target: &Target) -> Result<()> {
    let (pool, [mut agent]) = target.idle_pool("lacks").await?;
    let claim = target.api.provision("lacks", &pool, 2).await?;
    let path = format!("claims/{}/why", text(&claim, "claim"));
    let story = target.api.get(&path).await?.expect(200)?;
    ensure!(story["state"] == "pending", "{story}");
    ensure!(
        text(&story, "why").contains("0 of 2 ready") && text(&story, "why").contains("no idle runner"),
        "{story}"
    );
    ensure!(text_of_first(&story, "runners").contains(&agent.runner), "{story}");
    ensure!(text_of_first(&story, "runners").contains("claimed"), "{story}");
    agent.work_until("running").await?;
    let story = target.api.get(&path).await?.expect(200)?;
    ensure!(text(&story, "why").contains("1 of 2 ready"), "{story}");
    ensure!(text_of_first(&story, "runners").contains("running"), "{story}");
    Ok(())
}

/// What a runner does for its next holder is not the last one's to know.
pub async fn refuse_09_why_tells_nothing_of_the_next_holder(target: &Target) -> Result<()> {
    let (mut agent, claim) = lived(target, "next-holder").await?;
    let pool = text(&target.api.runner(&agent.runner).await?, "pool").to_owned();
    target.team_b.provision("next-holder", &pool, 1).await?;
    agent.work_until("running").await?;
    for path in [format!("claims/{claim}/why"), format!("claims/{claim}")] {
        let told = target.team_a.get(&path).await?.expect(200)?;
        ensure!(told["state"] == "released" && told["runners"] == json!([]), "{path}: {told}");
    }
    Ok(())
}

pub async fn a_pools_log_tells_who_defined_it(target: &Target) -> Result<()> {
    let pool = target.metal_pool("defined", json!({})).await?;
    target.metal_pool("defined", json!({"max": 3})).await?;
    let audit = target.api.get(&format!("audit?subject=pool:{pool}")).await?.expect(200)?;
    let entries = audit["entries"].as_array().context("entries")?;
    let whats: Vec<&str> = entries.iter().map(|entry| text(entry, "what")).collect();
    ensure!(whats == ["pool changed", "pool defined"], "{audit}");
    ensure!(entries.iter().all(|entry| who(entry) == "owner operator"), "{audit}");
    Ok(())
}

/// The operator reads of a job's checkpoint and of its machine how each step came out, and how long it took.
pub async fn what_can_fail_has_a_result_and_a_duration(target: &Target) -> Result<()> {
    let settings = json!({"dispatch": "hook", "clean": "reset", "reset_cmd": "true"});
    let pool = target.metal_pool("log-job", settings).await?;
    let runner = format!("{pool}-1");
    let mut agent = FakeAgent::idle(&target.api, &pool, &runner, json!({})).await?;
    let made = agent.api.post("checkpoint/create", json!({"job_id": "1"})).await?.expect(201)?;
    let name = text(&made, "name");
    let end = json!({"checkpoint_name": name, "status": "failure"});
    agent.api.post("checkpoint/finalize", end).await?.expect(202)?;
    agent.work_until("idle").await?;
    // Another word of it is no news: the checkpoint's log tells of each step once.
    let told = audit(&target.api, &format!("checkpoint:{name}")).await?;
    let steps: Vec<(&str, &str)> =
        told.iter().rev().map(|entry| (text(entry, "what"), text(entry, "to"))).collect();
    let expected = [("created", "created"), ("finalized", "finalize_queued"), ("ended", "reset")];
    ensure!(steps == expected, "{told:#?}");
    let of_runner = audit(&target.api, &runner).await?;
    let cleaned = of_runner.iter().find(|entry| entry["to"] == "idle@3").context("it was cleaned")?;
    for entry in told.iter().chain([cleaned]) {
        ensure!(entry["result"] == "ok" && entry["duration_ms"].is_u64(), "{entry}");
    }
    let began = of_runner.iter().find(|entry| entry["to"] == "running@2").context("its job began")?;
    ensure!(began.get("result").is_none() && began.get("duration_ms").is_none(), "{began}");
    Ok(())
}

pub async fn a_log_is_asked_for_by_subject(target: &Target) -> Result<()> {
    target.api.get("audit").await?.refusal(400)?;
    for bad in ["", "$(x)", "pool:", "pool:..%2f", "a%00b", "runner%20x", "checkpoint:job-1", "claim:c-1"] {
        target.api.get(&format!("audit?subject={bad}")).await?.refusal(400)?;
    }
    for query in ["limit=0", "limit=501", "after=garbage", "since=1"] {
        target.api.get(&format!("audit?subject=pool:metal&{query}")).await?.refusal(400)?;
    }
    // Whom nobody has heard of has no log; that is no mistake of who asks.
    let nobody = target.api.get("audit?subject=nobody-ever").await?.expect(200)?;
    ensure!(nobody["entries"] == json!([]) && nobody["next"].is_null(), "{nobody}");
    target.api.get("claims/c-never/why").await?.refusal(404)?;
    Ok(())
}

/// A runner that was registered, held once by team A, and cleaned; with the claim that held it.
async fn lived(target: &Target, name: &str) -> Result<(FakeAgent, String)> {
    let pool = target.metal_pool(name, json!({})).await?;
    let mut agent =
        FakeAgent::idle(&target.api, &pool, &target.name(&format!("{name}-1")), json!({})).await?;
    let claim = target.team_a.provision(name, &pool, 1).await?;
    ensure!(only_member(&claim)? == agent.runner, "{claim}");
    agent.work_until("running").await?;
    target.team_a.release(name).await?;
    agent.work_until("idle").await?;
    Ok((agent, text(&claim, "claim").to_owned()))
}

fn is_sorted_by_time<'a>(entries: impl Iterator<Item = &'a Value>) -> bool {
    entries.map(|entry| entry["at"].as_u64()).is_sorted()
}

/// `owner NAME`, `runner ID`, `refresh` or `control`.
fn who(entry: &Value) -> String {
    match &entry["who"] {
        Value::Object(who) => {
            let named =
                who.iter().next().map(|(kind, name)| format!("{kind} {}", name.as_str().unwrap_or_default()));
            named.unwrap_or_default()
        }
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}

fn text_of_first<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field][0].as_str().unwrap_or_default()
}
