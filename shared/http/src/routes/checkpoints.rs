//! Checkpoints: what the hooks of a job call, with the token of the runner that it runs on. The operator may look at any.

use super::{JsonResult, JsonResultWithStatus};
use crate::App;
use crate::auth::{AgentOrCaller, AgentToken};
use crate::detached::run_detached;
use crate::envelope::Refusal;
use crate::extract::{Body, Id};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use motorpool_domain::CheckpointName;
use motorpool_wire::checkpoint::{
    CheckpointView, CreateCheckpoint, FinalizeAnswer, FinalizeCheckpoint, Readiness,
};
use motorpool_wire::error::ErrorEnvelope;
use motorpool_wire::schema;
use std::sync::Arc;

/// Opens a checkpoint for a job that begins on this runner
///
/// The same job again gets the same checkpoint, since the answer may have been lost.
#[utoipa::path(
    post, path = "/checkpoint/create", operation_id = "create_checkpoint", tag = "checkpoint",
    request_body = CreateCheckpoint, security(("runner" = [])),
    responses(
        (status = 201, description = "The job may begin", body = CheckpointView),
        (status = 403, description = "The token is another runner's", body = ErrorEnvelope),
        (status = 404, description = "Its pool is gone", body = ErrorEnvelope),
        (status = 409, description = "The runner has an active checkpoint, or can take no job now", body = ErrorEnvelope),
        (status = 429, description = "The last checkpoint ended a moment ago, or too much is asked at once", body = ErrorEnvelope,
            headers(("Retry-After" = u64, description = "After so many seconds it makes sense to ask again"))),
    )
)]
pub(super) async fn create(
    AgentToken(token): AgentToken,
    State(app): State<App>,
    request: Result<Body<CreateCheckpoint>, Refusal>,
) -> JsonResultWithStatus<CheckpointView> {
    let request = of_a_runner(&app, &token, request).await?;
    let control = Arc::clone(&app.control);
    let creating = async move { control.create_checkpoint(&token, request).await };
    Ok((StatusCode::CREATED, Json(run_detached("the checkpoint", creating).await?)))
}

/// Says how a checkpoint's job ended
///
/// Its machine is cleaned or reset afterwards. Repeating it is harmless; a failure overrides a success until the cleaning has begun.
#[utoipa::path(
    post, path = "/checkpoint/finalize", operation_id = "finalize_checkpoint", tag = "checkpoint",
    request_body = FinalizeCheckpoint, security(("runner" = [])),
    responses(
        (status = 202, description = "Finalize queued, or already finalized", body = FinalizeAnswer),
        (status = 403, description = "The checkpoint is another runner's", body = ErrorEnvelope),
        (status = 404, description = "There is no such checkpoint", body = ErrorEnvelope),
    )
)]
pub(super) async fn finalize(
    AgentToken(token): AgentToken,
    State(app): State<App>,
    request: Result<Body<FinalizeCheckpoint>, Refusal>,
) -> JsonResultWithStatus<FinalizeAnswer> {
    let request = of_a_runner(&app, &token, request).await?;
    let control = Arc::clone(&app.control);
    let finalizing = async move { control.finalize_checkpoint(&token, &request).await };
    Ok((StatusCode::ACCEPTED, Json(run_detached("the end of a checkpoint", finalizing).await?)))
}

/// Shows a checkpoint of this runner, or any to the operator
#[utoipa::path(
    get, path = "/checkpoint/status/{name}", operation_id = "show_checkpoint", tag = "checkpoint",
    params(("name" = inline(schema::CheckpointName), Path, description = "A checkpoint's name")),
    security(("runner" = []), ("operator" = [])),
    responses(
        (status = 200, description = "The checkpoint, as it is now", body = CheckpointView),
        (status = 403, description = "The checkpoint is another runner's, or the token is a team's", body = ErrorEnvelope),
        (status = 404, description = "There is no such checkpoint", body = ErrorEnvelope),
    )
)]
pub(super) async fn status(
    who: AgentOrCaller,
    State(app): State<App>,
    Id(name): Id<CheckpointName>,
) -> JsonResult<CheckpointView> {
    Ok(Json(match who {
        AgentOrCaller::Agent(AgentToken(token)) => app.control.checkpoint_status(&token, &name).await?,
        AgentOrCaller::Caller(caller) => app.control.any_checkpoint_status(&caller, &name).await?,
    }))
}

/// Says whether this runner can take a job
#[utoipa::path(
    get, path = "/runner/readiness", operation_id = "show_readiness", tag = "checkpoint",
    security(("runner" = [])),
    responses((status = 200, description = "Whether it can", body = Readiness))
)]
pub(super) async fn readiness(
    AgentToken(token): AgentToken,
    State(app): State<App>,
) -> JsonResult<Readiness> {
    Ok(Json(app.control.readiness(&token).await?))
}

/// The body. Who has no runner's token is not told what is wrong with one.
async fn of_a_runner<T>(app: &App, token: &str, body: Result<Body<T>, Refusal>) -> Result<T, Refusal> {
    match body {
        Ok(Body(request)) => Ok(request),
        Err(refusal) => {
            app.control.runner_of_token(token).await?;
            Err(refusal)
        }
    }
}
