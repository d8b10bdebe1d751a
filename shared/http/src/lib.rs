//! The HTTP API: routers, authentication, the error envelope, limits, long polls, metrics, the OpenAPI document.
//! It translates and calls `control`. It decides nothing about pools, and opens no socket: whoever mounts it listens.

pub mod auth;
pub mod bells;
pub mod envelope;
pub mod extract;
pub mod limits;
mod log;
mod metrics;
mod openapi;
mod poll;
mod routes;
mod to_its_end;

pub use auth::Gate;
pub use bells::Bells;
pub use limits::HttpLimits;

use axum::Router;
use axum::extract::FromRef;
use axum::middleware::from_fn_with_state;
use metrics::Served;
use motorpool_control::Control;
use std::sync::Arc;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::OpenApi;

/// What the API is made of. Give `bells` to the control plane as its doorbell too, and close them at shutdown.
#[derive(Debug, Clone)]
pub struct HttpState {
    pub control: Arc<Control>,
    pub gate: Gate,
    pub bells: Arc<Bells>,
    pub limits: HttpLimits,
}

/// Every route, with its limits, its log and its metrics.
pub fn router(state: HttpState) -> Router {
    let HttpState { control, gate, bells, limits } = state;
    let (routes, document) = routes::all(&limits).split_for_parts();
    let served = Arc::new(Served::default());
    let app = App {
        control,
        gate: Arc::new(gate),
        bells,
        limits,
        served: Arc::clone(&served),
        document: Arc::new(document),
    };
    let routes = routes
        .fallback(envelope::no_such_route)
        .method_not_allowed_fallback(envelope::no_such_method)
        .with_state(app);
    // The last is the outermost.
    routes
        .layer(CatchPanicLayer::custom(envelope::panicked))
        .layer(from_fn_with_state(served, log::mark))
        .layer(log::timed())
}

/// The OpenAPI document of the routes, as `GET /api/v1/openapi.json` gives it.
pub fn document() -> OpenApi {
    routes::all(&HttpLimits::default()).into_openapi()
}

/// The state that handlers see.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) control: Arc<Control>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) bells: Arc<Bells>,
    pub(crate) limits: HttpLimits,
    pub(crate) served: Arc<Served>,
    pub(crate) document: Arc<OpenApi>,
}

impl FromRef<App> for Arc<Gate> {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.gate)
    }
}
