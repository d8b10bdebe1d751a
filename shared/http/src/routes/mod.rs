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
use crate::lane::Lanes;
use crate::{App, openapi};
use axum::Json;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// A body with 200, or a refusal.
type JsonResult<T> = Result<Json<T>, Refusal>;
/// A body with another status, or a refusal.
type JsonResultWithStatus<T> = Result<(StatusCode, Json<T>), Refusal>;

pub(crate) fn all(lanes: &Lanes) -> OpenApiRouter<App> {
    let Lanes { work, waits, figures, service, agents, syncs, joining } = lanes;
    let prefixed = OpenApiRouter::default()
        .merge(of_callers().layer(work.clone()))
        .merge(OpenApiRouter::default().routes(routes!(claims::follow)).layer(waits.clone()))
        .merge(OpenApiRouter::default().routes(routes!(agent::bootstrap)).layer(joining.clone()))
        .merge(OpenApiRouter::default().routes(routes!(agent::show_self)).layer(agents.clone()))
        .merge(OpenApiRouter::default().routes(routes!(agent::registration)).layer(agents.clone()))
        .merge(OpenApiRouter::default().routes(routes!(agent::sync)).layer(syncs.clone()))
        .merge(OpenApiRouter::default().routes(routes!(service::document)).layer(service.clone()));
    let open = OpenApiRouter::default().routes(routes!(service::health)).routes(routes!(service::ready));
    let bare = OpenApiRouter::default()
        .merge(open.layer(service.clone()))
        .merge(OpenApiRouter::default().routes(routes!(service::metrics)).layer(figures.clone()));

    let mut all = OpenApiRouter::with_openapi(openapi::base()).nest("/api/v1", prefixed).merge(bare);
    openapi::finish(all.get_openapi_mut());
    all
}

/// What operators and teams do.
fn of_callers() -> OpenApiRouter<App> {
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
