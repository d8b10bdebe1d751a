//! Runners: register a machine of one's own, show, list, say something else of it, remove, take out of quarantine, give a new secret.

use super::paging::{PageLength, page};
use super::{JsonResult, JsonResultWithStatus};
use crate::App;
use crate::auth::Authenticated;
use crate::detached::run_detached;
use crate::envelope::Refusal;
use crate::extract::{Body, Id, QueryParams};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use motorpool_control::WhichRunners;
use motorpool_domain::runner::{Removal, StateName};
use motorpool_domain::{PoolName, RunnerId};
use motorpool_wire::api::{RegisterRunnerRequest, RegisteredRunner, RunnerView, RunnersPage};
use motorpool_wire::error::ErrorEnvelope;
use motorpool_wire::registry::UpdateRunnerRequest;
use motorpool_wire::schema;
use serde::Deserialize;
use utoipa::IntoParams;

/// Registers a machine of the operator's own
///
/// For the operator. The answer holds the secret for its agent, or with `"credential": "token"` its runner's token, shown once. A machine that was
/// removed comes back under its id with what is said of it now, in a new life.
#[utoipa::path(
    post, path = "/runners", operation_id = "register_runner", tag = "runners",
    request_body = RegisterRunnerRequest, security(("operator" = [])),
    responses(
        (status = 201, description = "Its bootstrap secret, or its token", body = RegisteredRunner),
        (status = 404, description = "There is no such pool", body = ErrorEnvelope),
        (status = 409, description = "There is such a runner already, or the pool is full", body = ErrorEnvelope),
    )
)]
pub(super) async fn register(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    Body(request): Body<RegisterRunnerRequest>,
) -> JsonResultWithStatus<RegisteredRunner> {
    Ok((StatusCode::CREATED, Json(app.control.register_runner(&caller, request).await?)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct List {
    /// All pools', if left out.
    #[param(inline, value_type = Option<schema::PoolName>)]
    pool: Option<PoolName>,
    /// Only those in this state.
    #[param(inline, value_type = Option<schema::StateName>)]
    state: Option<StateName>,
    /// Also those that were removed or are gone, for as long as they are kept. By default only those that live.
    #[serde(default)]
    include_inactive: bool,
    /// How many at most, 1 to 500; by default 100.
    #[param(inline, value_type = Option<PageLength>)]
    limit: Option<u32>,
    /// `next` of the page before.
    #[param(inline, value_type = Option<schema::PageEnd>)]
    after: Option<String>,
}

/// Lists runners
///
/// For the operator. Pool by pool in the order of their names; a page may be shorter than asked for though another follows. No secret is shown.
#[utoipa::path(
    get, path = "/runners", operation_id = "list_runners", tag = "runners", params(List),
    security(("operator" = [])),
    responses(
        (status = 200, description = "One page", body = RunnersPage),
        (status = 404, description = "There is no such pool", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    QueryParams(List { pool, state, include_inactive, limit, after }): QueryParams<List>,
) -> JsonResult<RunnersPage> {
    let which = WhichRunners { pool, state, include_inactive };
    Ok(Json(app.control.list_runners(&caller, &which, page(limit, after)?).await?))
}

/// Shows a runner
///
/// For the operator.
#[utoipa::path(
    get, path = "/runners/{runner}", operation_id = "view_runner", tag = "runners", security(("operator" = [])),
    params(("runner" = inline(schema::RunnerId), Path, description = "Its id")),
    responses((status = 200, description = "The runner", body = RunnerView))
)]
pub(super) async fn view(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    Id(runner): Id<RunnerId>,
) -> JsonResult<RunnerView> {
    Ok(Json(app.control.view_runner(&caller, &runner).await?))
}

/// Says something else of a machine of the operator's own
///
/// For the operator. What is left out stays, and null removes it. Repeating it is harmless. A command that its agent is at already is not called back: the
/// new one is run from the next time on.
#[utoipa::path(
    patch, path = "/runners/{runner}", operation_id = "update_runner", tag = "runners",
    request_body = UpdateRunnerRequest, security(("operator" = [])),
    params(("runner" = inline(schema::RunnerId), Path, description = "Its id")),
    responses(
        (status = 200, description = "The runner, as it is said to be now", body = RunnerView),
        (status = 409, description = "It is over, or a job runs on it under the name that would change", body = ErrorEnvelope),
    )
)]
pub(super) async fn update(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    Id(runner): Id<RunnerId>,
    Body(request): Body<UpdateRunnerRequest>,
) -> JsonResult<RunnerView> {
    Ok(Json(app.control.update_runner(&caller, &runner, &request).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Remove {
    /// Once its holder is done. Not together with `force`.
    #[serde(default)]
    drain: bool,
    /// At once, whoever holds it. Not together with `drain`.
    #[serde(default)]
    force: bool,
}

impl Remove {
    fn removal(self) -> Result<Removal, Refusal> {
        let Self { drain, force } = self;
        match (drain, force) {
            (false, false) => Ok(Removal::IfFree),
            (true, false) => Ok(Removal::Drain),
            (false, true) => Ok(Removal::Force),
            (true, true) => Err(Refusal::invalid(
                "drain and force are asked for at once",
                "drain waits for the runner's holder, force does not: leave one out",
            )),
        }
    }
}

/// Removes a runner
///
/// For the operator. 409 while somebody holds it, unless `drain` or `force` is asked for. It is shown, and not active, until it is forgotten; its token is
/// good for nothing from then on.
#[utoipa::path(
    delete, path = "/runners/{runner}", operation_id = "remove_runner", tag = "runners",
    security(("operator" = [])),
    params(("runner" = inline(schema::RunnerId), Path, description = "Its id"), Remove),
    responses(
        (status = 202, description = "The runner, on its way out", body = RunnerView),
        (status = 409, description = "Somebody holds it", body = ErrorEnvelope),
    )
)]
pub(super) async fn remove(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    Id(runner): Id<RunnerId>,
    QueryParams(remove): QueryParams<Remove>,
) -> JsonResultWithStatus<RunnerView> {
    let removal = remove.removal()?;
    let removing = async move { app.control.remove_runner(&caller, &runner, removal).await };
    Ok((StatusCode::ACCEPTED, Json(run_detached("the removal", removing).await?)))
}

/// Takes a runner out of quarantine
///
/// For the operator. It is cleaned before it is used again. It takes no body.
#[utoipa::path(
    post, path = "/runners/{runner}/release", operation_id = "release_runner", tag = "runners",
    security(("operator" = [])),
    params(("runner" = inline(schema::RunnerId), Path, description = "Its id")),
    responses(
        (status = 202, description = "The runner, being cleaned", body = RunnerView),
        (status = 409, description = "It is not quarantined", body = ErrorEnvelope),
    )
)]
pub(super) async fn release(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    Id(runner): Id<RunnerId>,
) -> JsonResultWithStatus<RunnerView> {
    let releasing = async move { app.control.release_runner(&caller, &runner).await };
    Ok((StatusCode::ACCEPTED, Json(run_detached("the release", releasing).await?)))
}

/// Makes a runner's token void, and gives a secret for the next
///
/// For the operator. A runner that was registered with a token is given another at once. It takes no body.
#[utoipa::path(
    post, path = "/runners/{runner}/token", operation_id = "rotate_runner_token", tag = "runners",
    security(("operator" = [])),
    params(("runner" = inline(schema::RunnerId), Path, description = "Its id")),
    responses(
        (status = 200, description = "Its new bootstrap secret or token, shown once", body = RegisteredRunner),
        (status = 409, description = "It is being launched, or is over", body = ErrorEnvelope),
    )
)]
pub(super) async fn rotate_token(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    Id(runner): Id<RunnerId>,
) -> JsonResult<RegisteredRunner> {
    Ok(Json(app.control.rotate_token(&caller, &runner).await?))
}
