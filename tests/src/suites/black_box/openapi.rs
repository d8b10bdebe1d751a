//! The OpenAPI document and the service's own routes: whole, true, and open to those whom it says.

use super::target::{Habits, text};
use super::{SMALL, Target, checkpoints};
use crate::fakes::fake_agent::FakeAgent;
use crate::harness::wait::until;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// One operation of the document.
#[derive(Debug, Clone)]
pub struct Operation {
    pub method: String,
    pub path: String,
    /// Whose tokens open it; empty if it needs none.
    pub open_to: BTreeSet<String>,
}

pub async fn operations(target: &Target) -> Result<Vec<Operation>> {
    let document = document(target).await?;
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().context("paths")? {
        for (method, operation) in item.as_object().context("a path's operations")? {
            let security = operation.get("security").unwrap_or(&document["security"]);
            let open_to = security
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_object)
                .flat_map(|schemes| schemes.keys().cloned())
                .collect();
            all.push(Operation { method: method.to_uppercase(), path: path.clone(), open_to });
        }
    }
    Ok(all)
}

pub async fn the_document_has_every_route_of_the_design(target: &Target) -> Result<()> {
    let document = document(target).await?;
    ensure!(text(&document, "openapi").starts_with('3'), "a version 3 document");
    let known: BTreeSet<String> = operations(target)
        .await?
        .iter()
        .map(|operation| format!("{} {}", operation.method, operation.path))
        .collect();
    for route in [
        "POST /api/v1/provision",
        "POST /api/v1/claim",
        "POST /api/v1/release",
        "POST /api/v1/refresh",
        "GET /api/v1/claims/{claim}",
        "GET /api/v1/claims/{claim}/why",
        "PUT /api/v1/pools/{pool}",
        "GET /api/v1/pools/{pool}",
        "DELETE /api/v1/pools/{pool}",
        "GET /api/v1/pools",
        "POST /api/v1/runners",
        "GET /api/v1/runners",
        "GET /api/v1/runners/{runner}",
        "PATCH /api/v1/runners/{runner}",
        "DELETE /api/v1/runners/{runner}",
        "POST /api/v1/runners/{runner}/token",
        "GET /api/v1/audit",
        "GET /api/v1/alerts",
        "POST /api/v1/agent/bootstrap",
        "GET /api/v1/agent/self",
        "POST /api/v1/agent/sync",
        "GET /api/v1/ws/agent",
        "GET /api/v1/internal/agent/{runner}/connected",
        "POST /api/v1/internal/agent/{runner}/exec",
        "POST /api/v1/webhooks/github",
        "POST /api/v1/webhooks/gitlab",
        "GET /health",
        "GET /ready",
        "GET /metrics",
    ] {
        ensure!(known.contains(route), "{route} is missing");
    }
    Ok(())
}

pub async fn the_document_refers_only_to_what_it_has(target: &Target) -> Result<()> {
    let document = document(target).await?;
    let mut references = Vec::new();
    collect(&document, &mut references);
    ensure!(!references.is_empty(), "no references");
    for reference in references {
        let pointer = reference.strip_prefix('#').context("a reference within the document")?;
        ensure!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    for (path, item) in document["paths"].as_object().context("paths")? {
        for (method, operation) in item.as_object().context("operations")? {
            let default = &operation["responses"]["default"]["content"]["application/json"]["schema"]["$ref"];
            ensure!(default == "#/components/schemas/ErrorEnvelope", "{method} {path} names no envelope");
        }
    }
    Ok(())
}

/// What really comes has the fields that the document promises, and no others.
pub async fn answers_have_the_documents_fields(target: &Target) -> Result<()> {
    let document = document(target).await?;
    let pool = target.metal_pool("true", json!({})).await?;
    let runner = target.name("true-1");
    let registered = crate::fakes::fake_agent::register(&target.api, &pool, &runner, json!({})).await?;
    fits(&document, "RegisteredRunner", &registered)?;
    let agent = FakeAgent::new(&target.api, &runner);
    let secret = crate::fakes::fake_agent::secret_of(&registered)?;
    fits(&document, "BootstrapAnswer", &agent.bootstrap(&secret).await?.expect(200)?)?;
    let synced = agent.sync().await?.expect(200)?;
    fits(&document, "SyncAnswer", &synced)?;
    fits(&document, "TaskOrder", &synced["task"])?;
    let claim = target.api.provision("true", &pool, 1).await?;
    fits(&document, "ClaimView", &claim)?;
    fits(&document, "ClaimsPage", &target.api.get(&format!("claims?pool={pool}")).await?.body)?;
    fits(
        &document,
        "WhyView",
        &target.api.get(&format!("claims/{}/why", text(&claim, "claim"))).await?.body,
    )?;
    fits(&document, "PoolView", &target.api.pool(&pool).await?)?;
    fits(&document, "PoolsPage", &target.api.get("pools").await?.body)?;
    fits(&document, "RunnerView", &target.api.runner(&runner).await?)?;
    fits(&document, "RunnersPage", &target.api.get(&format!("runners?pool={pool}")).await?.body)?;
    fits(&document, "AuditPage", &target.api.get(&format!("audit?subject={runner}")).await?.body)?;
    fits(&document, "AlertsPage", &target.api.get("alerts?all=true").await?.body)?;
    fits(&document, "RefreshReport", &target.api.refresh().await?)?;
    let (_, machine) = checkpoints::hooked(target, "true-hook", json!({})).await?;
    let begun = checkpoints::create(&machine, "1").await?.expect(201)?;
    fits(&document, "CheckpointView", &begun)?;
    let ended = checkpoints::finalize(&machine.api, text(&begun, "name"), "success").await?;
    fits(&document, "FinalizeAnswer", &ended)?;
    fits(&document, "Readiness", &machine.api.get("runner/readiness").await?.expect(200)?)?;
    let refusal = target.api.get("pools/nowhere").await?.expect(404)?;
    fits(&document, "ErrorEnvelope", &refusal)?;
    fits(&document, "ErrorBody", &refusal["error"])
}

pub async fn the_service_tells_how_it_is(target: &Target) -> Result<()> {
    let nobody = target.as_who(None);
    for path in ["/health", "/ready", "/api/v1/healthz"] {
        let answer = nobody.get(path).await?.expect(200)?;
        ensure!(answer == json!({"status": "ok"}), "{path}: {answer}");
    }
    nobody.get("/metrics").await?.refusal(401)?;
    target.team_a.get("/metrics").await?.refusal(403)?;
    // Each process counts its own: where there are several, the figures may be of another than the one that was asked before.
    let asked = "motorpool_http_requests_total{route=\"/health\",method=\"GET\",status=\"2xx\"}";
    let figures = until("the figures count what was asked", async || {
        nobody.get("/health").await?.expect(200)?;
        let figures = target.api.get("/metrics").await?.expect(200)?.as_str().context("text")?.to_owned();
        let counted = figures.contains(asked);
        ensure!(counted || target.habits == Habits::Functions, "{asked} is not in {figures}");
        Ok(counted.then_some(figures))
    })
    .await?;
    for figure in [
        format!("motorpool_runners{{pool=\"{SMALL}\",state=\"idle\"}}"),
        format!("motorpool_slots_max{{pool=\"{SMALL}\"}} 3"),
        format!("motorpool_slots_used{{pool=\"{SMALL}\"}}"),
        format!("motorpool_claims_waiting{{pool=\"{SMALL}\"}}"),
    ] {
        ensure!(figures.contains(&figure), "{figure} is not in {figures}");
    }
    Ok(())
}

async fn document(target: &Target) -> Result<Value> {
    target.as_who(None).get("openapi.json").await?.expect(200)
}

fn collect<'a>(value: &'a Value, references: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            references.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|field| collect(field, references));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn fits(document: &Value, schema: &str, answer: &Value) -> Result<()> {
    let described = &document["components"]["schemas"][schema];
    let properties = described["properties"].as_object().with_context(|| format!("no schema {schema}"))?;
    let fields = answer.as_object().with_context(|| format!("{schema} is no object: {answer}"))?;
    for name in fields.keys() {
        ensure!(properties.contains_key(name), "{schema} does not describe {name}: {answer}");
    }
    for name in described["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        ensure!(fields.contains_key(name), "{schema} promises {name}: {answer}");
    }
    Ok(())
}
