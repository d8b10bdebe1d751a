//! Values that must not get in: what a shell or a path knows, and what is the control plane's own to set.

use super::target::metal_settings;
use super::{Target, Watch};
use crate::fakes::fake_agent::{FakeAgent, register};
use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};

/// What would be dangerous in a script, a path or a log line.
const DANGEROUS: [&str; 16] = [
    "$(touch /tmp/x)",
    "`id`",
    "a;b",
    "a|b",
    "a&b",
    "a>b",
    "a b",
    "a\nb",
    "a\r\nb",
    "a\0b",
    "a'b",
    "a\"b",
    "../../etc/passwd",
    "-rf",
    "${IFS}",
    "\u{202e}ab",
];

/// In bodies: each field that becomes an id, a label, or a value for a command.
pub async fn refuse_13_ids_hold_nothing_that_a_shell_or_a_path_knows(target: &Target) -> Result<()> {
    let pool = target.metal_pool("shell", json!({})).await?;
    let runner = target.name("shell-1");
    register(&target.api, &pool, &runner, json!({})).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    for bad in DANGEROUS {
        for (path, body) in [
            ("provision", json!({"workflow": bad, "pool": pool})),
            ("provision", json!({"workflow": "w", "pool": bad})),
            ("provision", json!({"workflow": "w", "pool": pool, "resource_class": bad})),
            ("provision", json!({"workflow": "w", "pool": pool, "usage": bad})),
            ("claim", json!({"workflow": bad, "pool": pool})),
            ("release", json!({"workflow": bad})),
            ("release", json!({"workflow": "w", "pool": bad})),
            ("release", json!({"workflow": "w", "owner": bad})),
            ("runners", json!({"runner_id": bad, "pool": pool})),
            ("runners", json!({"runner_id": "x", "pool": bad})),
            ("runners", json!({"runner_id": "x", "pool": pool, "instance_type": bad})),
            (
                "agent/bootstrap",
                json!({"runner": bad, "secret": "s", "token_sha256": "", "machine_id": "", "boot_id": ""}),
            ),
            (
                "agent/sync",
                json!({"runner": bad, "epoch": 1, "boot_id": "b", "protocol": 3, "agent_version": "v"}),
            ),
            (
                "agent/sync",
                json!({"runner": "x", "epoch": 1, "boot_id": "b", "protocol": 3, "agent_version": "v", "registered": bad}),
            ),
            (
                "agent/sync",
                json!({"runner": "x", "epoch": 1, "boot_id": "b", "protocol": 3, "agent_version": "v", "busy": bad}),
            ),
        ] {
            let answer = target.api.post(path, body.clone()).await?;
            watch.refused(answer, 400, "invalid_request").await.with_context(|| format!("{path} {body}"))?;
        }
        // A type pattern may start with a dash and hold spaces, as several patterns do; no more than that.
        if !["a b", "-rf", "a\nb", "a\r\nb"].contains(&bad) {
            let body = json!({"workflow": "w", "pool": pool, "allowed_instance_types": bad});
            let answer = target.api.post("provision", body).await?;
            watch.refused(answer, 400, "invalid_request").await.with_context(|| format!("globs {bad:?}"))?;
        }
    }
    Ok(())
}

/// In paths and queries.
pub async fn refuse_13_paths_and_queries_hold_nothing_that_a_shell_or_a_path_knows(
    target: &Target,
) -> Result<()> {
    let pool = target.metal_pool("urls", json!({})).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    for bad in DANGEROUS {
        let coded: String = bad.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for path in [
            format!("pools/{coded}"),
            format!("claims/{coded}"),
            format!("claims/{coded}/why"),
            format!("runners/{coded}"),
            format!("runners?pool={coded}"),
            format!("runners?pool={pool}&state={coded}"),
            format!("claims?pool={coded}"),
            format!("audit?subject=pool:{coded}"),
        ] {
            let answer = target.api.get(&path).await?;
            watch
                .refused(answer, 400, "invalid_request")
                .await
                .with_context(|| format!("{path} ({bad:?})"))?;
        }
        let answer = target.api.delete(&format!("runners/{coded}?force=true")).await?;
        watch.refused(answer, 400, "invalid_request").await?;
        let settings = metal_settings();
        let answer = target.api.put(&format!("pools/{coded}"), settings).await?;
        watch.refused(answer, 400, "invalid_request").await?;
    }
    Ok(())
}

/// Fields that belong to the control plane are not a caller's to set, by any route.
pub async fn refuse_12_state_epoch_owner_and_token_are_not_assigned(target: &Target) -> Result<()> {
    let pool = target.metal_pool("assign", json!({})).await?;
    let agent = FakeAgent::idle(&target.api, &pool, &target.name("assign-1"), json!({})).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    let bootstrap = json!({
        "runner": agent.runner, "secret": "s", "token_sha256": "a".repeat(64), "machine_id": "m", "boot_id": "b",
    });
    for (who, method, path, body, fields) in [
        (
            &target.team_a,
            Method::POST,
            "provision".to_owned(),
            json!({"workflow": "w", "pool": pool}),
            vec![
                "owner",
                "claim",
                "state",
                "label",
                "runners",
                "short",
                "rev",
                "threshold_in_ms",
                "idle_only",
                "token",
            ],
        ),
        (
            &target.team_a,
            Method::POST,
            "claim".to_owned(),
            json!({"workflow": "w", "pool": pool}),
            vec!["owner", "claim", "state", "runner", "epoch", "token"],
        ),
        (
            &target.team_a,
            Method::POST,
            "release".to_owned(),
            json!({"workflow": "w"}),
            vec!["state", "claim", "runner", "epoch", "token", "caller"],
        ),
        (
            &target.api,
            Method::POST,
            "runners".to_owned(),
            json!({"runner_id": target.name("assign-2"), "pool": pool}),
            vec![
                "state",
                "epoch",
                "owner",
                "token",
                "token_sha256",
                "secret",
                "kept",
                "claim",
                "proof",
                "launch",
                "usage",
            ],
        ),
        (
            &target.api,
            Method::PUT,
            format!("pools/{pool}"),
            metal_settings(),
            vec!["pool", "used", "source", "retired", "counts", "state", "owner", "token"],
        ),
    ] {
        for field in fields {
            let mut body = body.clone();
            body[field] = json!("idle");
            let answer = who.send(who.request(method.clone(), &path).json(&body)).await?;
            watch
                .refused_naming(answer, 400, "invalid_request", field)
                .await
                .with_context(|| format!("{path} with {field}"))?;
        }
    }
    // What an agent says beyond the protocol may be the next version's: it is ignored, and assigns nothing.
    let plain = agent.say(agent.report()).await?.expect(200)?;
    let known = |answer: &Value| ["epoch", "state", "kept", "end", "task"].map(|field| answer[field].clone());
    for field in
        ["state", "pool", "claim", "owner", "token", "proof", "kept", "draining", "threshold", "credential"]
    {
        let mut report = agent.report();
        report[field] = json!("idle");
        let answer = agent.say(report).await?.expect(200).with_context(|| format!("a sync with {field}"))?;
        ensure!(known(&answer) == known(&plain), "{field} was assigned: {answer}");
        watch.unchanged().await.with_context(|| format!("a sync with {field}"))?;
    }
    for results in [
        json!([{"task": "1-prepare-1", "outcome": "done", "epoch": 9}]),
        json!([{"task": "1-prepare-1", "outcome": {"failed": {"why": "x", "state": "idle"}}}]),
    ] {
        let mut report = agent.report();
        report["results"] = results;
        let answer = agent.say(report).await?.expect(200)?;
        ensure!(known(&answer) == known(&plain), "a result assigned something: {answer}");
        watch.unchanged().await?;
    }
    for field in ["state", "epoch", "owner", "token", "pool", "kept"] {
        let mut body = bootstrap.clone();
        body[field] = json!("idle");
        let answer = target.as_who(None).post("agent/bootstrap", body).await?;
        watch
            .refused(answer, 401, "unauthorized")
            .await
            .with_context(|| format!("a bootstrap with {field}"))?;
    }
    let nothing: Vec<Value> = Vec::new();
    let claims = target.api.get(&format!("claims?pool={pool}")).await?.expect(200)?;
    ensure!(claims["claims"] == json!(nothing), "{claims}");
    Ok(())
}
