//! The agent's side: bootstrap, and sync with its long poll.

use super::JsonResult;
use crate::App;
use crate::auth::AgentToken;
use crate::detached::run_detached;
use crate::extract::Body;
use crate::lane::{Agents, Newcomer};
use crate::poll::{Patience, Polled, long_poll};
use axum::extract::State;
use axum::{Extension, Json};
use motorpool_control::Synced;
use motorpool_domain::record::Key;
use motorpool_wire::agent::{
    AgentSelf, BootstrapAnswer, BootstrapRequest, RegistrationAnswer, RegistrationRequest, SyncAnswer,
    SyncRequest,
};
use motorpool_wire::error::ErrorEnvelope;
use std::sync::Arc;
use std::time::Duration;

/// Redeems a launch secret with the hash of a token that the agent made
///
/// The same hash again succeeds, since the answer may have been lost; another is refused.
#[utoipa::path(
    post, path = "/agent/bootstrap", operation_id = "bootstrap_agent", tag = "agent",
    request_body = BootstrapRequest, security(()),
    responses(
        (status = 200, description = "From now on its token is good", body = BootstrapAnswer),
        (status = 401, description = "The secret is not this runner's", body = ErrorEnvelope),
        (status = 403, description = "The secret is used up, or another machine's", body = ErrorEnvelope),
        (status = 404, description = "Its pool is gone", body = ErrorEnvelope),
        (status = 410, description = "The runner's place is given up", body = ErrorEnvelope),
        (status = 503, description = "The provider does not show this machine yet", body = ErrorEnvelope,
            headers(("Retry-After" = u64, description = "After so many seconds it makes sense to ask again"))),
    )
)]
pub(super) async fn bootstrap(
    State(app): State<App>,
    Body(request): Body<BootstrapRequest>,
) -> JsonResult<BootstrapAnswer> {
    Ok(Json(app.control.bootstrap(request).await?))
}

/// Tells which runner the token belongs to
#[utoipa::path(
    get, path = "/agent/self", operation_id = "show_agent_self", tag = "agent", security(("runner" = [])),
    responses((status = 200, description = "The runner, as it is now", body = AgentSelf))
)]
pub(super) async fn show_self(
    AgentToken(token): AgentToken,
    State(app): State<App>,
) -> JsonResult<AgentSelf> {
    Ok(Json(app.control.runner_of_token(&token).await?))
}

/// Tells what the agent observes, and asks what should be
///
/// With `wait_ms` the answer waits for something new to say, at most a minute. On some deployments it comes at once.
#[utoipa::path(
    post, path = "/agent/sync", operation_id = "sync_agent", tag = "agent",
    request_body = SyncRequest, security(("runner" = [])),
    responses(
        (status = 200, description = "What should be", body = SyncAnswer),
        (status = 404, description = "Its pool is gone", body = ErrorEnvelope),
        (status = 410, description = "The runner's place is given up", body = ErrorEnvelope),
    )
)]
pub(super) async fn sync(
    AgentToken(token): AgentToken,
    Extension(agents): Extension<Arc<Agents>>,
    newcomer: Option<Extension<Arc<Newcomer>>>,
    State(app): State<App>,
    Body(request): Body<SyncRequest>,
) -> JsonResult<SyncAnswer> {
    let wait = Duration::from_millis(request.wait_ms).min(app.limits.sync_hold);
    let waiter = app.notifier.waiter(Key::from(&request.runner));
    let patience = Patience { wait, recheck: wait, margin: app.limits.request };
    let request_next = request.next_token_sha256.clone();
    let answer = long_poll(waiter, patience, || async {
        let (control, token, request) = (Arc::clone(&app.control), token.clone(), request.clone());
        // A report can end the very agent that sent it, which then hangs up.
        let syncing = async move { control.sync(&token, &request).await };
        let Synced { answer, news } = run_detached("the sync", syncing).await?;
        // Not at the end of its wait: others that are new here want the place.
        if let Some(Extension(newcomer)) = &newcomer {
            newcomer.is_known_now();
        }
        if let Some(next) = request_next.as_deref().filter(|_| answer.token_taken) {
            agents.expect(next);
        }
        Ok(if news { Polled::Settled(answer) } else { Polled::Unsettled(answer) })
    });
    Ok(Json(answer.await?))
}

/// Gets what the runner program of a CI system needs to begin
///
/// Each answer holds a secret of its own, for one job on GitHub. Each `count` is handed out once; to the session that asked for it, again.
#[utoipa::path(
    post, path = "/agent/registration", operation_id = "register_with_ci", tag = "agent",
    request_body = RegistrationRequest, security(("runner" = [])),
    responses(
        (status = 200, description = "What the program needs", body = RegistrationAnswer),
        (status = 403, description = "The CI system refuses it", body = ErrorEnvelope),
        (status = 404, description = "Its pool or its claim is gone", body = ErrorEnvelope),
        (status = 409, description = "The runner is not to be registered so now, or that registration was handed out already",
            body = ErrorEnvelope),
        (status = 429, description = "Nobody may ask now: the CI system takes no more calls, or there are too many of ours",
            body = ErrorEnvelope,
            headers(("Retry-After" = u64, description = "After so many seconds it makes sense to ask again"))),
    )
)]
pub(super) async fn registration(
    AgentToken(token): AgentToken,
    State(app): State<App>,
    Body(request): Body<RegistrationRequest>,
) -> JsonResult<RegistrationAnswer> {
    Ok(Json(app.control.register_with_ci(&token, &request).await?))
}
