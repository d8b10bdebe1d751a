//! Pools: set, show, list, delete.

use super::JsonResult;
use crate::App;
use crate::auth::Authenticated;
use crate::envelope::Refusal;
use crate::extract::{Body, Id};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use motorpool_domain::PoolName;
use motorpool_wire::api::{PlanView, PoolView, PoolsPage};
use motorpool_wire::error::ErrorEnvelope;
use motorpool_wire::pool_settings::PoolSettings;
use motorpool_wire::schema;

/// Lists the pools
#[utoipa::path(
    get, path = "/pools", operation_id = "list_pools", tag = "pools",
    responses((status = 200, description = "All of them", body = PoolsPage))
)]
pub(super) async fn list(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
) -> JsonResult<PoolsPage> {
    Ok(Json(app.control.list_pools(&caller).await?))
}

/// Makes a pool, or changes its settings
///
/// For the operator. A pool that stands in the server's file is changed there.
#[utoipa::path(
    put, path = "/pools/{pool}", operation_id = "put_pool", tag = "pools",
    params(("pool" = inline(schema::PoolName), Path, description = "Its name")),
    request_body = PoolSettings, security(("operator" = [])),
    responses(
        (status = 200, description = "The pool as it is now", body = PoolView),
        (status = 409, description = "The pool is changed elsewhere, or has runners that stand in the way", body = ErrorEnvelope),
    )
)]
pub(super) async fn put(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    Id(pool): Id<PoolName>,
    Body(settings): Body<PoolSettings>,
) -> JsonResult<PoolView> {
    Ok(Json(app.control.put_pool(&caller, pool, settings).await?))
}

/// Says what a pool with these settings would launch, where and at about what price
///
/// For the operator. Nothing is changed.
#[utoipa::path(
    post, path = "/pools/{pool}/plan", operation_id = "plan_pool", tag = "pools",
    params(("pool" = inline(schema::PoolName), Path, description = "Its name, whether there is one yet or not")),
    request_body = PoolSettings, security(("operator" = [])),
    responses((status = 200, description = "What would be launched, in the order in which it is tried", body = PlanView))
)]
pub(super) async fn plan(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    Id(pool): Id<PoolName>,
    Body(settings): Body<PoolSettings>,
) -> JsonResult<PlanView> {
    Ok(Json(app.control.plan_pool(&caller, pool, settings).await?))
}

/// Shows a pool, with its counts
#[utoipa::path(
    get, path = "/pools/{pool}", operation_id = "view_pool", tag = "pools",
    params(("pool" = inline(schema::PoolName), Path, description = "Its name")),
    responses((status = 200, description = "The pool", body = PoolView))
)]
pub(super) async fn view(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    Id(pool): Id<PoolName>,
) -> JsonResult<PoolView> {
    Ok(Json(app.control.view_pool(&caller, &pool).await?))
}

/// Deletes a pool
///
/// For the operator.
#[utoipa::path(
    delete, path = "/pools/{pool}", operation_id = "delete_pool", tag = "pools",
    params(("pool" = inline(schema::PoolName), Path, description = "Its name")),
    security(("operator" = [])),
    responses(
        (status = 204, description = "It takes no claims any more"),
        (status = 409, description = "The pool is defined in the file, or is in use", body = ErrorEnvelope),
    )
)]
pub(super) async fn delete(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    Id(pool): Id<PoolName>,
) -> Result<StatusCode, Refusal> {
    app.control.delete_pool(&caller, &pool).await?;
    Ok(StatusCode::NO_CONTENT)
}
