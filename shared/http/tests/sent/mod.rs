//! Webhooks as GitHub and GitLab send them.
#![allow(dead_code, reason = "each test file uses the part that it needs")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on ends here")]

use crate::seen::{Seen, send};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use motorpool_control::ports::clock::{Clock, SystemClock};
use motorpool_http::WebhookSecrets;
use motorpool_http::webhook::{GitHubSecret, GitLabSecret};
use serde_json::{Value, json};
use sha2::Sha256;

pub(crate) const SECRET: &str = "canary-of-a-webhook-secret";
pub(crate) const SIGNING_TOKEN: &str = "whsec_dGVzdHRlc3R0ZXN0dGVzdHRlc3R0ZXN0dGVzdHRlc3Q=";
pub(crate) const GITHUB: &str = "x-hub-signature-256";

/// GitHub's is always the same.
pub(crate) fn secrets(gitlab: &str) -> WebhookSecrets {
    WebhookSecrets {
        github: Some(GitHubSecret::parse(SECRET.into()).unwrap()),
        gitlab: Some(GitLabSecret::parse(gitlab.into()).unwrap()),
    }
}

pub(crate) fn github_event(runner: &str, conclusion: &str, completed_at: &str) -> Value {
    json!({
        "action": "completed",
        "workflow_job": {
            "id": 6_000_000_001_u64, "run_id": 2_202_229_078_u64, "run_attempt": 1, "status": "completed",
            "conclusion": conclusion, "completed_at": completed_at, "runner_id": 5, "runner_name": runner,
        },
        "repository": {"id": 1, "full_name": "octo/app"},
    })
}

pub(crate) fn gitlab_event(status: &str) -> Value {
    json!({
        "object_kind": "build", "build_id": 1977, "build_status": status, "project_id": 380,
        "project": {"id": 380, "path_with_namespace": "gitlab-org/gitlab-test"},
        "runner": {"id": 380_987, "description": "mac-01"},
    })
}

pub(crate) async fn sent_by_github(router: &Router, delivery: &str, event: &Value) -> Seen {
    send(router, signed("workflow_job", delivery, event.to_string())).await
}

pub(crate) fn signed(event: &str, delivery: &str, body: String) -> Request<Body> {
    Request::post("/api/v1/webhooks/github")
        .header("content-type", "application/json")
        .header("x-github-event", event)
        .header("x-github-delivery", delivery)
        .header(GITHUB, format!("sha256={}", hex_mac(SECRET, body.as_bytes())))
        .body(body.into())
        .unwrap()
}

pub(crate) async fn by_gitlab(router: &Router, token: &str, event: &Value) -> Seen {
    let request = Request::post("/api/v1/webhooks/gitlab")
        .header("content-type", "application/json")
        .header("x-gitlab-event", "Job Hook")
        .header("x-gitlab-event-uuid", "13792a34-cac6-4fda-95a8-c58e00a3954e")
        .header("idempotency-key", "f5e5f430-f57b-4e6e-9fac-d9128cd7232f")
        .header("x-gitlab-token", token);
    send(router, request.body(event.to_string().into()).unwrap()).await
}

/// Sent `late_s` ago; `change` makes another signature of the good one.
pub(crate) fn signed_by_gitlab(
    token: &str,
    late_s: i64,
    event: &Value,
    change: fn(String) -> String,
) -> Request<Body> {
    let key = STANDARD.decode(token.strip_prefix("whsec_").unwrap()).unwrap();
    let now_s = i64::try_from(SystemClock.now().as_millis() / 1_000).unwrap();
    let (id, sent_s, body) = ("f5e5f430-f57b-4e6e-9fac-d9128cd7232f", now_s - late_s, event.to_string());
    let signature = STANDARD.encode(mac(&key, format!("{id}.{sent_s}.{body}").as_bytes()));
    Request::post("/api/v1/webhooks/gitlab")
        .header("content-type", "application/json")
        .header("x-gitlab-event", "Job Hook")
        .header("webhook-id", id)
        .header("webhook-timestamp", sent_s)
        .header("webhook-signature", change(format!("v1,{signature}")))
        .body(body.into())
        .unwrap()
}

pub(crate) fn hex_mac(secret: &str, body: &[u8]) -> String {
    mac(secret.as_bytes(), body).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).unwrap();
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}
