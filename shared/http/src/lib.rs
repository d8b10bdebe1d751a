//! The HTTP API: routers, authentication, the error envelope, limits, long polls, metrics, the OpenAPI document.
//! It translates and calls `control`. It decides nothing about pools, and opens no socket: whoever mounts it listens.

pub mod auth;
mod detached;
pub mod envelope;
pub mod extract;
pub mod limits;
mod log;
mod metrics;
pub mod notify;
mod openapi;
mod poll;
mod routes;

pub use auth::Tokens;
pub use limits::HttpLimits;
pub use notify::Notifier;

use axum::Router;
use axum::extract::FromRef;
use axum::middleware::from_fn_with_state;
use metrics::Served;
use motorpool_control::Control;
use std::sync::Arc;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::OpenApi;

/// What the API is made of. Give `notifier` to the control plane as its doorbell too, and close it at shutdown.
#[derive(Debug, Clone)]
pub struct HttpState {
    pub control: Arc<Control>,
    pub tokens: Tokens,
    pub notifier: Arc<Notifier>,
    pub limits: HttpLimits,
}

/// Every route, with its limits, its log and its metrics.
pub fn router(state: HttpState) -> Router {
    let HttpState { control, tokens, notifier, limits } = state;
    let (routes, document) = routes::all(&limits).split_for_parts();
    let served = Arc::new(Served::default());
    let app = App {
        control,
        tokens: Arc::new(tokens),
        notifier,
        limits,
        served: Arc::clone(&served),
        document: Arc::new(document),
    };
    let routes = routes
        .fallback(envelope::no_such_route)
        .method_not_allowed_fallback(envelope::no_such_method)
        .with_state(app);
    // The last layer is the outermost.
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
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) notifier: Arc<Notifier>,
    pub(crate) limits: HttpLimits,
    pub(crate) served: Arc<Served>,
    pub(crate) document: Arc<OpenApi>,
}

impl FromRef<App> for Arc<Tokens> {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.tokens)
    }
}
