//! Incidents that people are told of.

use super::JsonResult;
use super::paging::{PageLength, page};
use crate::App;
use crate::auth::Authenticated;
use crate::extract::QueryParams;
use axum::Json;
use axum::extract::State;
use motorpool_control::WhichAlerts;
use motorpool_wire::api::AlertsPage;
use motorpool_wire::schema;
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct List {
    /// Also those that are over, which are kept for 30 days.
    #[serde(default)]
    all: bool,
    /// How many at most, 1 to 500; by default 100.
    #[param(inline, value_type = Option<PageLength>)]
    limit: Option<u32>,
    /// `next` of the page before.
    #[param(inline, value_type = Option<schema::PageEnd>)]
    after: Option<String>,
}

/// Lists the incidents that are open
///
/// For the operator.
#[utoipa::path(
    get, path = "/alerts", operation_id = "list_alerts", tag = "operations", params(List), security(("operator" = [])),
    responses((status = 200, description = "One page", body = AlertsPage))
)]
pub(super) async fn list(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    QueryParams(List { all, limit, after }): QueryParams<List>,
) -> JsonResult<AlertsPage> {
    let which = if all { WhichAlerts::All } else { WhichAlerts::Open };
    Ok(Json(app.control.list_alerts(&caller, which, page(limit, after)?).await?))
}
