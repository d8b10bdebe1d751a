//! Claims: provision, claim one, release, follow, list, and why.

use super::paging::{PageLength, page};
use super::{JsonResult, JsonResultWithStatus};
use crate::App;
use crate::auth::Authenticated;
use crate::detached::run_detached;
use crate::envelope::Refusal;
use crate::extract::{Body, Id, QueryParams};
use crate::poll::{Patience, Polled, long_poll};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use motorpool_domain::record::Key;
use motorpool_domain::{ClaimId, PoolName};
use motorpool_wire::api::{ClaimRequest, ClaimView, ClaimsPage, ProvisionRequest, ReleaseRequest, WhyView};
use motorpool_wire::error::ErrorEnvelope;
use motorpool_wire::schema;
use serde::Deserialize;
use std::time::Duration;
use utoipa::IntoParams;

/// Asks for runners
///
/// Takes idle ones that fit and launches the shortfall. Asking again with the same parameters gives the same claim.
#[utoipa::path(
    post, path = "/provision", tag = "claims", request_body = ProvisionRequest,
    responses(
        (status = 202, description = "The claim, most likely still pending", body = ClaimView),
        (status = 404, description = "There is no such pool", body = ErrorEnvelope),
        (status = 409, description = "The pool is retired, or the workflow has asked this pool for something else", body = ErrorEnvelope),
    )
)]
pub(super) async fn provision(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    Body(request): Body<ProvisionRequest>,
) -> JsonResultWithStatus<ClaimView> {
    Ok((StatusCode::ACCEPTED, Json(app.control.provision(&caller, request).await?)))
}

/// Takes one idle runner now, or none
#[utoipa::path(
    post, path = "/claim", operation_id = "claim_one", tag = "claims", request_body = ClaimRequest,
    responses(
        (status = 200, description = "The claim", body = ClaimView),
        (status = 404, description = "The pool is empty, or there is none", body = ErrorEnvelope),
        (status = 409, description = "The pool is retired, or the workflow has asked this pool for something else", body = ErrorEnvelope),
    )
)]
pub(super) async fn claim(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    Body(request): Body<ClaimRequest>,
) -> JsonResult<ClaimView> {
    Ok(Json(app.control.claim_now(&caller, request).await?))
}

/// Gives back what a workflow holds
///
/// Repeating it is harmless.
#[utoipa::path(
    post, path = "/release", tag = "claims", request_body = ReleaseRequest,
    responses(
        (status = 202, description = "The claim, released", body = ClaimView),
        (status = 404, description = "The workflow has no claim", body = ErrorEnvelope),
    )
)]
pub(super) async fn release(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    Body(request): Body<ReleaseRequest>,
) -> JsonResultWithStatus<ClaimView> {
    let releasing = async move { app.control.release(&caller, request).await };
    Ok((StatusCode::ACCEPTED, Json(run_detached("the release", releasing).await?)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Follow {
    /// How many seconds the answer may wait for the claim to be no longer pending, 0 to 60.
    #[param(maximum = 60)]
    wait: Option<u64>,
}

/// Shows a claim
///
/// With `wait` it answers as soon as the claim is no longer pending, or when the time is over; on some deployments that is sooner
/// than asked.
#[utoipa::path(
    get, path = "/claims/{claim}", operation_id = "view_claim", tag = "claims",
    params(("claim" = inline(schema::ClaimId), Path, description = "`c-…`"), Follow),
    responses((status = 200, description = "The claim", body = ClaimView))
)]
pub(super) async fn follow(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    Id(claim): Id<ClaimId>,
    QueryParams(Follow { wait }): QueryParams<Follow>,
) -> JsonResult<ClaimView> {
    let wait = Duration::from_secs(wait.unwrap_or_default());
    if wait > app.limits.longest_wait {
        return Err(Refusal::invalid(
            format!("wait must be 0 to {} seconds", app.limits.longest_wait.as_secs()),
            "ask again when the answer comes, as often as you like",
        ));
    }
    let waiter = app.notifier.waiter(Key::from(&claim));
    let wait = wait.min(app.limits.claim_hold);
    let patience = Patience { wait, recheck: app.limits.recheck, margin: app.limits.request };
    let view = long_poll(waiter, patience, || async {
        let view = app.control.view_claim(&caller, &claim).await?;
        Ok(if view.state == "pending" { Polled::Unsettled(view) } else { Polled::Settled(view) })
    });
    Ok(Json(view.await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct List {
    #[param(inline, value_type = schema::PoolName)]
    pool: PoolName,
    /// How many at most, 1 to 500; by default 100.
    #[param(inline, value_type = Option<PageLength>)]
    limit: Option<u32>,
    /// `next` of the page before.
    #[param(inline, value_type = Option<schema::PageEnd>)]
    after: Option<String>,
}

/// Lists a pool's claims
#[utoipa::path(
    get, path = "/claims", operation_id = "list_claims", tag = "claims", params(List),
    responses(
        (status = 200, description = "One page", body = ClaimsPage),
        (status = 404, description = "There is no such pool", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    QueryParams(List { pool, limit, after }): QueryParams<List>,
) -> JsonResult<ClaimsPage> {
    Ok(Json(app.control.list_claims(&caller, &pool, page(limit, after)?).await?))
}

/// Tells why a claim waits, or how it ended
#[utoipa::path(
    get, path = "/claims/{claim}/why", operation_id = "why_claim", tag = "claims",
    params(("claim" = inline(schema::ClaimId), Path, description = "`c-…`")),
    responses((status = 200, description = "Its story", body = WhyView))
)]
pub(super) async fn why(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    Id(claim): Id<ClaimId>,
) -> JsonResult<WhyView> {
    Ok(Json(app.control.why(&caller, &claim).await?))
}
