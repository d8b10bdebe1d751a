//! The request log: one line a request, with what it should hold, and never a token, a query or a body.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on ends here")]

mod lines;
mod seen;
mod sent;
mod site;

use lines::Lines;
use motorpool_http::HttpLimits;
use seen::{call, get, send};
use serde_json::Value;
use site::{ADMIN, RUNNER, site, site_with_webhooks};

/// One line for each event that was truly sent: what it was, and what came of it.
#[tokio::test]
async fn refuse_17_a_webhooks_line_tells_neither_its_body_nor_a_secret() {
    let lines = Lines::default();
    let _until_the_end = tracing::subscriber::set_default(lines.subscriber());

    let site = site_with_webhooks(sent::secrets(sent::SECRET), HttpLimits::default());
    let event = sent::github_event("canary-runner", "success", "2100-01-01T00:00:00Z");
    sent::sent_by_github(&site.router, "72d3162e", &event).await.json(200);
    send(&site.router, sent::signed(&"x".repeat(100), "not an id", "canary-body".to_owned())).await.json(200);
    send(&site.router, sent::signed("workflow_job", "1", r#"{"action":"canary""#.to_owned())).await;
    sent::by_gitlab(&site.router, "canary-token", &sent::gitlab_event("success")).await;

    let told: Vec<_> = lines
        .that_begin("a webhook was taken")
        .into_iter()
        .map(|line| ["system", "event", "delivery", "outcome"].map(|field| line[field].clone()))
        .collect();
    assert_eq!(
        told,
        [
            ["github", "workflow_job", "72d3162e", "no such job here"].map(Value::from),
            ["github", &"x".repeat(64), "not an id", "ignored"].map(Value::from),
        ]
    );
    let callers: Vec<_> = lines.answered().iter().map(|line| line["caller"].clone()).collect();
    assert_eq!(callers, ["ci system", "ci system", "ci system", "nobody"]);
    assert!(!lines.text().contains("canary"), "{}", lines.text());
}

#[tokio::test]
async fn refuse_17_one_line_a_request_and_no_secret_in_it() {
    let lines = Lines::default();
    // The test has one thread, and so has its runtime.
    let _until_the_end = tracing::subscriber::set_default(lines.subscriber());

    let site = site(HttpLimits::default()).with_a_machine().await;
    let before = lines.answered().len();
    let sync = r#"{"runner":"mac-01","epoch":1,"boot_id":"canary-body","protocol":3,"agent_version":"1"}"#;
    let requests = [
        (
            call("GET", "/api/v1/claims/c-1?wait=0", Some(ADMIN), ""),
            "/api/v1/claims/{claim}",
            404,
            "operator",
        ),
        (call("POST", "/api/v1/agent/sync", Some(RUNNER), sync), "/api/v1/agent/sync", 200, "agent"),
        (call("GET", "/api/v1/pools", Some(RUNNER), ""), "/api/v1/pools", 403, "agent"),
        (call("GET", "/api/v1/pools", Some("canary-token"), ""), "/api/v1/pools", 401, "nobody"),
        (call("GET", "/canary-path?token=canary-query", None, ""), "unmatched", 404, "nobody"),
        (get("/health"), "/health", 200, "nobody"),
    ];
    for (place, (request, route, status, caller)) in requests.into_iter().enumerate() {
        let method = request.method().to_string();
        let seen = send(&site.router, request).await;
        let line = &lines.answered()[before + place];
        assert_eq!(line["method"], method);
        assert_eq!(line["route"], route);
        assert_eq!(line["status"], status);
        assert_eq!(line["caller"], caller, "{line}");
        assert_eq!(line["request_id"].as_str(), seen.header("x-request-id"));
        assert!(line["ms"].is_u64());
    }
    assert_eq!(lines.answered().len(), before + 6);
    let text = lines.text();
    for secret in [ADMIN, RUNNER, "canary", "mp_launch_"] {
        assert!(!text.contains(secret), "{secret} is in the log");
    }
}
