//! The control plane's routes for checkpoints: they note who came with what, and answer as they are told to.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use motorpool_domain::{CheckpointName, JobId, RunnerId};
use motorpool_wire::checkpoint::{CheckpointView, FinalizeAnswer, Readiness};
use serde_json::Value;

use super::{Plane, refusal};

pub(crate) const CHECKPOINT: &str = "job-42-1700000000-0123abcd";

/// What came for a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HookCall {
    /// With its method.
    pub(crate) what: String,
    pub(crate) authorization: String,
    pub(crate) body: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookFailure {
    Status(StatusCode),
    /// With so many seconds to wait.
    RetryAfter(StatusCode, u64),
    /// The connection ends without an answer.
    HangUp,
}

pub(super) fn routes() -> Router<Plane> {
    Router::new()
        .route("/api/v1/checkpoint/create", post(hook))
        .route("/api/v1/checkpoint/finalize", post(hook))
        .route("/api/v1/checkpoint/status/{name}", get(hook))
        .route("/api/v1/runner/readiness", get(hook))
}

async fn hook(
    State(plane): State<Plane>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let what = format!("{method} {}", uri.path().trim_start_matches("/api/v1"));
    let failure = {
        let mut seen = plane.seen.lock().unwrap();
        seen.hook_calls.push(HookCall {
            what: what.clone(),
            authorization: headers["authorization"].to_str().unwrap().to_owned(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        });
        seen.hook_failures.pop()
    };
    plane.plan.subscribe().wait_for(|plan| !plan.hold_hooks).await.unwrap();
    match failure {
        None => answer(&what),
        Some(HookFailure::Status(status)) => refusal(status),
        Some(HookFailure::RetryAfter(status, seconds)) => {
            ([("retry-after", seconds.to_string())], refusal(status)).into_response()
        }
        Some(HookFailure::HangUp) => panic!("the connection ends"),
    }
}

fn answer(what: &str) -> Response {
    let (name, runner_id) = (CheckpointName::parse(CHECKPOINT).unwrap(), RunnerId::parse("r-1").unwrap());
    match what {
        "GET /runner/readiness" => {
            Json(Readiness { runner_id, ready: false, state: "running".to_owned() }).into_response()
        }
        "POST /checkpoint/finalize" => {
            let detail = "Finalize queued".to_owned();
            let answer = FinalizeAnswer { detail, checkpoint_name: name, state: None };
            (StatusCode::ACCEPTED, Json(answer)).into_response()
        }
        _shown => {
            let view = CheckpointView {
                name,
                runner_id,
                job_id: JobId::parse("42").unwrap(),
                state: "created".to_owned(),
                created_at: "2026-11-18T12:00:00Z".to_owned(),
                caller: None,
                finalize_status: None,
                finalize_source: None,
                finalized_at: None,
                why: "its job runs".to_owned(),
            };
            (StatusCode::CREATED, Json(view)).into_response()
        }
    }
}
