//! The audit log of one subject.

use super::JsonResult;
use super::paging::{PageLength, page};
use crate::App;
use crate::auth::Authenticated;
use crate::extract::QueryParams;
use axum::Json;
use axum::extract::State;
use motorpool_wire::api::AuditPage;
use motorpool_wire::schema;
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Audit {
    /// A runner's id, a claim's id (`c-…`), `pool:NAME` or `checkpoint:NAME`.
    #[param(inline, value_type = schema::Subject)]
    subject: String,
    /// How many at most, 1 to 500; by default 100.
    #[param(inline, value_type = Option<PageLength>)]
    limit: Option<u32>,
    /// `next` of the page before.
    #[param(inline, value_type = Option<schema::PageEnd>)]
    after: Option<String>,
}

/// Tells who did what to a subject, from, to, and why
///
/// For the operator. Where something can fail or takes its time, an entry has a `result` (`ok` or `error`) and `duration_ms`.
#[utoipa::path(
    get, path = "/audit", tag = "operations", params(Audit), security(("operator" = [])),
    responses((status = 200, description = "One page", body = AuditPage))
)]
pub(super) async fn audit(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    QueryParams(Audit { subject, limit, after }): QueryParams<Audit>,
) -> JsonResult<AuditPage> {
    Ok(Json(app.control.audit(&caller, &subject, page(limit, after)?).await?))
}
