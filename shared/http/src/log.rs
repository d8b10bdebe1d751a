//! What is known of a request, and its one log line: method, route, status, time, kind of caller, request id. Never a header, a query or a
//! body.

use crate::metrics::{METHODS, UNMATCHED};
use axum::extract::{MatchedPath, Request};
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use motorpool_control::ports::entropy::{Entropy, SystemEntropy};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing::Span;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST_REQUEST_ID: usize = 64;

/// What is known of a request. It travels in the request's extensions, where who calls is noted.
#[derive(Debug, Clone)]
pub(crate) struct Mark(Arc<Known>);

#[derive(Debug)]
struct Known {
    id: String,
    method: &'static str,
    route: Option<MatchedPath>,
    who: OnceLock<CallerKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerKind {
    Operator,
    Team,
    Agent,
    CiSystem,
}

impl CallerKind {
    fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Team => "team",
            Self::Agent => "agent",
            Self::CiSystem => "ci system",
        }
    }
}

impl Mark {
    pub(crate) fn of(request: &Request) -> Self {
        Self(Arc::new(Known {
            id: sane_id(request.headers()).unwrap_or_else(|| format!("{:032x}", SystemEntropy.bits())),
            method: method(request.method()),
            route: request.extensions().get::<MatchedPath>().cloned(),
            who: OnceLock::new(),
        }))
    }

    /// Remembers who calls, once that is known.
    pub(crate) fn note(extensions: &Extensions, who: CallerKind) {
        if let Some(mark) = extensions.get::<Self>() {
            mark.is_of(who);
        }
    }

    pub(crate) fn is_of(&self, who: CallerKind) {
        // A second answer to the same question is the same.
        let _ = self.0.who.set(who);
    }

    pub(crate) fn is_of_nobody_known(&self) -> bool {
        self.0.who.get().is_none()
    }

    pub(crate) fn method(&self) -> &'static str {
        self.0.method
    }

    pub(crate) fn route(&self) -> Option<&str> {
        self.0.route.as_ref().map(MatchedPath::as_str)
    }

    pub(crate) fn id(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0.id).ok()
    }

    /// Gives the request's id to every log line under it.
    pub(crate) fn span(&self) -> Span {
        tracing::info_span!("request", request_id = self.0.id)
    }

    pub(crate) fn write_line(&self, status: StatusCode, took: Duration) {
        let Known { id: request_id, method, route: _, who } = self.0.as_ref();
        let route = self.route().unwrap_or(UNMATCHED);
        let caller = who.get().map_or("nobody", |who| who.name());
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        // An agent's good answers are its heartbeats: too many to read.
        let is_heartbeat = who.get() == Some(&CallerKind::Agent) && status.is_success();
        let status = status.as_u16();
        if is_heartbeat {
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
}

/// The caller's own id, if it is one that can be logged and sent back as it is.
fn sane_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let sane = (1..=LONGEST_REQUEST_ID).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    sane.then(|| id.to_owned())
}

fn method(method: &Method) -> &'static str {
    METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or("OTHER")
}
