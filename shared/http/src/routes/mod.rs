//! The routes, one file a resource. Mounting a handler also puts it into the OpenAPI document, so that neither can lack one.
//! A handler translates and calls `control`: it holds no rule of the domain.

mod agent;
mod audit;
mod claims;
mod paging;
mod pools;
mod refresh;
mod runners;
mod service;

use crate::envelope::Refusal;
use crate::limits::{HttpLimits, Lane, keep_to};
use crate::{App, openapi};
use axum::Json;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// A body with 200, or a refusal.
type JsonResult<T> = Result<Json<T>, Refusal>;
/// A body with another status, or a refusal.
type JsonResultWithStatus<T> = Result<(StatusCode, Json<T>), Refusal>;

pub(crate) fn all(limits: &HttpLimits) -> OpenApiRouter<App> {
    let HttpLimits {
        body_bytes,
        sync_body_bytes,
        request,
        longest_wait: _,
        claim_hold,
        sync_hold,
        recheck: _,
        api_at_once,
        waits_at_once,
        agents_at_once,
    } = *limits;
    let api = Lane::new(api_at_once, request);
    let waits = Lane::new(waits_at_once, request.saturating_add(claim_hold));
    let agents = Lane::new(agents_at_once, request);
    // A lane of their own, so that these routes answer while the API is full.
    let service = Lane::new(api_at_once, request);

    let prefixed = OpenApiRouter::default()
        .merge(limited(work(), &api, body_bytes))
        .merge(limited(OpenApiRouter::default().routes(routes!(claims::follow)), &waits, body_bytes))
        .merge(limited(OpenApiRouter::default().routes(routes!(agent::bootstrap)), &agents, body_bytes))
        .merge(limited(OpenApiRouter::default().routes(routes!(agent::show_self)), &agents, body_bytes))
        .merge(limited(OpenApiRouter::default().routes(routes!(agent::registration)), &agents, body_bytes))
        .merge(limited(
            OpenApiRouter::default().routes(routes!(agent::sync)),
            &agents.lasting(request.saturating_add(sync_hold)),
            sync_body_bytes,
        ))
        .merge(limited(OpenApiRouter::default().routes(routes!(service::document)), &service, body_bytes));
    let bare = OpenApiRouter::default()
        .routes(routes!(service::health))
        .routes(routes!(service::ready))
        .routes(routes!(service::metrics));

    let mut all = OpenApiRouter::with_openapi(openapi::base())
        .nest("/api/v1", prefixed)
        .merge(limited(bare, &service, body_bytes));
    openapi::finish(all.get_openapi_mut());
    all
}

/// What operators and teams do.
fn work() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(claims::provision))
        .routes(routes!(claims::claim))
        .routes(routes!(claims::release))
        .routes(routes!(claims::list))
        .routes(routes!(claims::why))
        .routes(routes!(refresh::refresh))
        .routes(routes!(pools::list))
        .routes(routes!(pools::put, pools::view, pools::delete))
        .routes(routes!(pools::plan))
        .routes(routes!(runners::register, runners::list))
        .routes(routes!(runners::view, runners::remove))
        .routes(routes!(runners::release))
        .routes(routes!(runners::rotate_token))
        .routes(routes!(audit::audit))
}

fn limited(routes: OpenApiRouter<App>, lane: &Lane, body_bytes: usize) -> OpenApiRouter<App> {
    routes.layer(DefaultBodyLimit::max(body_bytes)).layer(from_fn_with_state(lane.clone(), keep_to))
}
