//! Refresh, by hand. In `serve` a ticker calls the same use case.

use super::JsonResult;
use crate::App;
use crate::auth::Authenticated;
use crate::detached::run_detached;
use crate::extract::QueryParams;
use axum::Json;
use axum::extract::State;
use motorpool_control::SweepWish;
use motorpool_wire::api::RefreshReport;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Refresh {
    /// `now`: sweep although none is due.
    #[param(inline)]
    sweep: Option<Sweep>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sweep {
    Now,
}

/// Heals what is due
///
/// For the operator. It takes no body.
#[utoipa::path(
    post, path = "/refresh", tag = "operations", params(Refresh), security(("operator" = [])),
    responses((status = 200, description = "What it did", body = RefreshReport))
)]
pub(super) async fn refresh(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    QueryParams(Refresh { sweep }): QueryParams<Refresh>,
) -> JsonResult<RefreshReport> {
    let wish = match sweep {
        Some(Sweep::Now) => SweepWish::Now,
        None => SweepWish::IfDue,
    };
    let refreshing = async move { app.control.refresh(&caller, wish).await };
    Ok(Json(run_detached("the refresh", refreshing).await?))
}
