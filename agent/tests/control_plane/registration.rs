//! The control plane's route for registrations, with the secrets that a CI system would give.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use motorpool_domain::ci::CiSystem;
use motorpool_wire::agent::{RegistrationAnswer, RegistrationRequest};
use serde_json::{Map, Value};

use super::{Plane, refusal};

/// In every secret of a CI system.
pub(crate) const CI_CANARY: &str = "canary-of-the-ci-system-0815";

/// What a CI system would give: a secret for each count, with a canary in it.
pub(super) async fn registration(
    State(plane): State<Plane>,
    headers: HeaderMap,
    Json(request): Json<RegistrationRequest>,
) -> Response {
    let Some(system) = plane.plan.borrow().ci else { return refusal(StatusCode::BAD_REQUEST) };
    let mut seen = plane.seen.lock().unwrap();
    seen.authorizations.push(headers["authorization"].to_str().unwrap().to_owned());
    let count = request.count;
    seen.registrations.push(request);
    if let Some(status) = seen.registration_failures.pop() {
        return refusal(status);
    }
    let secret = match system {
        CiSystem::GitHub => jit_config(count),
        CiSystem::GitLab => format!("glrt-{CI_CANARY}-{count}"),
        CiSystem::Jenkins => return refusal(StatusCode::BAD_REQUEST),
    };
    let url = Some("https://ci.example".to_owned());
    Json(RegistrationAnswer { system, name: format!("mp-ab12cd-r-1.1.{count}"), url, secret }).into_response()
}

/// As GitHub encodes it: the program's files, each in Base64, as a JSON object in Base64.
pub(crate) fn jit_config(count: u32) -> String {
    let files: Map<String, Value> = jit_files(count)
        .into_iter()
        .map(|(name, text)| (name.to_owned(), BASE64.encode(text).into()))
        .collect();
    BASE64.encode(Value::Object(files).to_string())
}

pub(crate) fn jit_files(count: u32) -> [(&'static str, String); 3] {
    [
        (".runner", format!("{{\"agentName\":\"mp-ab12cd-r-1.1.{count}\"}}")),
        (".credentials", format!("{{\"clientId\":\"{CI_CANARY}\"}}")),
        (".credentials_rsaparams", format!("{{\"d\":\"{CI_CANARY}\"}}")),
    ]
}
