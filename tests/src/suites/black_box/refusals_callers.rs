//! Who may not: no token, a wrong one, another team's, a team's where the operator's is needed, a runner's anywhere else.

use super::openapi::{Operation, operations};
use super::target::{metal_settings, text};
use super::{METAL, TEAM_A, TEAM_B, Target, Watch};
use crate::fakes::fake_agent::FakeAgent;
use crate::harness::api::Api;
use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub async fn a_missing_wrong_or_malformed_token_opens_nothing(target: &Target) -> Result<()> {
    let pool = target.metal_pool("tokens", json!({})).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    for operation in guarded(target).await? {
        let nobody = target.as_who(None);
        let answer = nobody.send(request(&nobody, &operation)?).await?;
        watch
            .refused(answer, 401, "unauthorized")
            .await
            .with_context(|| format!("no token: {operation:?}"))?;
        let stranger = target.as_who(Some("mp_admin_of_somebody_else_0123456789"));
        let answer = stranger.send(request(&stranger, &operation)?).await?;
        // An agent's routes that have a body read it before they can tell whose token it is.
        let reads_first = operation.path.starts_with("/api/v1/agent/") && operation.method != "GET";
        let expected = if reads_first { 400 } else { 401 };
        let code = if expected == 400 { "invalid_request" } else { "unauthorized" };
        watch
            .refused(answer, expected, code)
            .await
            .with_context(|| format!("a wrong token: {operation:?}"))?;
    }
    Ok(())
}

pub async fn a_header_that_is_not_one_bearer_token_opens_nothing(target: &Target) -> Result<()> {
    let pool = target.metal_pool("header", json!({})).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    let good = target.api.token().context("the operator's token")?;
    let nobody = target.as_who(None);
    for header in [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        good.to_owned(),
        format!("Basic {good}"),
        format!("Token {good}"),
        format!("Bearer {good}x"),
        format!("Bearer {}", good.get(1..).unwrap_or_default()),
        format!("Bearer {}", good.to_uppercase()),
        format!("Bearer {good} {good}"),
        format!("Bearer \"{good}\""),
        format!("Bearer {}", "x".repeat(4_000)),
    ] {
        let body = json!({"workflow": "w", "pool": pool});
        let request = nobody.request(Method::POST, "provision").header("authorization", &header).json(&body);
        let answer = nobody.send(request).await?;
        watch.refused(answer, 401, "unauthorized").await.with_context(|| format!("{header:?}"))?;
    }
    for pair in [[good, good], [good, "x"], ["x", good]] {
        let mut request = nobody.request(Method::GET, "pools");
        for token in pair {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        watch.refused(nobody.send(request).await?, 401, "unauthorized").await.context("two headers")?;
    }
    // In the address it is no token either, and is not quoted back.
    let answer = nobody.get(&format!("pools?token={good}")).await?;
    let message = watch.refused(answer, 401, "unauthorized").await?;
    ensure!(!message.contains(good), "{message}");
    Ok(())
}

/// Whatever the document reserves for the operator, and whatever the operator alone may see.
pub async fn a_teams_token_does_not_open_the_operators_routes(target: &Target) -> Result<()> {
    let (pool, [FakeAgent { runner, .. }]) = target.idle_pool("reserved").await?;
    let watch = Watch::over(target, &[&pool, METAL]).await?;
    let mut tried = BTreeSet::new();
    for (method, route, path, body) in [
        (Method::PUT, "/api/v1/pools/{pool}", format!("pools/{pool}"), metal_settings()),
        (Method::DELETE, "/api/v1/pools/{pool}", format!("pools/{pool}"), Value::Null),
        (Method::POST, "/api/v1/pools/{pool}/plan", format!("pools/{pool}/plan"), metal_settings()),
        (
            Method::POST,
            "/api/v1/runners",
            "runners".to_owned(),
            json!({"runner_id": target.name("reserved-2"), "pool": pool}),
        ),
        (Method::GET, "/api/v1/runners", format!("runners?pool={pool}"), Value::Null),
        (Method::GET, "/api/v1/runners/{runner}", format!("runners/{runner}"), Value::Null),
        (Method::PATCH, "/api/v1/runners/{runner}", format!("runners/{runner}"), json!({"cpu": 1})),
        (Method::DELETE, "/api/v1/runners/{runner}", format!("runners/{runner}?force=true"), Value::Null),
        (Method::POST, "/api/v1/runners/{runner}/release", format!("runners/{runner}/release"), Value::Null),
        (Method::POST, "/api/v1/runners/{runner}/token", format!("runners/{runner}/token"), Value::Null),
        (
            Method::GET,
            "/api/v1/internal/agent/{runner}/connected",
            format!("internal/agent/{runner}/connected"),
            Value::Null,
        ),
        (
            Method::POST,
            "/api/v1/internal/agent/{runner}/exec",
            format!("internal/agent/{runner}/exec"),
            json!({"cmd": "true"}),
        ),
        (Method::POST, "/api/v1/refresh", "refresh?sweep=now".to_owned(), Value::Null),
        (Method::GET, "/api/v1/audit", format!("audit?subject=pool:{pool}"), Value::Null),
        (Method::GET, "/api/v1/alerts", "alerts?all=true".to_owned(), Value::Null),
        (Method::GET, "/metrics", "/metrics".to_owned(), Value::Null),
    ] {
        let mut request = target.team_a.request(method.clone(), &path);
        if !body.is_null() {
            request = request.json(&body);
        }
        let answer = target.team_a.send(request).await?;
        watch.refused(answer, 403, "forbidden").await.with_context(|| format!("{method} {path}"))?;
        tried.insert(format!("{method} {route}"));
    }
    let reserved: BTreeSet<String> = operations(target)
        .await?
        .iter()
        .filter(|operation| operation.open_to == BTreeSet::from(["operator".to_owned()]))
        .map(|operation| format!("{} {}", operation.method, operation.path))
        .collect();
    ensure!(tried == reserved, "tried {tried:#?}, but the document reserves {reserved:#?}");
    Ok(())
}

pub async fn refuse_09_a_teams_claim_is_closed_to_another(target: &Target) -> Result<()> {
    let (pool, [mut agent]) = target.idle_pool("others").await?;
    let workflow = target.name("others");
    let claim = target.team_a.provision(&workflow, &pool, 1).await?;
    agent.work_until("running").await?;
    let id = text(&claim, "claim").to_owned();
    let watch = Watch::over(target, &[&pool]).await?;
    for path in [format!("claims/{id}"), format!("claims/{id}?wait=1"), format!("claims/{id}/why")] {
        let message = watch.refused(target.team_b.get(&path).await?, 403, "forbidden").await?;
        ensure!(!message.contains(&workflow), "the message tells what it must not: {message}");
    }
    for (body, status, code) in [
        (json!({"workflow": workflow}), 404, "not_found"),
        (json!({"workflow": workflow, "pool": pool}), 404, "not_found"),
        (json!({"workflow": workflow, "owner": TEAM_A}), 403, "forbidden"),
        (json!({"workflow": workflow, "owner": "operator"}), 403, "forbidden"),
    ] {
        watch.refused(target.team_b.post("release", body).await?, status, code).await?;
    }
    // The same workflow of another team is another claim, and waits in its own right.
    let own = target.team_b.provision(&workflow, &pool, 1).await?;
    ensure!(own["claim"] != id.as_str() && own["owner"] == TEAM_B && own["state"] == "pending", "{own}");
    target.team_b.release(&workflow).await?;
    let claim = target.team_a.claim(&id).await?;
    ensure!(claim["state"] == "ready" && claim["runners"][0]["state"] == "running", "{claim}");
    Ok(())
}

/// On every route but the agent's own.
pub async fn refuse_08_a_runners_token_opens_no_other_route(target: &Target) -> Result<()> {
    let (pool, [agent]) = target.idle_pool("elsewhere").await?;
    let watch = Watch::over(target, &[&pool]).await?;
    let as_runner = target.as_who(Some(&agent.token));
    let mut tried = 0;
    for operation in guarded(target).await?.iter().filter(|operation| !operation.open_to.contains("runner")) {
        let answer = as_runner.send(request(&as_runner, operation)?).await?;
        watch.refused(answer, 403, "forbidden").await.with_context(|| format!("{operation:?}"))?;
        tried += 1;
    }
    ensure!(tried >= 18, "only {tried} routes were tried");
    agent.sync().await?.expect(200)?;
    Ok(())
}

pub async fn refuse_08_a_runners_token_is_good_for_that_runner_alone(target: &Target) -> Result<()> {
    let (pool, mut agents) = target.idle_pool::<2>("alone").await?;
    let claim = target.api.provision("alone", &pool, 1).await?;
    let taken = super::target::only_member(&claim)?;
    agents.sort_by_key(|agent| agent.runner != taken);
    let [held, free] = &mut agents;
    let watch = Watch::over(target, &[&pool]).await?;
    // The other says that the held one has registered; and asks what the held one is to do.
    let mut lie = held.report();
    lie["registered"] = claim["label"].clone();
    watch.refused(free.say(lie.clone()).await?, 401, "unauthorized").await?;
    watch.refused(free.say(held.report()).await?, 401, "unauthorized").await?;
    let operators = target.api.token().context("the operator's token")?;
    for token in ["", "mp_runner_", "mp_runner_x", operators] {
        let answer = target.as_who(Some(token)).post("agent/sync", lie.clone()).await?;
        watch.refused(answer, 401, "unauthorized").await.with_context(|| format!("token {token:?}"))?;
    }
    let nobody = json!({"runner": "nobody", "epoch": 1, "boot_id": "b", "protocol": 3, "agent_version": "v"});
    let unknown = free.say(nobody).await?;
    let message = watch.refused(unknown, 401, "unauthorized").await?;
    let known = watch.refused(free.say(held.report()).await?, 401, "unauthorized").await?;
    ensure!(message == known, "whether a runner exists can be told: {message:?} and {known:?}");
    held.work_until("running").await?;
    free.sync().await?.expect(200)?;
    Ok(())
}

/// A token opens no route of a team's or the operator's even if it was never a runner's.
pub async fn refuse_08_what_looks_like_a_runners_token_is_told_where_it_belongs(
    target: &Target,
) -> Result<()> {
    let watch = Watch::over(target, &[METAL]).await?;
    for token in ["mp_runner_x", "mp_site_x"] {
        let answer = target.as_who(Some(token)).get("pools").await?;
        watch.refused(answer, 403, "forbidden").await?;
    }
    Ok(())
}

/// No token of ours opens them. The target has a secret of GitHub's, and none of GitLab's: without one nothing does.
pub async fn refuse_01_webhooks_are_not_taken_without_a_secret(target: &Target) -> Result<()> {
    let watch = Watch::over(target, &[METAL]).await?;
    for who in [&target.as_who(None), &target.api] {
        watch.refused(who.post("webhooks/github", json!({})).await?, 401, "unauthorized").await?;
        watch.refused(who.post("webhooks/gitlab", json!({})).await?, 404, "not_found").await?;
        let signed = who.request(Method::POST, "webhooks/github").header("x-hub-signature-256", "sha256=00");
        watch.refused(who.send(signed.json(&json!({}))).await?, 401, "unauthorized").await?;
    }
    Ok(())
}

/// Every operation that needs a token.
async fn guarded(target: &Target) -> Result<Vec<Operation>> {
    let all = operations(target).await?;
    let tokens = ["operator", "team", "runner"].map(str::to_owned).into();
    Ok(all.into_iter().filter(|operation| !operation.open_to.is_disjoint(&tokens)).collect())
}

/// A request to the operation with a path that leads somewhere, and a body that is wrong: who may not must not learn that.
fn request(who: &Api, operation: &Operation) -> Result<reqwest::RequestBuilder> {
    let names = [
        ("{pool}", METAL),
        ("{claim}", "c-1"),
        ("{runner}", "nobody"),
        ("{name}", "job-1-1739451000-a1b2c3d4"),
    ];
    let path =
        names.into_iter().fold(operation.path.clone(), |path, (place, name)| path.replace(place, name));
    let request = who.request(operation.method.parse()?, &path);
    Ok(match operation.method.as_str() {
        "GET" | "DELETE" => request,
        _ => request.json(&json!({})),
    })
}
