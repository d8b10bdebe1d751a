//! The service itself: does it live, is it ready, its figures, its document.

use super::JsonResult;
use crate::auth::Operator;
use crate::envelope::Refusal;
use crate::{App, metrics};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use motorpool_wire::error::ErrorEnvelope;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Status {
    /// `ok`.
    status: &'static str,
}

/// Whether the process lives
#[utoipa::path(
    get, path = "/health", tag = "service", security(()),
    responses((status = 200, description = "It does", body = Status))
)]
pub(super) async fn health() -> Json<Status> {
    Json(Status { status: "ok" })
}

/// Whether the process lives, for clients that know this prefix only
#[utoipa::path(
    get, path = "/healthz", operation_id = "healthz", tag = "service", security(()),
    responses((status = 200, description = "It does", body = Status))
)]
pub(super) async fn healthz() -> Json<Status> {
    health().await
}

/// Whether it can work: 503 if not
#[utoipa::path(
    get, path = "/ready", tag = "service", security(()),
    responses(
        (status = 200, description = "It can", body = Status),
        (status = 503, description = "The ledger does not answer", body = ErrorEnvelope),
    )
)]
pub(super) async fn ready(State(app): State<App>) -> JsonResult<Status> {
    app.control
        .ready()
        .await
        .map_err(|refused| Refusal::from(refused).with_status(StatusCode::SERVICE_UNAVAILABLE))?;
    Ok(Json(Status { status: "ok" }))
}

/// Figures for Prometheus
///
/// For the operator.
#[utoipa::path(
    get, path = "/metrics", tag = "service", security(("operator" = [])),
    responses((status = 200, description = "Prometheus' text format", body = String, content_type = "text/plain"))
)]
pub(super) async fn metrics(
    Operator(caller): Operator,
    State(app): State<App>,
) -> Result<impl IntoResponse, Refusal> {
    let pools = app.control.list_pools(&caller).await?.pools;
    let text =
        metrics::text(&pools, app.control.measures(), &app.served).map_err(|_| unwritable("the figures"))?;
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}

/// This document
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi", tag = "service", security(()),
    responses((status = 200, description = "OpenAPI, as JSON", body = Object))
)]
pub(super) async fn document(State(app): State<App>) -> Result<impl IntoResponse, Refusal> {
    let json = app.document.json().ok_or_else(|| unwritable("the OpenAPI document"))?;
    Ok(([(CONTENT_TYPE, "application/json")], json))
}

fn unwritable(what: &str) -> Refusal {
    Refusal::internal(format!("{what} could not be written"), "this is a bug: report it")
}
