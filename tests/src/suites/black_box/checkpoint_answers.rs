//! What else the hooks of a job, and the operator, are told about checkpoints: how long to wait, who said what, and of agents that are not there.

use super::Target;
use super::checkpoints::{create, created, finalize, hooked, status};
use super::target::text;
use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::json;

/// So often a job may come too late to be told to wait, where the host is slow.
const TRIES: usize = 10;

pub async fn a_machine_rests_between_two_jobs(target: &Target) -> Result<()> {
    let (_, mut agent) = hooked(target, "hook-rests", json!({})).await?;
    for job in 0..TRIES {
        let name = created(&agent, &job.to_string()).await?;
        finalize(&agent.api, &name, "success").await?;
        agent.work_until("idle").await?;
        let request = agent.api.request(Method::POST, "checkpoint/create").json(&json!({"job_id": "next"}));
        let answer = request.send().await?;
        if answer.status() == 201 {
            let next = text(&answer.json().await?, "name").to_owned();
            finalize(&agent.api, &next, "success").await?;
            agent.work_until("idle").await?;
            continue;
        }
        ensure!(answer.status() == 429, "{answer:?}");
        let wait = answer.headers().get("retry-after").context("how long to wait")?.to_str()?.to_owned();
        ensure!((1..=5).contains(&wait.parse::<u32>()?), "{wait}");
        let body: serde_json::Value = answer.json().await?;
        let error = &body["error"];
        ensure!(error["code"] == "too_many_requests", "{body}");
        ensure!(text(error, "message").contains("cooldown period active"), "{body}");
        return Ok(());
    }
    anyhow::bail!("of {TRIES} jobs that came at once, none was told to wait")
}

pub async fn who_noticed_the_end_of_a_job_is_recorded(target: &Target) -> Result<()> {
    let (_, mut agent) = hooked(target, "hook-source", json!({})).await?;
    for (job, source) in ["poller", "agent", "hook"].into_iter().enumerate() {
        let name = created(&agent, &job.to_string()).await?;
        // As GitHub writes it in `job.status`.
        let end = json!({"checkpoint_name": name, "status": "cancelled", "source": source});
        let said = agent.api.post("checkpoint/finalize", end).await?.expect(202)?;
        ensure!(said["detail"] == "Finalize queued", "{said}");
        let seen = status(&agent, &name).await?;
        ensure!(seen["finalize_source"] == source && seen["finalize_status"] == "canceled", "{seen}");
        agent.work_until("idle").await?;
    }
    let name = created(&agent, "last").await?;
    for source in ["webhook", "gc"] {
        let end = json!({"checkpoint_name": name, "status": "success", "source": source});
        let (code, message) = agent.api.post("checkpoint/finalize", end).await?.refusal(400)?;
        ensure!(code == "invalid_request" && message.contains(source), "{message}");
    }
    Ok(())
}

pub async fn an_agent_that_is_not_connected_is_told_of(target: &Target) -> Result<()> {
    let (_, agent) = hooked(target, "hook-offline", json!({"allow_exec": true})).await?;
    let at = |verb: &str| format!("internal/agent/{}/{verb}", agent.runner);
    let seen = target.api.get(&at("connected")).await?.expect(200)?;
    ensure!(seen == json!({"connected": false}), "{seen}");
    let (code, message) =
        target.api.post(&at("exec"), json!({"cmd": "true", "timeout": 5})).await?.refusal(404)?;
    ensure!(code == "not_found" && message.contains("agent not connected"), "{message}");
    // Nobody but the operator may ask.
    agent.api.get(&at("connected")).await?.refusal(403)?;
    target.team_a.post(&at("exec"), json!({"cmd": "true", "timeout": 5})).await?.refusal(403)?;
    Ok(())
}

/// Of what comes to the routes of a job's hooks.
pub async fn refuse_10_a_token_that_was_replaced_by_a_reset_opens_no_hook_s_route(
    target: &Target,
) -> Result<()> {
    for route in ["create", "finalize", "status", "readiness"] {
        let (_, agent) = hooked(target, &format!("hook-old-{route}"), json!({})).await?;
        let mut agent = agent.in_session("the agent's own");
        let name = created(&agent, "1").await?;
        let copied = agent.clone();
        finalize(&agent.api, &name, "success").await?;
        agent.work_until("idle").await?;
        ensure!(agent.token != copied.token, "its token has changed with the reset");
        let answer = match route {
            "create" => create(&copied, "2").await?,
            "finalize" => {
                let end = json!({"checkpoint_name": name, "status": "failure"});
                copied.api.post("checkpoint/finalize", end).await?
            }
            "status" => copied.api.get(&format!("checkpoint/status/{name}")).await?,
            _readiness => copied.api.get("runner/readiness").await?,
        };
        answer.refusal(401)?;
        let seen = target.api.get(&format!("checkpoint/status/{name}")).await?.expect(200)?;
        ensure!(seen["state"] == "deleted" && seen["finalize_status"] == "success", "{route}: {seen}");
    }
    Ok(())
}
