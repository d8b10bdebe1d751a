//! The HTTP API: routers, authentication, the error envelope, limits, long polls, metrics, the OpenAPI document.
//! It translates and calls `control`. It decides nothing about pools, and opens no socket: whoever mounts it listens.

pub mod auth;
mod calm;
mod clock;
mod detached;
pub mod envelope;
pub mod extract;
mod lane;
pub mod limits;
mod log;
mod metrics;
pub mod notify;
mod observe;
mod openapi;
mod poll;
mod routes;
pub mod webhook;
mod ws;

pub use auth::Tokens;
pub use lane::Lane;
pub use limits::HttpLimits;
pub use notify::Notifier;
pub use webhook::WebhookSecrets;

use axum::Router;
use axum::extract::FromRef;
use calm::Calm;
use lane::{Lanes, Places};
use metrics::Served;
use motorpool_control::Control;
use observe::Observe;
use openapi::Document;
use routes::Mounted;
use std::sync::Arc;
use utoipa::openapi::OpenApi;
use ws::Channels;

/// What the API is made of. Give `notifier` to the control plane as its doorbell too, and close it at shutdown.
#[derive(Debug, Clone)]
pub struct HttpState {
    pub control: Arc<Control>,
    pub tokens: Tokens,
    /// Of the CI systems whose webhooks are taken.
    pub webhooks: WebhookSecrets,
    pub notifier: Arc<Notifier>,
    pub limits: HttpLimits,
}

/// Every route, with its limits, its log and its metrics.
pub fn router(state: HttpState) -> Router {
    let HttpState { control, tokens, webhooks, notifier, limits } = state;
    let tokens = Arc::new(tokens);
    let Mounted { router, paths } = routes::all(&Lanes::new(&limits, &tokens));
    let served = Arc::new(Served::new(&paths));
    let calm = Arc::new(Calm::new(&limits));
    let app = App {
        control,
        tokens,
        webhooks: Arc::new(webhooks),
        notifier,
        limits,
        served: Arc::clone(&served),
        document: Arc::default(),
        channels: Arc::default(),
        channel_places: Places::new(limits.channels_at_once),
        turned_away_places: Places::new(limits.channels_at_once),
    };
    router
        .fallback(envelope::no_such_route)
        .method_not_allowed_fallback(envelope::no_such_method)
        .with_state(app)
        .layer(Observe { served, calm })
}

/// The OpenAPI document of the routes, as `GET /api/v1/openapi.json` gives it.
pub fn document() -> OpenApi {
    openapi::whole()
}

/// The state that handlers see.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) control: Arc<Control>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) webhooks: Arc<WebhookSecrets>,
    pub(crate) notifier: Arc<Notifier>,
    pub(crate) limits: HttpLimits,
    pub(crate) served: Arc<Served>,
    pub(crate) document: Arc<Document>,
    pub(crate) channels: Arc<Channels>,
    pub(crate) channel_places: Arc<Places>,
    pub(crate) turned_away_places: Arc<Places>,
}

impl FromRef<App> for Arc<Tokens> {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.tokens)
    }
}
