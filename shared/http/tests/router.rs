//! The whole router over a real control plane, with its ledger and queues in memory: every route, one machine's way through a
//! claim with its long polls, and what is refused.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on ends here")]

mod seen;
mod site;

use motorpool_control::token_sha256;
use motorpool_http::{HttpLimits, document};
use motorpool_wire::error::ErrorCode::{
    Conflict, Forbidden, InvalidRequest, NotFound, TooManyRequests, Unauthorized,
};
use seen::{call, get, send};
use serde_json::{Value, json};
use site::{ADMIN, RUNNER, TEAM, site};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// What tells a runner from its token alone.
const SELF: &str = "/api/v1/agent/self";
const BY_TOKEN: [&str; 6] = [
    "/api/v1/ws/agent",
    SELF,
    "/api/v1/checkpoint/create",
    "/api/v1/checkpoint/finalize",
    "/api/v1/checkpoint/status/{name}",
    "/api/v1/runner/readiness",
];
/// Routes of an agent, which its own token opens.
const AGENTS: [&str; 2] = ["/api/v1/agent/sync", "/api/v1/agent/registration"];
const OPEN: [&str; 5] =
    ["/health", "/ready", "/api/v1/healthz", "/api/v1/openapi.json", "/api/v1/agent/bootstrap"];
/// What no token opens, but a signature.
const SIGNED: [&str; 2] = ["/api/v1/webhooks/github", "/api/v1/webhooks/gitlab"];

/// Every operation of the document, as method and path.
fn operations() -> Vec<(String, String)> {
    let document = serde_json::to_value(document()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().keys();
            methods.map(|method| (method.to_uppercase(), path.clone())).collect::<Vec<_>>()
        })
        .collect()
}

fn filled(path: &str) -> String {
    path.replace("{claim}", "c-1")
        .replace("{pool}", "macs")
        .replace("{runner}", "mac-01")
        .replace("{name}", "job-1-2-a1b2c3d4")
}

#[test]
fn the_document_has_the_routes_that_were_promised() {
    let mut found = operations();
    found.sort();
    let mut promised: Vec<(String, String)> = [
        "POST /api/v1/provision",
        "POST /api/v1/claim",
        "POST /api/v1/release",
        "POST /api/v1/refresh",
        "GET /api/v1/claims",
        "GET /api/v1/claims/{claim}",
        "GET /api/v1/claims/{claim}/why",
        "PUT /api/v1/pools/{pool}",
        "GET /api/v1/pools/{pool}",
        "DELETE /api/v1/pools/{pool}",
        "GET /api/v1/pools",
        "POST /api/v1/pools/{pool}/plan",
        "POST /api/v1/runners",
        "GET /api/v1/runners",
        "GET /api/v1/runners/{runner}",
        "PATCH /api/v1/runners/{runner}",
        "DELETE /api/v1/runners/{runner}",
        "POST /api/v1/runners/{runner}/release",
        "POST /api/v1/runners/{runner}/token",
        "GET /api/v1/alerts",
        "GET /api/v1/audit",
        "POST /api/v1/agent/bootstrap",
        "GET /api/v1/agent/self",
        "POST /api/v1/agent/sync",
        "POST /api/v1/agent/registration",
        "GET /api/v1/ws/agent",
        "GET /api/v1/internal/agent/{runner}/connected",
        "POST /api/v1/internal/agent/{runner}/exec",
        "POST /api/v1/checkpoint/create",
        "POST /api/v1/checkpoint/finalize",
        "GET /api/v1/checkpoint/status/{name}",
        "GET /api/v1/runner/readiness",
        "POST /api/v1/webhooks/github",
        "POST /api/v1/webhooks/gitlab",
        "GET /api/v1/healthz",
        "GET /api/v1/openapi.json",
        "GET /health",
        "GET /ready",
        "GET /metrics",
    ]
    .iter()
    .map(|line| line.split_once(' ').unwrap())
    .map(|(method, path)| (method.to_owned(), path.to_owned()))
    .collect();
    promised.sort();
    assert_eq!(found, promised);
}

/// The other way round, a route that is mounted is in the document, since mounting is what puts it there. So here: what is in
/// the document is mounted, and a method that is not, is not.
#[tokio::test]
async fn the_router_has_the_routes_of_the_document_and_no_other_method() {
    let site = site(HttpLimits::default());
    let all = operations();
    for (method, path) in &all {
        let seen = site.as_admin(method, &filled(path), &json!({})).await;
        assert_ne!(seen.status.as_u16(), 405, "{method} {path}");
        assert!(!seen.text.contains("there is no route"), "{method} {path}: {}", seen.text);
    }
    for (_, path) in &all {
        for method in ["GET", "PUT", "POST", "DELETE", "PATCH"] {
            if all.contains(&(method.to_owned(), path.clone())) {
                continue;
            }
            let seen = site.as_admin(method, &filled(path), &json!({})).await;
            seen.refused(405, InvalidRequest);
            let allow = seen.header("allow").unwrap();
            assert!(!allow.is_empty() && !allow.contains(method), "{method} {path}: {allow}");
        }
    }
}

#[tokio::test]
async fn the_document_is_whole() {
    let site = site(HttpLimits::default());
    let served = send(&site.router, get("/api/v1/openapi.json")).await.json(200);
    assert_eq!(served, serde_json::to_value(document()).unwrap());

    // Each reference leads somewhere.
    let text = served.to_string();
    let schemas = served["components"]["schemas"].as_object().unwrap();
    for reference in text.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
    // Each route has a name of its own, tells of the error envelope, and names tokens that are described.
    let mut ids = BTreeSet::new();
    let schemes = served["components"]["securitySchemes"].as_object().unwrap();
    for (path, item) in served["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let error = &operation["responses"]["default"]["content"]["application/json"]["schema"]["$ref"];
            assert_eq!(error, "#/components/schemas/ErrorEnvelope", "{method} {path}");
            assert!(ids.insert(operation["operationId"].to_string()), "{method} {path}: {ids:?}");
            for scheme in operation["security"].as_array().into_iter().flatten() {
                assert!(scheme.as_object().unwrap().keys().all(|name| schemes.contains_key(name)), "{path}");
            }
        }
    }
}

#[tokio::test]
async fn without_a_token_only_the_open_routes_answer() {
    let site = site(HttpLimits::default());
    for (method, path) in operations() {
        if OPEN.contains(&path.as_str()) || SIGNED.contains(&path.as_str()) {
            continue;
        }
        for token in [None, Some("nobodys")] {
            let seen = send(&site.router, call(&method, &filled(&path), token, "{}")).await;
            // What names a runner must be read before its token can be compared.
            if AGENTS.contains(&path.as_str()) && token.is_some() {
                seen.refused(400, InvalidRequest);
            } else {
                seen.refused(401, Unauthorized);
            }
        }
    }
}

#[tokio::test]
async fn refuse_8_a_runners_token_opens_nothing_but_its_own_routes() {
    let site = site(HttpLimits::default()).with_a_machine().await;
    for (method, path) in operations() {
        if [&OPEN[..], &SIGNED, &AGENTS, &BY_TOKEN].concat().contains(&path.as_str()) {
            continue;
        }
        site.ask(&method, &filled(&path), RUNNER, &json!({})).await.refused(403, Forbidden);
    }
    let sync = |runner: &str| json!({"runner": runner, "epoch": 1, "boot_id": "b", "protocol": 3, "agent_version": "1"});
    site.ask("POST", "/api/v1/agent/sync", RUNNER, &sync("mac-01")).await.json(200);
    site.ask("POST", "/api/v1/agent/sync", RUNNER, &sync("mac-02")).await.refused(401, Unauthorized);
    let own = site.ask("GET", SELF, RUNNER, &Value::Null).await.json(200);
    assert_eq!(own, json!({"runner": "mac-01", "pool": "macs", "epoch": 1, "state": "created"}));
    let register = |runner: &str| json!({"runner": runner, "epoch": 1, "label": "motorpool-c-1", "count": 1});
    // It is known; but nobody holds it, so there is nothing to register it for.
    site.ask("POST", "/api/v1/agent/registration", RUNNER, &register("mac-01")).await.refused(409, Conflict);
    site.ask("POST", "/api/v1/agent/registration", RUNNER, &register("mac-02"))
        .await
        .refused(401, Unauthorized);
    for token in [ADMIN, TEAM] {
        site.ask("GET", SELF, token, &Value::Null).await.refused(401, Unauthorized);
        site.ask("POST", "/api/v1/agent/sync", token, &sync("mac-01")).await.refused(401, Unauthorized);
        let asked = site.ask("POST", "/api/v1/agent/registration", token, &register("mac-01")).await;
        asked.refused(401, Unauthorized);
    }
}

#[tokio::test]
async fn refuse_10_a_rotated_token_is_void() {
    let site = site(HttpLimits::default()).with_a_machine().await;
    site.as_admin("POST", "/api/v1/runners/mac-01/token", &Value::Null).await.json(200);
    let sync = json!({"runner": "mac-01", "epoch": 1, "boot_id": "b", "protocol": 3, "agent_version": "1"});
    site.ask("POST", "/api/v1/agent/sync", RUNNER, &sync).await.refused(401, Unauthorized);
    site.ask("GET", SELF, RUNNER, &Value::Null).await.refused(401, Unauthorized);
}

/// Its agent has another by now; and who has no session is no process of an agent's that was overtaken.
#[tokio::test]
async fn refuse_22_who_comes_with_a_replaced_token_raises_an_alert_and_takes_its_runner_out_of_its_pool() {
    let site = site(HttpLimits::default()).with_a_machine().await;
    let epoch = site.work().await["epoch"].clone();
    let names =
        json!({"epoch": epoch, "session": "its own", "next_token_sha256": token_sha256("mp_runner_next")});
    assert_eq!(site.sync(&names, 0).await["token_taken"], true);
    let copied =
        json!({"runner": "mac-01", "epoch": epoch, "boot_id": "b", "protocol": 3, "agent_version": "1"});
    site.ask("POST", "/api/v1/agent/sync", RUNNER, &copied).await.refused(401, Unauthorized);
    let runner = site.as_admin("GET", "/api/v1/runners/mac-01", &Value::Null).await.json(200);
    assert_eq!(runner["state"], "quarantined", "{runner}");
    let told = site.as_admin("GET", "/api/v1/alerts", &Value::Null).await.json(200);
    let is_it = |alert: &Value| alert["incident"] == "token_misused" && alert["subject"] == "mac-01";
    assert!(told["alerts"].as_array().unwrap().iter().any(is_it), "{told}");
}

#[tokio::test]
async fn refuse_9_a_team_does_nothing_that_is_the_operators() {
    let site = site(HttpLimits::default()).with_a_machine().await;
    let pool = json!({"backend": "bare_metal"});
    let machine = json!({"runner_id": "mac-02", "pool": "macs"});
    for (method, path, body) in [
        ("POST", "/api/v1/refresh", &Value::Null),
        ("PUT", "/api/v1/pools/macs", &pool),
        ("DELETE", "/api/v1/pools/macs", &Value::Null),
        ("POST", "/api/v1/runners", &machine),
        ("PATCH", "/api/v1/runners/mac-01", &json!({"cpu": 1})),
        ("DELETE", "/api/v1/runners/mac-01", &Value::Null),
        ("POST", "/api/v1/runners/mac-01/release", &Value::Null),
        ("POST", "/api/v1/runners/mac-01/token", &Value::Null),
        ("GET", "/metrics", &Value::Null),
    ] {
        site.ask(method, path, TEAM, body).await.refused(403, Forbidden);
    }
}

#[tokio::test]
async fn a_claim_is_followed_by_long_polls_from_provision_to_release() {
    let site = Arc::new(site(HttpLimits::default()).with_a_machine().await);
    let idle = site.work().await;
    assert_eq!(idle["state"], "idle");

    // The agent waits for its next task, and the workflow for its runner: neither asks twice.
    let waiting_agent = {
        let site = Arc::clone(&site);
        tokio::spawn(async move { site.sync(&json!({"epoch": 2}), 60_000).await })
    };
    let ask = json!({"workflow": "gh-1", "pool": "macs"});
    let claim = site.ask("POST", "/api/v1/provision", TEAM, &ask).await.json(202);
    assert_eq!(claim["state"], "pending", "{claim}");
    let path = format!("/api/v1/claims/{}", claim["claim"].as_str().unwrap());
    let waiting_workflow = {
        let (site, path) = (Arc::clone(&site), format!("{path}?wait=60"));
        tokio::spawn(async move { site.ask("GET", &path, TEAM, &Value::Null).await.json(200) })
    };
    let task = waiting_agent.await.unwrap()["task"].clone();
    assert_eq!(task["kind"]["register"]["label"], claim["label"], "{task}");
    let running = site.work().await;
    assert_eq!(running["state"], "running");
    let ready = waiting_workflow.await.unwrap();
    assert_eq!(ready["state"], "ready", "{ready}");
    assert_eq!(ready["runners"][0]["runner"], "mac-01");
    assert_eq!(site.notifier.waited_for(), 0);

    let why = site.ask("GET", &format!("{path}/why"), TEAM, &Value::Null).await.json(200);
    assert_eq!(why["state"], "ready");
    let listed = site.ask("GET", "/api/v1/claims?pool=macs", TEAM, &Value::Null).await.json(200);
    assert_eq!(listed["claims"][0]["claim"], claim["claim"]);
    let audit = site.as_admin("GET", "/api/v1/audit?subject=mac-01", &Value::Null).await.json(200);
    assert!(!audit["entries"].as_array().unwrap().is_empty());

    let over = json!({"workflow": "gh-1"});
    let released = site.ask("POST", "/api/v1/release", TEAM, &over).await.json(202);
    assert_eq!(released["state"], "released");
    let idle = site.work().await;
    assert_eq!(idle["state"], "idle");
}

/// Where an answer is not held, asking to wait is no mistake. An answer that were held would be given up by the limit.
#[tokio::test]
async fn an_answer_is_held_no_longer_than_the_deployment_may() {
    let limits = HttpLimits {
        claim_hold: Duration::ZERO,
        sync_hold: Duration::ZERO,
        request: Duration::from_secs(10),
        ..HttpLimits::default()
    };
    let site = site(limits).with_a_machine().await;
    site.work().await;
    let idle = site.sync(&json!({"epoch": 2}), 60_000).await;
    assert_eq!((&idle["state"], &idle["task"]), (&json!("idle"), &Value::Null));
    let ask = json!({"workflow": "gh-1", "pool": "macs", "count": 2});
    let claim = site.ask("POST", "/api/v1/provision", TEAM, &ask).await.json(202);
    let path = format!("/api/v1/claims/{}", claim["claim"].as_str().unwrap());
    let followed = site.ask("GET", &format!("{path}?wait=60"), TEAM, &Value::Null).await.json(200);
    assert_eq!(followed["state"], "pending");
    site.ask("GET", &format!("{path}?wait=61"), TEAM, &Value::Null).await.json(400);
}

#[tokio::test]
async fn closing_the_notifier_ends_long_polls() {
    let site = Arc::new(site(HttpLimits::default()).with_a_machine().await);
    site.work().await;
    let waiting = {
        let site = Arc::clone(&site);
        tokio::spawn(async move { site.sync(&json!({"epoch": 2}), 60_000).await })
    };
    while site.notifier.waited_for() == 0 {
        assert!(!waiting.is_finished(), "it did not wait");
        tokio::task::yield_now().await;
    }
    site.notifier.close();
    assert_eq!(waiting.await.unwrap()["state"], "idle");
}

#[tokio::test]
async fn refuse_18_bodies_are_bounded_route_by_route() {
    let site = site(HttpLimits::default());
    let padded = |bytes: usize| format!("{}{{}}", " ".repeat(bytes - 2));
    let with = |path: &str, body: String| call("POST", path, Some(ADMIN), body);
    for (path, most) in [
        ("/api/v1/provision", 64 * 1024),
        ("/api/v1/agent/bootstrap", 64 * 1024),
        ("/api/v1/agent/sync", 256 * 1024),
    ] {
        send(&site.router, with(path, padded(most))).await.refused(400, InvalidRequest);
        send(&site.router, with(path, padded(most + 1))).await.refused(413, InvalidRequest);
    }
}

#[tokio::test]
async fn refuse_18_a_full_house_says_so_and_still_tells_that_it_lives() {
    let limits = HttpLimits { api_at_once: 1, waits_at_once: 0, agents_at_once: 0, ..HttpLimits::default() };
    let site = site(limits);
    for path in ["/api/v1/claims/c-1", "/api/v1/agent/sync", "/api/v1/agent/bootstrap"] {
        let method = if path.contains("agent") { "POST" } else { "GET" };
        let seen = site.as_admin(method, path, &json!({})).await;
        seen.refused(429, TooManyRequests);
        assert_eq!(seen.header("retry-after"), Some("1"));
    }
    assert_eq!(send(&site.router, get("/health")).await.json(200)["status"], "ok");
    assert_eq!(send(&site.router, get("/ready")).await.json(200)["status"], "ok");
    site.as_admin("GET", "/api/v1/pools", &Value::Null).await.json(200);
}

#[tokio::test]
async fn bad_ids_and_queries_are_refused_in_words() {
    let site = site(HttpLimits::default()).with_a_machine().await;
    for (method, path, word) in [
        ("GET", "/api/v1/claims/seven", "'c-' followed by"),
        ("GET", "/api/v1/claims/c-1?wait=61", "0 to 60"),
        ("GET", "/api/v1/claims/c-1?wait=-1", "wait"),
        ("GET", "/api/v1/claims/c-1?wiat=1", "unknown field `wiat`"),
        ("GET", "/api/v1/pools/Macs", "a pool's name must be"),
        ("GET", "/api/v1/runners?include_inactive=perhaps", "include_inactive"),
        ("GET", "/api/v1/runners?pool=macs&state=lazy", "unknown variant `lazy`"),
        ("GET", "/api/v1/runners?pool=macs&limit=0", "1 to 500"),
        ("GET", "/api/v1/runners?pool=macs&limit=501", "1 to 500"),
        ("DELETE", "/api/v1/runners/mac-01?drain=true&force=true", "drain and force"),
        ("DELETE", "/api/v1/runners/mac-01?drain=yes", "drain"),
        ("POST", "/api/v1/refresh?sweep=later", "unknown variant `later`"),
    ] {
        let error = site.as_admin(method, path, &Value::Null).await.refused(400, InvalidRequest);
        assert!(error.message.contains(word), "{path}: {error:?}");
    }
    site.as_admin("GET", "/api/v1/claims/c-1", &Value::Null).await.refused(404, NotFound);
    for path in ["/", "/api/v1", "/api/v1/", "/api/v2/pools", "/api/v1/pools/", "/api/v1/runners/a/b"] {
        site.as_admin("GET", path, &Value::Null).await.refused(404, NotFound);
    }
}

#[tokio::test]
async fn each_answer_has_a_request_id() {
    let site = site(HttpLimits::default());
    let with = |id: &str| {
        let mut request = get("/health");
        request.headers_mut().insert("x-request-id", id.parse().unwrap());
        request
    };
    assert_eq!(send(&site.router, with("Job-42")).await.header("x-request-id"), Some("Job-42"));
    for strange in ["a b", "a;b", "", &"a".repeat(65)] {
        let seen = send(&site.router, with(strange)).await;
        let made = seen.header("x-request-id").unwrap();
        assert!(made != strange && made.len() == 32, "{made}");
    }
    assert!(send(&site.router, get("/nowhere")).await.header("x-request-id").is_some());
}

#[tokio::test]
async fn metrics_tell_of_pools_and_of_requests() {
    let site = site(HttpLimits::default()).with_a_machine().await;
    send(&site.router, get("/nowhere")).await;
    let seen = site.as_admin("GET", "/metrics", &Value::Null).await;
    assert_eq!(seen.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        "motorpool_runners{pool=\"macs\",state=\"created\"} 1",
        "motorpool_runners{pool=\"macs\",state=\"idle\"} 0",
        "motorpool_slots_used{pool=\"macs\"} 1",
        "motorpool_slots_max{pool=\"macs\"} 100",
        "motorpool_claims_waiting{pool=\"macs\"} 0",
        "motorpool_http_requests_total{route=\"/api/v1/pools/{pool}\",method=\"PUT\",status=\"2xx\"} 1",
        "motorpool_http_requests_total{route=\"unmatched\",method=\"GET\",status=\"4xx\"} 1",
    ] {
        assert!(seen.text.lines().any(|found| found == line), "{line}\n{}", seen.text);
    }
}
