//! Checkpoints over HTTP: what the hooks of a job are told, and what becomes of its machine. The machines' agents are scripted, and the names and
//! words of the answers are a contract with clients that know nothing else of us.

use super::Target;
use super::target::text;
use crate::fakes::fake_agent::FakeAgent;
use crate::harness::api::{Answer, Api};
use crate::harness::serve::WEBHOOK_SECRET;
use crate::harness::story::audit;
use crate::harness::wait::until;
use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// A pool whose CI system hands out work by itself, with one machine that waits for it.
pub(super) async fn hooked(target: &Target, name: &str, more: Value) -> Result<(String, FakeAgent)> {
    let mut settings = json!({
        "dispatch": "hook", "clean": "reset", "reset_cmd": "true", "cleanup_cmd": "true", "heartbeat_seconds": 60,
    });
    if let (Value::Object(settings), Value::Object(more)) = (&mut settings, more) {
        settings.extend(more);
    }
    let pool = target.metal_pool(name, settings).await?;
    let runner = format!("{pool}-1");
    let mut agent = FakeAgent::idle(&target.api, &pool, &runner, json!({})).await?;
    // The CI system knows it while it is idle.
    agent.step().await?;
    ensure!(agent.registered == Some(format!("motorpool-{pool}")), "{agent:?}");
    Ok((pool, agent))
}

pub(super) async fn create(agent: &FakeAgent, job: &str) -> Result<Answer> {
    agent.api.post("checkpoint/create", json!({"runner_id": agent.runner, "job_id": job})).await
}

/// The job's checkpoint, once the machine has had its pause after the last.
pub(super) async fn created(agent: &FakeAgent, job: &str) -> Result<String> {
    until("the machine takes another job", async || {
        let answer = create(agent, job).await?;
        if answer.status == 429 {
            return Ok(None);
        }
        Ok(Some(text(&answer.expect(201)?, "name").to_owned()))
    })
    .await
}

pub(super) async fn finalize(api: &Api, name: &str, status: &str) -> Result<Value> {
    let body = json!({"checkpoint_name": name, "status": status, "source": "hook"});
    api.post("checkpoint/finalize", body).await?.expect(202)
}

pub(super) async fn status(agent: &FakeAgent, name: &str) -> Result<Value> {
    agent.api.get(&format!("checkpoint/status/{name}")).await?.expect(200)
}

pub async fn a_job_s_checkpoint_is_created_with_its_runner_running(target: &Target) -> Result<()> {
    let (_, agent) = hooked(target, "hook-one", json!({})).await?;
    let body = json!({"runner_id": agent.runner, "job_id": "12345", "caller": "ci-runner-7"});
    let checkpoint = agent.api.post("checkpoint/create", body).await?.expect(201)?;
    let name = text(&checkpoint, "name");
    ensure!(name.starts_with("job-12345-") && checkpoint["runner_id"] == agent.runner, "{checkpoint}");
    ensure!(checkpoint["job_id"] == "12345" && checkpoint["state"] == "created", "{checkpoint}");
    ensure!(text(&checkpoint, "created_at").ends_with('Z'), "{checkpoint}");
    let seen = target.api.runner(&agent.runner).await?;
    ensure!(seen["state"] == "running" && seen["epoch"] == 2, "{seen}");
    // Its agent has nothing to do for it: the CI system's program has the job.
    let answer = agent.sync().await?.expect(200)?;
    ensure!(answer["task"].is_null() && answer["threshold_in_ms"].is_number(), "{answer}");
    let shown = status(&agent, name).await?;
    ensure!(shown["caller"] == "ci-runner-7" && shown["finalize_status"].is_null(), "{shown}");
    Ok(())
}

pub async fn inv_26_the_same_job_again_gets_the_same_checkpoint(target: &Target) -> Result<()> {
    let (_, agent) = hooked(target, "hook-again", json!({})).await?;
    let first = create(&agent, "77").await?.expect(201)?;
    let rev = target.api.runner(&agent.runner).await?;
    for _ in 0..3 {
        let again = create(&agent, "77").await?.expect(201)?;
        ensure!(again == first, "{again} is not {first}");
    }
    let seen = target.api.runner(&agent.runner).await?;
    ensure!((&seen["state"], &seen["epoch"]) == (&rev["state"], &rev["epoch"]), "{seen}");
    // Another try of it is another job.
    let body = json!({"job_id": "77", "attempt": 2});
    let (code, _) = agent.api.post("checkpoint/create", body).await?.refusal(409)?;
    ensure!(code == "conflict", "{code}");
    Ok(())
}

pub async fn inv_12_a_second_job_is_refused_while_one_is_active(target: &Target) -> Result<()> {
    let (_, mut agent) = hooked(target, "hook-busy", json!({})).await?;
    let name = created(&agent, "1").await?;
    let (code, message) = create(&agent, "2").await?.refusal(409)?;
    ensure!(code == "conflict" && message.contains("active checkpoint already exists"), "{message}");
    finalize(&agent.api, &name, "success").await?;
    // Nor while what the first left is cleaned up.
    let (_, message) = create(&agent, "2").await?.refusal(409)?;
    ensure!(message.contains(&name), "{message}");
    agent.work_until("idle").await?;
    let next = created(&agent, "2").await?;
    ensure!(next != name, "{next}");
    Ok(())
}

pub async fn finalize_is_queued_once_and_told_again(target: &Target) -> Result<()> {
    let (_, mut agent) = hooked(target, "hook-end", json!({})).await?;
    let name = created(&agent, "1").await?;
    let queued = finalize(&agent.api, &name, "failure").await?;
    ensure!(queued == json!({"detail": "Finalize queued", "checkpoint_name": name}), "{queued}");
    let again = finalize(&agent.api, &name, "failure").await?;
    let told = json!({"detail": "Already finalized", "checkpoint_name": name, "state": "finalize_queued"});
    ensure!(again == told, "{again}");
    let seen = target.api.runner(&agent.runner).await?;
    ensure!(seen["state"] == "releasing", "{seen}");
    agent.work_until("idle").await?;
    let over = finalize(&agent.api, &name, "success").await?;
    ensure!(over["detail"] == "Already finalized" && over["state"] == "reset", "{over}");
    let shown = status(&agent, &name).await?;
    ensure!(shown["finalize_status"] == "failure" && shown["finalize_source"] == "hook", "{shown}");
    ensure!(shown["finalized_at"].is_string(), "{shown}");
    Ok(())
}

pub async fn after_a_failure_the_machine_is_reset_and_after_a_success_cleaned(target: &Target) -> Result<()> {
    let (_, mut agent) = hooked(target, "hook-clean", json!({})).await?;
    for (job, status_of_job, task, state, proof) in [
        ("1", "success", "cleanup", "deleted", "its cleanup succeeded"),
        ("2", "failure", "reset", "reset", "its reset succeeded"),
        ("3", "canceled", "reset", "reset", "its reset succeeded"),
    ] {
        let name = created(&agent, job).await?;
        finalize(&agent.api, &name, status_of_job).await?;
        agent.work_until("resetting").await?;
        let answer = agent.sync().await?.expect(200)?;
        ensure!(answer["task"]["kind"][task].is_object(), "{job} {status_of_job}: {answer}");
        agent.work_until("idle").await?;
        let seen = target.api.runner(&agent.runner).await?;
        ensure!(seen["proof"] == proof, "{seen}");
        let shown = status(&agent, &name).await?;
        ensure!(shown["state"] == state, "{shown}");
        // Its CI system is to know it again before the next job can come.
        agent.step().await?;
    }
    ensure!(target.api.runner(&agent.runner).await?["epoch"] == 5, "an epoch for each job");
    Ok(())
}

pub async fn inv_29_a_failure_overrides_a_success_until_the_cleaning_has_begun(
    target: &Target,
) -> Result<()> {
    let (_, mut agent) = hooked(target, "hook-worse", json!({})).await?;
    let name = created(&agent, "1").await?;
    finalize(&agent.api, &name, "success").await?;
    finalize(&agent.api, &name, "failure").await?;
    agent.work_until("resetting").await?;
    let answer = agent.sync().await?.expect(200)?;
    ensure!(answer["task"]["kind"]["reset"].is_object(), "{answer}");
    agent.work_until("idle").await?;
    ensure!(status(&agent, &name).await?["state"] == "reset");

    agent.step().await?;
    let name = created(&agent, "2").await?;
    finalize(&agent.api, &name, "success").await?;
    agent.work_until("resetting").await?;
    let answer = agent.sync().await?.expect(200)?;
    ensure!(answer["task"]["kind"]["cleanup"].is_object(), "{answer}");
    // Too late: it is being cleaned as what it was said to be.
    finalize(&agent.api, &name, "failure").await?;
    let answer = agent.sync().await?.expect(200)?;
    ensure!(answer["task"]["kind"]["cleanup"].is_object(), "{answer}");
    agent.work_until("idle").await?;
    let shown = status(&agent, &name).await?;
    ensure!(shown["state"] == "deleted" && shown["finalize_status"] == "success", "{shown}");
    Ok(())
}

pub async fn a_machine_that_is_not_ready_after_its_reset_waits_for_a_person(target: &Target) -> Result<()> {
    let more = json!({"readiness_cmd": "true", "heartbeat_seconds": 1});
    let (_, mut agent) = hooked(target, "hook-unready", more).await?;
    let name = created(&agent, "1").await?;
    finalize(&agent.api, &name, "failure").await?;
    agent.work_until("resetting").await?;
    // It is reset, and then never ready.
    agent.step().await?;
    let answer = agent.sync().await?.expect(200)?;
    ensure!(answer["task"]["kind"]["readiness"].is_object(), "{answer}");
    agent.fail_until("its browser does not start", "quarantined").await?;
    let seen = target.api.runner(&agent.runner).await?;
    ensure!(text(&seen, "why").contains("3 attempts"), "{seen}");
    let shown = status(&agent, &name).await?;
    ensure!(shown["state"] == "finalize_queued", "{shown}");

    target.api.post(&format!("runners/{}/release", agent.runner), json!({})).await?.expect(202)?;
    agent.work_until("idle").await?;
    let shown = until("its checkpoint comes to its end", async || {
        let shown = status(&agent, &name).await?;
        Ok((shown["state"] != "finalize_queued").then_some(shown))
    })
    .await?;
    ensure!(shown["state"] == "reset", "{shown}");
    Ok(())
}

pub async fn in_a_pool_of_claims_a_checkpoint_is_the_hold_s(target: &Target) -> Result<()> {
    let (pool, [mut agent]) = target.idle_pool("hook-claim").await?;
    let (_, message) = create(&agent, "1").await?.refusal(409)?;
    ensure!(message.contains("idle"), "nobody holds it: {message}");
    target.api.provision("hook-claim", &pool, 1).await?;
    agent.work_until("running").await?;
    let name = created(&agent, "1").await?;
    ensure!(created(&agent, "1").await? == name);
    finalize(&agent.api, &name, "success").await?;
    // It is the hold's, whatever its jobs.
    ensure!(created(&agent, "another").await? == name);
    // The hold goes on: an epoch must not rise under a claim.
    let seen = target.api.runner(&agent.runner).await?;
    ensure!(
        seen["state"] == "running" && status(&agent, &name).await?["state"] == "finalize_queued",
        "{seen}"
    );
    target.api.release("hook-claim").await?;
    agent.work_until("idle").await?;
    ensure!(status(&agent, &name).await?["state"] == "deleted");

    // A claim that is released while its job runs has cancelled it.
    target.api.provision("hook-claim-2", &pool, 1).await?;
    agent.work_until("running").await?;
    let name = created(&agent, "2").await?;
    target.api.release("hook-claim-2").await?;
    agent.work_until("idle").await?;
    let shown = until("its checkpoint comes to its end", async || {
        let shown = status(&agent, &name).await?;
        Ok((shown["state"] == "reset").then_some(shown))
    })
    .await?;
    ensure!(shown["finalize_status"] == "canceled", "{shown}");
    Ok(())
}

pub async fn a_pool_of_hooks_is_not_claimed(target: &Target) -> Result<()> {
    let (pool, agent) = hooked(target, "hook-closed", json!({})).await?;
    for verb in ["provision", "claim"] {
        let (code, message) =
            target.api.post(verb, json!({"workflow": "w", "pool": pool})).await?.refusal(400)?;
        ensure!(code == "invalid_request" && message.contains("hook"), "{message}");
    }
    let seen = target.api.runner(&agent.runner).await?;
    ensure!(seen["state"] == "idle", "{seen}");
    Ok(())
}

pub async fn readiness_tells_whether_a_job_may_come(target: &Target) -> Result<()> {
    let (_, mut agent) = hooked(target, "hook-ready", json!({})).await?;
    let ready = async |agent: &FakeAgent| agent.api.get("runner/readiness").await?.expect(200);
    let shown = ready(&agent).await?;
    ensure!(shown == json!({"runner_id": agent.runner, "ready": true, "state": "idle"}), "{shown}");
    let name = created(&agent, "1").await?;
    ensure!(ready(&agent).await?["ready"] == false);
    finalize(&agent.api, &name, "success").await?;
    ensure!(ready(&agent).await?["ready"] == false);
    agent.work_until("idle").await?;
    until("it is ready after its pause", async || Ok((ready(&agent).await?["ready"] == true).then_some(())))
        .await?;
    let told = audit(&target.api, &agent.runner).await?;
    let began = |entry: &Value| entry["from"] == "idle@2" && entry["why"] == "its CI system gave it a job";
    ensure!(told.iter().any(began), "{told:?}");
    Ok(())
}

pub async fn refuse_08_a_checkpoint_is_its_runner_s_alone(target: &Target) -> Result<()> {
    let (_, agent) = hooked(target, "hook-own", json!({})).await?;
    let (_, other) = hooked(target, "hook-other", json!({})).await?;
    let named = json!({"runner_id": agent.runner, "job_id": "1"});
    let (code, _) = other.api.post("checkpoint/create", named.clone()).await?.refusal(403)?;
    ensure!(code == "forbidden", "{code}");
    let name = created(&agent, "1").await?;
    let end = json!({"checkpoint_name": name, "status": "success"});
    other.api.post("checkpoint/finalize", end.clone()).await?.refusal(403)?;
    other.api.get(&format!("checkpoint/status/{name}")).await?.refusal(403)?;
    for who in [target.as_who(None), target.as_who(Some("mp_runner_nobody")), target.api.clone()] {
        for (path, body) in [("checkpoint/create", &named), ("checkpoint/finalize", &end)] {
            let answer = who.post(path, body.clone()).await?;
            ensure!(answer.status == 401 || answer.status == 403, "{path}: {answer:?}");
        }
    }
    ensure!(status(&agent, &name).await?["state"] == "created");
    Ok(())
}

/// He has no runner's token; a team has no business with machines.
pub async fn the_operator_may_look_at_any_checkpoint(target: &Target) -> Result<()> {
    let (_, agent) = hooked(target, "hook-asked", json!({})).await?;
    let name = created(&agent, "1").await?;
    let path = format!("checkpoint/status/{name}");
    let shown = target.api.get(&path).await?.expect(200)?;
    ensure!(shown == status(&agent, &name).await?, "{shown}");
    let (code, _) = target.team_a.get(&path).await?.refusal(403)?;
    ensure!(code == "forbidden", "{code}");
    target.api.get("checkpoint/status/job-1-1739451000-a1b2c3d4").await?.refusal(404)?;
    target.api.get("checkpoint/status/job-1").await?.refusal(400)?;
    Ok(())
}

/// The job's own hooks say nothing of its end: GitHub does, and signs it.
pub async fn a_signed_webhook_finalizes_a_checkpoint(target: &Target) -> Result<()> {
    let (_, mut agent) = hooked(target, "hook-told", json!({})).await?;
    let job = json!({"job_id": "2202229078", "project": "octo/app", "attempt": 1});
    let created = agent.api.post("checkpoint/create", job).await?.expect(201)?;
    let name = text(&created, "name");
    let event = json!({
        "action": "completed",
        "workflow_job": {
            "id": 6_000_000_001_u64, "run_id": 2_202_229_078_u64, "run_attempt": 1, "status": "completed",
            "conclusion": "failure", "completed_at": "2100-01-01T00:00:00Z", "runner_id": 5, "runner_name": agent.runner,
        },
        "repository": {"id": 1, "full_name": "octo/app"},
    });
    let delivery = target.name("delivery");
    let (code, _) = target.told_by_github("not its secret", &delivery, &event).await?.refusal(401)?;
    ensure!(code == "unauthorized" && status(&agent, name).await?["state"] == "created", "{code}");
    // The jobs' index may be a moment behind; GitHub would be asked to deliver it once more.
    let shown = until("its checkpoint is finalized", async || {
        let taken = target.told_by_github(WEBHOOK_SECRET, &delivery, &event).await?.expect(200)?;
        ensure!(taken == json!({"ok": true}), "{taken}");
        let shown = status(&agent, name).await?;
        Ok((shown["state"] == "finalize_queued").then_some(shown))
    })
    .await?;
    ensure!(shown["finalize_status"] == "failure" && shown["finalize_source"] == "webhook", "{shown}");
    agent.work_until("idle").await?;
    let seen = target.api.runner(&agent.runner).await?;
    ensure!(seen["proof"] == "its reset succeeded" && seen["epoch"] == 3, "{seen}");
    ensure!(status(&agent, name).await?["state"] == "reset");
    Ok(())
}

pub async fn refuse_12_and_13_what_a_hook_sends_is_checked(target: &Target) -> Result<()> {
    let (_, agent) = hooked(target, "hook-words", json!({})).await?;
    for bad in ["", "a b", "a;b", "$(x)", "a\nb", "a\0b", "a/b", "ä", &"a".repeat(129)] {
        create(&agent, bad).await?.refusal(400)?;
    }
    for more in
        [json!({"state": "deleted"}), json!({"epoch": 1}), json!({"token": "x"}), json!({"caller": "a\nb"})]
    {
        let mut body = json!({"job_id": "1"});
        if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
            body.extend(more);
        }
        agent.api.post("checkpoint/create", body).await?.refusal(400)?;
    }
    for name in ["job-1", "job-1-2-zzzzzzzz", "job-1;x-2-a1b2c3d4", "x"] {
        let body = json!({"checkpoint_name": name, "status": "success"});
        agent.api.post("checkpoint/finalize", body).await?.refusal(400)?;
    }
    let unknown = "job-1-1739451000-a1b2c3d4";
    for (status, source, code) in
        [("won", "hook", 400), ("success", "webhook", 400), ("success", "gc", 400), ("success", "hook", 404)]
    {
        let body = json!({"checkpoint_name": unknown, "status": status, "source": source});
        agent.api.post("checkpoint/finalize", body).await?.refusal(code)?;
    }
    agent.api.get(&format!("checkpoint/status/{unknown}")).await?.refusal(404)?;
    let seen = target.api.runner(&agent.runner).await?;
    ensure!(seen["state"] == "idle", "{seen}");
    Ok(())
}
