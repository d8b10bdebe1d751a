//! Webhooks: a CI system says by itself that a job has ended. It has no token; its body is looked at only after its signature.

use super::JsonResult;
use crate::App;
use crate::detached::run_detached;
use crate::envelope::Refusal;
use crate::extract::{Raw, must_be_json};
use crate::log::{CallerKind, Mark};
use crate::webhook::{github_job, gitlab_job, only};
use axum::Json;
use axum::extract::State;
use axum::http::{Extensions, HeaderMap, StatusCode};
use motorpool_control::{JobWord, Told};
use motorpool_domain::DeliveryId;
use motorpool_domain::checkpoint::CompletedJob;
use motorpool_domain::ci::CiSystem;
use motorpool_domain::text::visible;
use motorpool_wire::error::{ErrorCode, ErrorEnvelope};
use motorpool_wire::schema;
use motorpool_wire::webhook::WebhookAnswer;
use std::sync::Arc;

/// Without it nobody is told whether a secret is set.
const SIGNATURE: &str = "x-hub-signature-256";

/// Takes an event of GitHub
///
/// A `workflow_job` that is completed finalizes its checkpoint; every other event is taken and ignored. The header X-Hub-Signature-256 signs the body;
/// X-GitHub-Event and X-GitHub-Delivery say what it is.
#[utoipa::path(
    post, path = "/webhooks/github", operation_id = "take_github_webhook", tag = "webhook",
    request_body = inline(schema::AnyEvent), security(("github" = [])),
    responses(
        (status = 200, description = "It was taken", body = WebhookAnswer),
        (status = 404, description = "No secret is set for GitHub's webhooks", body = ErrorEnvelope),
    )
)]
pub(super) async fn github(
    State(app): State<App>,
    headers: HeaderMap,
    extensions: Extensions,
    Raw(body): Raw,
) -> JsonResult<WebhookAnswer> {
    let system = CiSystem::GitHub;
    let unsigned = || {
        Refusal::unauthorized(
            "the webhook is not signed as GitHub would have signed it",
            "GitHub signs (X-Hub-Signature-256) once a secret is set there; it must be the one of webhook_secret_file in [github]",
        )
    };
    if !headers.contains_key(SIGNATURE) {
        return Err(unsigned());
    }
    let secret = app.webhooks.github.as_ref().ok_or_else(|| no_secret(system))?;
    if !secret.has_signed(&headers, &body) {
        return Err(unsigned());
    }
    Mark::note(&extensions, CallerKind::CiSystem);
    must_be_json(&headers)?;
    let event = only(&headers, "x-github-event").unwrap_or_default();
    let job = github_job(event, &body).map_err(|error| not_understood(system, &error))?;
    take(&app, Event { system, name: event, delivery: only(&headers, "x-github-delivery"), job }).await
}

/// Takes an event of GitLab
///
/// A `Job Hook` of a job at its end finalizes its checkpoint; every other event is taken and ignored. Where the secret is a signing token (`whsec_…`), the
/// header webhook-signature must sign webhook-id, webhook-timestamp and body; else X-Gitlab-Token must be the secret.
#[utoipa::path(
    post, path = "/webhooks/gitlab", operation_id = "take_gitlab_webhook", tag = "webhook",
    request_body = inline(schema::AnyEvent), security(("gitlab_token" = []), ("gitlab_signature" = [])),
    responses(
        (status = 200, description = "It was taken", body = WebhookAnswer),
        (status = 404, description = "No secret is set for GitLab's webhooks", body = ErrorEnvelope),
    )
)]
pub(super) async fn gitlab(
    State(app): State<App>,
    headers: HeaderMap,
    extensions: Extensions,
    Raw(body): Raw,
) -> JsonResult<WebhookAnswer> {
    let system = CiSystem::GitLab;
    let secret = app.webhooks.gitlab.as_ref().ok_or_else(|| no_secret(system))?;
    if !secret.vouches_for(&headers, &body, app.control.now()) {
        return Err(Refusal::unauthorized(
            "the webhook brings neither the token nor the signature that GitLab would have sent with it, or is too old",
            "secret token or signing token there must be the one of webhook_secret_file in [gitlab]; a signature is good for five minutes",
        ));
    }
    Mark::note(&extensions, CallerKind::CiSystem);
    must_be_json(&headers)?;
    let event = only(&headers, "x-gitlab-event").unwrap_or_default();
    let job = gitlab_job(event, &body).map_err(|error| not_understood(system, &error))?;
    // X-Gitlab-Event-UUID is no id of a delivery: all events that one request caused have the same.
    let delivery = only(&headers, "webhook-id").or_else(|| only(&headers, "idempotency-key"));
    take(&app, Event { system, name: event, delivery, job }).await
}

/// One that its CI system has sent.
struct Event<'a> {
    system: CiSystem,
    name: &'a str,
    /// As it came.
    delivery: Option<&'a str>,
    job: Option<CompletedJob>,
}

/// The system hangs up after some seconds; what was begun for it goes on.
async fn take(app: &App, event: Event<'_>) -> JsonResult<WebhookAnswer> {
    let Event { system, name, delivery, job } = event;
    let outcome = match job {
        None => "ignored",
        Some(job) => {
            let control = Arc::clone(&app.control);
            // One whose id is none is taken all the same, each time.
            let id = delivery.and_then(|id| DeliveryId::parse(id).ok());
            let telling = async move { control.job_told(system, id.as_ref(), &job).await };
            in_a_word(run_detached("the webhook", telling).await?)
        }
    };
    tracing::info!(
        system = system.name(),
        event = shown(name),
        delivery = delivery.map(shown),
        outcome,
        "a webhook was taken"
    );
    Ok(Json(WebhookAnswer { ok: true }))
}

fn in_a_word(told: Told) -> &'static str {
    match told {
        Told::Word(JobWord::Queued) => "finalized",
        Told::Word(JobWord::Already) => "already finalized",
        Told::Word(JobWord::Unknown) => "no such job here",
        Told::Before => "taken before",
    }
}

/// Somebody else's text in our log.
fn shown(text: &str) -> String {
    const LONGEST: usize = 64;
    visible(&text.chars().take(LONGEST).collect::<String>())
}

fn no_secret(system: CiSystem) -> Refusal {
    let name = system.name();
    Refusal::new(
        StatusCode::NOT_FOUND,
        ErrorCode::NotFound,
        format!("webhooks of {name} are not taken here: no secret is set for them"),
        format!("set webhook_secret_file in [{name}] of the pools file (of functions, the environment)"),
    )
}

/// Where in the body, but nothing of it.
fn not_understood(system: CiSystem, error: &serde_json::Error) -> Refusal {
    let (line, column) = (error.line(), error.column());
    tracing::warn!(system = system.name(), line, column, "a webhook could not be read");
    Refusal::invalid(
        format!(
            "the event does not have the form that {} documents, at line {line} column {column}",
            system.name()
        ),
        "is the sender of a version that this one knows?",
    )
}
