//! One log line a request: method, route, status, time, kind of caller, request id. Never a header, a query or a body.

use crate::metrics::Served;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use motorpool_control::ports::entropy::{Entropy, SystemEntropy};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tower_http::classify::{ServerErrorsAsFailures, SharedClassifier};
use tower_http::trace::TraceLayer;
use tracing::{Instrument, Span};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST_REQUEST_ID: usize = 64;

/// What is known of a request, for its log line. It travels in the extensions of the request and of the answer.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    id: String,
    method: &'static str,
    route: Option<MatchedPath>,
    who: Arc<OnceLock<CallerKind>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerKind {
    Operator,
    Team,
    Agent,
}

impl CallerKind {
    fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Team => "team",
            Self::Agent => "agent",
        }
    }
}

impl Mark {
    /// Remembers who calls, once that is known.
    pub(crate) fn note(extensions: &Extensions, who: CallerKind) {
        if let Some(mark) = extensions.get::<Self>() {
            // A second answer to the same question is the same.
            let _ = mark.who.set(who);
        }
    }

    fn of(request: &Request) -> Self {
        Self {
            id: sane_id(request.headers()).unwrap_or_else(|| format!("{:032x}", SystemEntropy.bits())),
            method: method(request.method()),
            route: request.extensions().get::<MatchedPath>().cloned(),
            who: Arc::default(),
        }
    }

    fn route(&self) -> &str {
        self.route.as_ref().map_or("unmatched", MatchedPath::as_str)
    }
}

/// As middleware: marks the request and its answer, counts it, and gives its id to every log line under it.
pub(crate) async fn mark(State(served): State<Arc<Served>>, mut request: Request, next: Next) -> Response {
    let mark = Mark::of(&request);
    request.extensions_mut().insert(mark.clone());
    let span = tracing::info_span!("request", request_id = mark.id);
    let mut response = next.run(request).instrument(span).await;
    served.count(mark.method, mark.route(), response.status());
    if let Ok(id) = HeaderValue::from_str(&mark.id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    // Answers are of the moment, and some hold a secret.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.extensions_mut().insert(mark);
    response
}

type Timed = TraceLayer<
    SharedClassifier<ServerErrorsAsFailures>,
    fn(&Request) -> Span,
    (),
    fn(&Response, Duration, &Span),
    (),
    (),
    (),
>;

/// As a layer around [`mark`]: writes the log line, with the time that the request took.
pub(crate) fn timed() -> Timed {
    TraceLayer::new_for_http()
        .make_span_with(no_span as fn(&Request) -> Span)
        .on_request(())
        .on_response(line as fn(&Response, Duration, &Span))
        .on_body_chunk(())
        .on_eos(())
        .on_failure(())
}

fn no_span(_: &Request) -> Span {
    Span::none()
}

fn line(response: &Response, took: Duration, _: &Span) {
    let Some(mark) = response.extensions().get::<Mark>() else { return };
    let (method, route, status) = (mark.method, mark.route(), response.status().as_u16());
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let caller = mark.who.get().map_or("nobody", |who| who.name());
    let request_id = &mark.id;
    // An agent's good answers are its heartbeats: too many to read.
    if mark.who.get() == Some(&CallerKind::Agent) && response.status().is_success() {
        tracing::debug!(
            method,
            route,
            status,
            ms,
            caller,
            request_id,
            "answered {method} {route} with {status}"
        );
    } else {
        tracing::info!(
            method,
            route,
            status,
            ms,
            caller,
            request_id,
            "answered {method} {route} with {status}"
        );
    }
}

/// The caller's own id, if it is one that can be logged and sent back as it is.
fn sane_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let sane = (1..=LONGEST_REQUEST_ID).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    sane.then(|| id.to_owned())
}

/// A caller may invent methods; logs and metrics know these.
fn method(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "OTHER",
    }
}
