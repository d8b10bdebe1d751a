//! The registry of machines: tokens that an operator hands out, for clients that speak HTTP and nothing else; what is said of a machine and changed;
//! removed ones, and those that come back.

use super::target::text;
use super::{Target, Watch};
use crate::fakes::fake_agent::{FakeAgent, register, secret_of, sha256_hex};
use crate::harness::api::Api;
use crate::harness::story::audit;
use crate::harness::wait::until;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// A pool whose CI system hands out jobs, and whose machines nobody need touch in between.
async fn keeping(target: &Target, name: &str, more: Value) -> Result<String> {
    let mut settings =
        json!({"dispatch": "hook", "clean": "keep", "cleanup_cmd": null, "heartbeat_seconds": 60});
    if let (Value::Object(settings), Value::Object(more)) = (&mut settings, more) {
        settings.extend(more);
    }
    target.metal_pool(name, settings).await
}

/// A machine with a fixed token, and who has that.
async fn with_token(target: &Target, pool: &str, runner: &str) -> Result<(Api, String)> {
    let registered = register(&target.api, pool, runner, json!({"credential": "token"})).await?;
    let token = text(&registered, "token").to_owned();
    ensure!(token.starts_with("mp_runner_") && token.len() > 40, "{registered}");
    Ok((target.as_who(Some(&token)), token))
}

async fn ready(api: &Api) -> Result<Value> {
    api.get("runner/readiness").await?.expect(200)
}

/// The job's checkpoint, once the machine has had its pause after the last.
async fn created(api: &Api, job: &str) -> Result<String> {
    until("the machine takes a job", async || {
        let answer = api.post("checkpoint/create", json!({"job_id": job})).await?;
        if answer.status == 429 {
            return Ok(None);
        }
        Ok(Some(text(&answer.expect(201)?, "name").to_owned()))
    })
    .await
}

fn listed(page: &Value) -> Vec<String> {
    let runners = page["runners"].as_array().into_iter().flatten();
    runners.map(|runner| text(runner, "runner").to_owned()).collect()
}

pub async fn a_machine_registered_with_a_token_is_handed_it_once(target: &Target) -> Result<()> {
    let pool = keeping(target, "tokens", json!({})).await?;
    let runner = format!("{pool}-1");
    let body = json!({"credential": "token", "cpu": 10, "ci_runner": "42", "reset_cmd": "reset.sh"});
    let registered = register(&target.api, &pool, &runner, body).await?;
    let token = text(&registered, "token").to_owned();
    ensure!(token.starts_with("mp_runner_"), "{registered}");
    ensure!(registered.get("bootstrap_secret").is_none() && registered.get("why").is_none(), "{registered}");
    ensure!(registered["valid_for_ms"].is_null(), "it is good for as long as its runner: {registered}");

    // Its registration was its machine's arrival, and nothing is to be done to it.
    let seen = target.api.runner(&runner).await?;
    ensure!(seen["state"] == "idle" && seen["epoch"] == 2 && seen["active"] == true, "{seen}");
    ensure!(seen["proof"] == "the pool asks for no proof" && seen["credential"] == "token", "{seen}");
    ensure!(seen["ci_runner"] == "42" && seen["reset_cmd"] == "reset.sh" && seen["cpu"] == 10, "{seen}");
    let own = target.as_who(Some(&token)).get("agent/self").await?.expect(200)?;
    ensure!(own == json!({"runner": runner, "pool": pool, "epoch": 2, "state": "idle"}), "{own}");

    let hash = sha256_hex(&token);
    for path in [
        format!("runners/{runner}"),
        format!("runners?pool={pool}"),
        format!("runners?pool={pool}&include_inactive=true"),
        "runners".to_owned(),
        format!("audit?subject={runner}"),
        format!("audit?subject=pool:{pool}"),
        format!("pools/{pool}"),
        "/metrics".to_owned(),
    ] {
        let answer = target.api.get(&path).await?.expect(200)?.to_string();
        ensure!(!answer.contains(&token) && !answer.contains(&hash), "{path} shows the token");
    }
    Ok(())
}

pub async fn a_token_is_for_who_needs_no_agent(target: &Target) -> Result<()> {
    let claims = target.metal_pool("token-claims", json!({})).await?;
    let watch = Watch::over(target, &[&claims]).await?;
    let body = json!({"runner_id": format!("{claims}-1"), "pool": claims, "credential": "token"});
    watch.refused_naming(target.api.post("runners", body).await?, 400, "invalid_request", "claim").await?;
    for bad in [json!("none"), json!(1), json!(null), json!("Token")] {
        let body = json!({"runner_id": format!("{claims}-1"), "pool": claims, "credential": bad});
        watch.refused(target.api.post("runners", body).await?, 400, "invalid_request").await?;
    }

    // Where something must be run on its machine, it waits for who can, and says so.
    let pool = keeping(target, "token-reset", json!({"clean": "reset", "reset_cmd": "true"})).await?;
    let runner = format!("{pool}-1");
    let registered = register(&target.api, &pool, &runner, json!({"credential": "token"})).await?;
    ensure!(text(&registered, "why").contains("connection"), "{registered}");
    let api = target.as_who(Some(text(&registered, "token")));
    ensure!(ready(&api).await?["ready"] == false);
    let (_, message) = api.post("checkpoint/create", json!({"job_id": "1"})).await?.refusal(409)?;
    ensure!(message.contains("created"), "{message}");
    let seen = target.api.runner(&runner).await?;
    ensure!(seen["state"] == "created" && text(&seen, "why").contains("connection"), "{seen}");
    Ok(())
}

pub async fn an_active_runner_is_not_registered_again(target: &Target) -> Result<()> {
    let pool = keeping(target, "token-twice", json!({})).await?;
    let runner = format!("{pool}-1");
    let (api, _) = with_token(target, &pool, &runner).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    for credential in ["token", "bootstrap"] {
        let body = json!({"runner_id": runner, "pool": pool, "credential": credential, "cpu": 64});
        watch.refused_naming(target.api.post("runners", body).await?, 409, "conflict", &runner).await?;
    }
    ensure!(ready(&api).await?["ready"] == true, "its token is good still");
    Ok(())
}

/// By nothing but the calls of its hooks a runner goes from idle to idle.
pub async fn a_whole_job_over_plain_http(target: &Target) -> Result<()> {
    let pool = keeping(target, "plain-http", json!({})).await?;
    let runner = format!("{pool}-1");
    let (api, _) = with_token(target, &pool, &runner).await?;
    ensure!(ready(&api).await? == json!({"runner_id": runner, "ready": true, "state": "idle"}));
    for (job, status, state, epoch) in [("1", "success", "deleted", 3), ("2", "failure", "reset", 4)] {
        let name = created(&api, job).await?;
        ensure!(created(&api, job).await? == name, "the same job again");
        ensure!(ready(&api).await?["state"] == "running");
        let (_, message) = api.post("checkpoint/create", json!({"job_id": "other"})).await?.refusal(409)?;
        ensure!(message.contains("active checkpoint already exists"), "{message}");
        let end = json!({"checkpoint_name": name, "status": status});
        let queued = api.post("checkpoint/finalize", end.clone()).await?.expect(202)?;
        ensure!(queued == json!({"detail": "Finalize queued", "checkpoint_name": name}), "{queued}");
        let told = ready(&api).await?;
        ensure!(told["state"] == "idle", "{told}");
        // Whoever attends to machines may have come first, and be about to write it down.
        let shown = until("its checkpoint is over", async || {
            let shown = api.get(&format!("checkpoint/status/{name}")).await?.expect(200)?;
            Ok((shown["state"] != "finalize_queued").then_some(shown))
        })
        .await?;
        ensure!(shown["state"] == state && shown["finalize_source"] == "hook", "{shown}");
        let again = api.post("checkpoint/finalize", end).await?.expect(202)?;
        ensure!(again["detail"] == "Already finalized" && again["state"] == state, "{again}");
        let seen = target.api.runner(&runner).await?;
        ensure!(seen["state"] == "idle" && seen["epoch"] == epoch && seen["seen_ms_ago"].is_u64(), "{seen}");
    }
    let states: Vec<String> =
        audit(&target.api, &runner).await?.iter().map(|entry| text(entry, "to").to_owned()).collect();
    for state in ["running@2", "releasing@2", "resetting@3", "idle@3", "running@3", "idle@4"] {
        ensure!(states.iter().any(|to| to == state), "{state} is not in {states:?}");
    }
    Ok(())
}

/// Nobody of its own says that its job has ended, and it is idle all the same once somebody has.
pub async fn a_job_whose_end_others_tell_leaves_an_idle_runner(target: &Target) -> Result<()> {
    let pool = keeping(target, "plain-forgotten", json!({"checkpoint_seconds": 1})).await?;
    let runner = format!("{pool}-1");
    let (api, _) = with_token(target, &pool, &runner).await?;
    let name = created(&api, "1").await?;
    until("it is idle again", async || {
        target.api.refresh().await?;
        let seen = target.api.runner(&runner).await?;
        Ok((seen["state"] == "idle" && seen["epoch"] == 3).then_some(()))
    })
    .await?;
    until("its checkpoint is over", async || {
        let shown = api.get(&format!("checkpoint/status/{name}")).await?.expect(200)?;
        Ok((shown["state"] == "gc_reset").then_some(()))
    })
    .await
}

pub async fn removed_runners_are_listed_where_they_are_asked_for(target: &Target) -> Result<()> {
    let pool = keeping(target, "inactive", json!({})).await?;
    let [stays, goes] = [1, 2].map(|number| format!("{pool}-{number}"));
    for runner in [&stays, &goes] {
        with_token(target, &pool, runner).await?;
    }
    let removed = target.api.delete(&format!("runners/{goes}")).await?.expect(202)?;
    ensure!(removed["runner"] == goes.as_str(), "{removed}");
    let gone = target.runner_in(&goes, "terminated").await?;
    ensure!(gone["active"] == false, "it is shown still: {gone}");
    let list = async |query: &str| target.api.get(&format!("runners?pool={pool}{query}")).await?.expect(200);
    ensure!(listed(&list("").await?) == std::slice::from_ref(&stays));
    ensure!(listed(&list("&include_inactive=false").await?) == std::slice::from_ref(&stays));
    let all = list("&include_inactive=true").await?;
    ensure!(listed(&all) == [stays.clone(), goes.clone()] && all["next"].is_null(), "{all}");
    ensure!(all["runners"][0]["active"] == true && all["runners"][1]["active"] == false, "{all}");
    ensure!(listed(&list("&include_inactive=true&state=idle").await?) == std::slice::from_ref(&stays));

    let mut paged = Vec::new();
    let mut after = String::new();
    loop {
        let page = list(&format!("&include_inactive=true&limit=1{after}")).await?;
        paged.extend(listed(&page));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    ensure!(paged == [stays, goes], "{paged:?}");
    target.api.get(&format!("runners?pool={pool}&include_inactive=maybe")).await?.refusal(400)?;
    Ok(())
}

pub async fn all_pools_runners_are_listed_page_by_page(target: &Target) -> Result<()> {
    let mut mine = Vec::new();
    for name in ["every-b", "every-a"] {
        let pool = keeping(target, name, json!({})).await?;
        for number in [1, 2] {
            let runner = format!("{pool}-{number}");
            with_token(target, &pool, &runner).await?;
            mine.push(runner);
        }
    }
    mine.sort();
    let mut seen: Vec<String> = Vec::new();
    let mut after = String::new();
    for page_number in 0.. {
        ensure!(page_number < 1_000, "the pages do not end");
        let page = target.api.get(&format!("runners?limit=3{after}")).await?.expect(200)?;
        ensure!(listed(&page).len() <= 3, "{page}");
        seen.extend(listed(&page));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let found: Vec<String> = seen.into_iter().filter(|runner| mine.contains(runner)).collect();
    ensure!(found == mine, "each once, pool by pool: {found:?}");
    for bad in ["after=garbage", "after=%00", "after=YS9hc2xlZXAv"] {
        target.api.get(&format!("runners?{bad}")).await?.refusal(400).context(bad)?;
    }
    target.team_a.get("runners").await?.refusal(403)?;
    Ok(())
}

pub async fn what_is_said_of_a_machine_is_changed(target: &Target) -> Result<()> {
    let pool = keeping(target, "revised", json!({})).await?;
    let runner = format!("{pool}-1");
    with_token(target, &pool, &runner).await?;
    let path = format!("runners/{runner}");
    let before = target.api.runner(&runner).await?;
    let change = json!({
        "cleanup_cmd": "make clean\n", "reset_cmd": "reset.sh", "readiness_cmd": "true", "ci_runner": "17",
        "instance_type": "mac.m4", "cpu": 12, "memory_mb": 32768,
    });
    let changed = target.api.patch(&path, change.clone()).await?.expect(200)?;
    for (field, value) in change.as_object().context("an object")? {
        ensure!(changed[field] == *value, "{field}: {changed}");
    }
    ensure!((&changed["state"], &changed["epoch"]) == (&before["state"], &before["epoch"]), "{changed}");
    let entries = audit(&target.api, &runner).await?;
    let of_change = |entry: &&Value| entry["what"] == "changed";
    let told = entries.iter().find(of_change).context("an entry of the change")?;
    ensure!(text(told, "why").contains("cleanup_cmd") && text(told, "why").contains("hardware"), "{told}");
    ensure!(!text(told, "why").contains("make clean"), "{told}");

    // Again is harmless, and says so in no log.
    let watch = Watch::over(target, &[&pool]).await?;
    for body in [change, json!({}), json!({"cpu": 12})] {
        target.api.patch(&path, body).await?.expect(200)?;
    }
    watch.unchanged().await?;
    ensure!(audit(&target.api, &runner).await?.iter().filter(of_change).count() == 1);

    // What is null is its pool's again, and what is not named stays.
    let removed =
        target.api.patch(&path, json!({"cleanup_cmd": null, "ci_runner": null, "cpu": null})).await?;
    let removed = removed.expect(200)?;
    ensure!(removed["cleanup_cmd"].is_null() && removed["ci_runner"].is_null(), "{removed}");
    ensure!(removed["cpu"] == before["cpu"] && removed["reset_cmd"] == "reset.sh", "{removed}");

    let watch = Watch::over(target, &[&pool]).await?;
    for (bad, named) in [
        (json!({"cpu": 0}), "cpu"),
        (json!({"memory_mb": 0}), "memory_mb"),
        (json!({"instance_type": "A B"}), "instance_type"),
        (json!({"cpu": "4"}), "cpu"),
        (json!({"ci_runner": "a\nb"}), "ci_runner"),
    ] {
        watch.refused_naming(target.api.patch(&path, bad).await?, 400, "invalid_request", named).await?;
    }
    watch.refused(target.api.patch("runners/nobody", json!({})).await?, 404, "not_found").await?;
    watch.refused(target.team_a.patch(&path, json!({"cpu": 4})).await?, 403, "forbidden").await?;
    target.api.delete(&path).await?.expect(202)?;
    target.runner_in(&runner, "terminated").await?;
    target.api.patch(&path, json!({"cpu": 4})).await?.refusal(409)?;
    Ok(())
}

/// What its agent is at is not called back; the next task has the new command.
pub async fn a_command_that_is_changed_is_run_the_next_time(target: &Target) -> Result<()> {
    let pool = keeping(target, "revised-task", json!({"clean": "reset", "reset_cmd": "pools.sh"})).await?;
    let runner = format!("{pool}-1");
    let path = format!("runners/{runner}");
    let mut agent = FakeAgent::join(&target.api, &pool, &runner, json!({})).await?;
    agent.work_until("resetting").await?;
    let script = |answer: &Value| answer["task"]["kind"]["reset"]["script"].clone();
    let out = agent.sync().await?.expect(200)?;
    ensure!(script(&out) == "pools.sh", "{out}");
    target.api.patch(&path, json!({"reset_cmd": "own.sh"})).await?.expect(200)?;
    // The same task by its id: who has begun it does not begin again, and what it proves holds.
    let told = agent.sync().await?.expect(200)?;
    ensure!(told["task"]["id"] == out["task"]["id"] && told["state"] == "resetting", "{told}");
    agent.work_until("idle").await?;
    agent.step().await?;
    let name = created(&agent.api, "1").await?;
    let end = json!({"checkpoint_name": name, "status": "failure"});
    agent.api.post("checkpoint/finalize", end).await?.expect(202)?;
    // Its CI system is told by another name meanwhile, but not while a job runs.
    agent.work_until("resetting").await?;
    let next = agent.sync().await?.expect(200)?;
    ensure!(script(&next) == "own.sh", "{next}");
    Ok(())
}

pub async fn refuse_10_a_renewed_token_makes_the_old_one_void(target: &Target) -> Result<()> {
    let pool = keeping(target, "token-renewed", json!({})).await?;
    let runner = format!("{pool}-1");
    let (old, old_token) = with_token(target, &pool, &runner).await?;
    let name = created(&old, "1").await?;
    let renewed = target.api.post(&format!("runners/{runner}/token"), json!({})).await?.expect(200)?;
    let token = text(&renewed, "token").to_owned();
    ensure!(token.starts_with("mp_runner_") && token != old_token, "{renewed}");
    ensure!(renewed.get("bootstrap_secret").is_none(), "{renewed}");
    let watch = Watch::over(target, &[&pool]).await?;
    refused_everywhere(&watch, &old, &runner, &name).await?;
    // Nor is that taken for theft: its operator made it so.
    let new = target.as_who(Some(&token));
    let end = json!({"checkpoint_name": name, "status": "success"});
    new.post("checkpoint/finalize", end).await?.expect(202)?;
    ensure!(ready(&new).await?["state"] == "idle");
    Ok(())
}

pub async fn refuse_10_a_machine_that_comes_back_has_another_token(target: &Target) -> Result<()> {
    let pool = keeping(target, "token-back", json!({})).await?;
    let runner = format!("{pool}-1");
    let (old, old_token) = with_token(target, &pool, &runner).await?;
    let name = created(&old, "1").await?;
    target.api.delete(&format!("runners/{runner}")).await?.refusal(409)?;
    target.api.delete(&format!("runners/{runner}?force=true")).await?.expect(202)?;
    let gone = target.runner_in(&runner, "terminated").await?;
    refused_everywhere(&Watch::over(target, &[&pool]).await?, &old, &runner, &name).await?;

    let registered = register(&target.api, &pool, &runner, json!({"credential": "token", "cpu": 3})).await?;
    let token = text(&registered, "token").to_owned();
    ensure!(token != old_token, "{registered}");
    let seen = target.api.runner(&runner).await?;
    let epoch = gone["epoch"].as_u64().context("an epoch")?;
    // A new life begins with its registration, and another with its first reset.
    ensure!(seen["epoch"] == epoch + 2 && seen["state"] == "idle" && seen["cpu"] == 3, "{seen}");
    refused_everywhere(&Watch::over(target, &[&pool]).await?, &old, &runner, &name).await?;
    created(&target.as_who(Some(&token)), "2").await?;

    // It may also come back with an agent, and an agent's machine without one.
    target.api.delete(&format!("runners/{runner}?force=true")).await?.expect(202)?;
    target.runner_in(&runner, "terminated").await?;
    let secret = secret_of(&register(&target.api, &pool, &runner, json!({})).await?)?;
    let agent = FakeAgent::new(&target.api, &runner);
    agent.bootstrap(&secret).await?.expect(200)?;
    ensure!(target.api.runner(&runner).await?["credential"] == "bootstrap");
    refused_everywhere(&Watch::over(target, &[&pool]).await?, &target.as_who(Some(&token)), &runner, &name)
        .await
}

/// A token that is not its runner's opens nothing, and changes nothing.
async fn refused_everywhere(watch: &Watch, api: &Api, runner: &str, checkpoint: &str) -> Result<()> {
    let end = json!({"checkpoint_name": checkpoint, "status": "failure"});
    let sync = json!({"runner": runner, "epoch": 1, "boot_id": "b", "protocol": 3, "agent_version": "v"});
    for (path, body) in [
        ("checkpoint/create", json!({"job_id": "late"})),
        ("checkpoint/create", json!({"job_id": "late", "runner_id": runner})),
        ("checkpoint/finalize", end),
    ] {
        watch.refused(api.post(path, body).await?, 401, "unauthorized").await.context(path)?;
    }
    let status = format!("checkpoint/status/{checkpoint}");
    for path in ["runner/readiness", "agent/self", &status] {
        watch.refused(api.get(path).await?, 401, "unauthorized").await.with_context(|| path.to_owned())?;
    }
    let answer = api.post("agent/sync", sync).await?;
    ensure!(answer.status == 401 || answer.status == 410, "{answer:?}");
    watch.unchanged().await
}

pub async fn refuse_11_a_call_of_an_earlier_life_changes_nothing(target: &Target) -> Result<()> {
    let pool = keeping(target, "token-epochs", json!({})).await?;
    let runner = format!("{pool}-1");
    let (old, _) = with_token(target, &pool, &runner).await?;
    let name = created(&old, "1").await?;
    target.api.delete(&format!("runners/{runner}?force=true")).await?.expect(202)?;
    target.runner_in(&runner, "terminated").await?;
    let (new, _) = with_token(target, &pool, &runner).await?;
    let epoch = target.api.runner(&runner).await?["epoch"].as_u64().context("an epoch")?;
    let over = until("the checkpoint of the earlier life is over", async || {
        let shown = new.get(&format!("checkpoint/status/{name}")).await?.expect(200)?;
        Ok((shown["state"] == "gc_reset").then_some(shown))
    })
    .await?;

    let watch = Watch::over(target, &[&pool]).await?;
    refused_everywhere(&watch, &old, &runner, &name).await?;
    // Of a checkpoint of its earlier life nothing is changed either, whoever asks.
    let end = json!({"checkpoint_name": name, "status": "failure"});
    let told = new.post("checkpoint/finalize", end).await?.expect(202)?;
    ensure!(told["detail"] == "Already finalized" && told["state"] == "gc_reset", "{told}");
    ensure!(new.get(&format!("checkpoint/status/{name}")).await?.expect(200)? == over);
    watch.unchanged().await?;

    // A sync of another epoch is told the present one.
    for wrong in [0, 1, epoch - 1, epoch + 1, u64::MAX] {
        let sync = json!({
            "runner": runner, "epoch": wrong, "boot_id": "b", "protocol": 3, "agent_version": "v",
            "results": [{"task": format!("{wrong}-reset-1"), "outcome": "done"}],
        });
        let told = new.post("agent/sync", sync).await?.expect(200)?;
        ensure!(told["epoch"] == epoch && told["state"] == "idle", "{told}");
        watch.unchanged().await?;
    }
    Ok(())
}

pub async fn refuse_08_a_fixed_token_is_good_for_its_runner_alone(target: &Target) -> Result<()> {
    let pool = keeping(target, "token-own", json!({})).await?;
    let (one, other) = (format!("{pool}-1"), format!("{pool}-2"));
    let (api, _) = with_token(target, &pool, &one).await?;
    let (others, _) = with_token(target, &pool, &other).await?;
    let name = created(&others, "1").await?;
    let watch = Watch::over(target, &[&pool]).await?;
    let named = json!({"job_id": "2", "runner_id": other});
    watch.refused(api.post("checkpoint/create", named).await?, 403, "forbidden").await?;
    let end = json!({"checkpoint_name": name, "status": "failure"});
    watch.refused(api.post("checkpoint/finalize", end).await?, 403, "forbidden").await?;
    watch.refused(api.get(&format!("checkpoint/status/{name}")).await?, 403, "forbidden").await?;
    let sync = json!({"runner": other, "epoch": 2, "boot_id": "b", "protocol": 3, "agent_version": "v"});
    watch.refused(api.post("agent/sync", sync).await?, 401, "unauthorized").await?;
    // Nor does it open what is the operator's.
    let path = format!("runners/{one}");
    watch.refused(api.get(&path).await?, 403, "forbidden").await?;
    watch.refused(api.get("runners").await?, 403, "forbidden").await?;
    watch.refused(api.patch(&path, json!({"cpu": 1})).await?, 403, "forbidden").await?;
    watch.refused(api.delete(&path).await?, 403, "forbidden").await?;
    watch.refused(api.post(&format!("{path}/token"), json!({})).await?, 403, "forbidden").await?;
    Ok(())
}

pub async fn refuse_12_what_is_the_control_plane_s_own_is_not_changed(target: &Target) -> Result<()> {
    let pool = keeping(target, "token-assign", json!({})).await?;
    let runner = format!("{pool}-1");
    with_token(target, &pool, &runner).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    for field in [
        "state",
        "epoch",
        "token",
        "token_sha256",
        "pool",
        "runner",
        "runner_id",
        "credential",
        "claim",
        "proof",
        "kept",
        "active",
        "is_active",
        "draining",
        "usage",
        "rev",
        "threshold_in_ms",
        "owner",
        "provider_id",
        "launch",
        "paused_at",
        "checkpoint",
    ] {
        for value in [json!("idle"), json!(null)] {
            let mut body = json!({"cpu": 64});
            body[field] = value;
            let answer = target.api.patch(&format!("runners/{runner}"), body).await?;
            watch.refused_naming(answer, 400, "invalid_request", field).await.context(field)?;
        }
    }
    Ok(())
}

/// A command is text for a shell of the machine's own: it may hold whatever a script holds, and nothing that steers who reads it. No value is ever put
/// into it.
pub async fn refuse_13_commands_are_text_and_steer_nothing(target: &Target) -> Result<()> {
    let pool = keeping(target, "token-words", json!({"clean": "reset", "reset_cmd": "true"})).await?;
    let runner = format!("{pool}-1");
    let mut agent = FakeAgent::join(&target.api, &pool, &runner, json!({})).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    let long = "a".repeat(4_097);
    for bad in ["", "a\0b", "a\rb", "\u{1b}[2J", "\u{202e}ab", "a\u{7f}", &long] {
        for field in ["cleanup_cmd", "reset_cmd", "readiness_cmd"] {
            let mut body = json!({"runner_id": format!("{pool}-2"), "pool": pool});
            body[field] = json!(bad);
            let answer = target.api.post("runners", body).await?;
            watch.refused_naming(answer, 400, "invalid_request", field).await?;
            let answer = target.api.patch(&format!("runners/{runner}"), json!({ field: bad })).await?;
            watch.refused_naming(answer, 400, "invalid_request", field).await?;
        }
    }
    for bad in ["$(touch x)", "`id`", "a;b", "a b", "a\nb", "../x", "-rf", "a\0b", "ä"] {
        let coded: String = bad.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = target.api.patch(&format!("runners/{coded}"), json!({"cpu": 1})).await?;
        watch.refused(answer, 400, "invalid_request").await.context(bad)?;
        let body = json!({"runner_id": bad, "pool": pool, "credential": "token"});
        watch.refused(target.api.post("runners", body).await?, 400, "invalid_request").await.context(bad)?;
    }
    // What a shell would make something of reaches the machine as it was said, and what a value would be put into stays a name.
    let command = "echo \"$MOTORPOOL_RUNNER_ID\" ${x} $(y) `z` {runner} %s; a | b > c\n\ttrue";
    let changed = target.api.patch(&format!("runners/{runner}"), json!({"reset_cmd": command})).await?;
    ensure!(changed.expect(200)?["reset_cmd"] == command);
    agent.work_until("resetting").await?;
    let told = agent.sync().await?.expect(200)?;
    ensure!(told["task"]["kind"]["reset"]["script"] == command, "{told}");
    Ok(())
}
