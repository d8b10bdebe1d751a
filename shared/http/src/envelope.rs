//! Every answer that is not a success: the one error envelope, with its status and headers.

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use motorpool_control::{Refused, RefusedKind, whole_seconds};
use motorpool_domain::IdError;
use motorpool_domain::text::visible;
use motorpool_wire::error::{ErrorBody, ErrorCode, ErrorEnvelope};
use std::any::Any;
use std::time::Duration;

/// Texts of the caller's own are quoted in messages; no answer grows with them, and none passes on what steers a terminal.
const LONGEST_MESSAGE: usize = 600;

/// Where a caller finds what may be sent.
pub const SEE_DOCUMENT: &str = "GET /api/v1/openapi.json says what each route takes";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    status: StatusCode,
    code: ErrorCode,
    message: String,
    hint: String,
    /// Told in the header `Retry-After`, which counts whole seconds. A caller that asks too much, and has no time set here, is told to
    /// wait a moment.
    retry_after: Option<Duration>,
}

impl Refusal {
    pub fn new(
        status: StatusCode,
        code: ErrorCode,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let (message, hint): (String, String) = (cut(message.into()), hint.into());
        Self { status, code, message: visible(&message), hint: visible(&hint), retry_after: None }
    }

    pub fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorCode::InvalidRequest, message, hint)
    }

    pub fn unauthorized(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, ErrorCode::Unauthorized, message, hint)
    }

    pub fn forbidden(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, ErrorCode::Forbidden, message, hint)
    }

    pub fn too_many(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::TooManyRequests, message, hint)
    }

    pub fn internal(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal, message, hint)
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The same envelope under another status.
    #[must_use]
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        let Refused { kind, message, hint, retry_after } = refused;
        let (status, code) = match kind {
            RefusedKind::InvalidRequest => (StatusCode::BAD_REQUEST, ErrorCode::InvalidRequest),
            RefusedKind::Unauthorized => (StatusCode::UNAUTHORIZED, ErrorCode::Unauthorized),
            RefusedKind::Forbidden => (StatusCode::FORBIDDEN, ErrorCode::Forbidden),
            RefusedKind::NotFound => (StatusCode::NOT_FOUND, ErrorCode::NotFound),
            RefusedKind::Conflict => (StatusCode::CONFLICT, ErrorCode::Conflict),
            RefusedKind::Gone => (StatusCode::GONE, ErrorCode::Gone),
            RefusedKind::TooManyRequests => (StatusCode::TOO_MANY_REQUESTS, ErrorCode::TooManyRequests),
            RefusedKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Internal),
            RefusedKind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal),
        };
        Self { retry_after, ..Self::new(status, code, message, hint) }
    }
}

impl From<IdError> for Refusal {
    fn from(error: IdError) -> Self {
        Self::invalid(error.to_string(), "correct the name and ask again")
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self { status, code, message, hint, retry_after } = self;
        let envelope = ErrorEnvelope { error: ErrorBody { code, message, hint } };
        let mut response = (status, Json(envelope)).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"motorpool\""));
        }
        let a_moment = (status == StatusCode::TOO_MANY_REQUESTS).then_some(Duration::from_secs(1));
        if let Some(wait) = retry_after.or(a_moment) {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
        }
        response
    }
}

pub(crate) async fn no_such_route(method: Method, uri: Uri) -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        ErrorCode::NotFound,
        format!("there is no route {method} {}", uri.path()),
        "GET /api/v1/openapi.json lists the routes",
    )
}

/// The router adds which methods are allowed, as the header `Allow`.
pub(crate) async fn no_such_method(method: Method, uri: Uri) -> Refusal {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::InvalidRequest,
        format!("{} does not take {method}", uri.path()),
        "the answer's header Allow names the methods that it takes",
    )
}

/// A bug of ours. The caller is not told its text, the log is.
pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> Response {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no text");
    tracing::error!(panic = text, "a handler panicked");
    Refusal::internal(
        "the request failed because of a bug",
        "look at the control plane's log, and report it; nothing is known to be done",
    )
    .into_response()
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(LONGEST_MESSAGE) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_status() {
        for (kind, status) in [
            (RefusedKind::InvalidRequest, 400),
            (RefusedKind::Unauthorized, 401),
            (RefusedKind::Forbidden, 403),
            (RefusedKind::NotFound, 404),
            (RefusedKind::Conflict, 409),
            (RefusedKind::Gone, 410),
            (RefusedKind::TooManyRequests, 429),
            (RefusedKind::Unavailable, 503),
            (RefusedKind::Internal, 500),
        ] {
            let answer = Refusal::from(Refused::new(kind, "m", "h")).into_response();
            assert_eq!(answer.status().as_u16(), status);
            assert_eq!(answer.headers().contains_key("www-authenticate"), status == 401);
            assert_eq!(answer.headers().contains_key("retry-after"), status == 429);
        }
    }

    #[test]
    fn a_wait_is_told_in_whole_seconds_that_are_long_enough() {
        for (wait_ms, told) in [(1, "1"), (1_000, "1"), (61_001, "62"), (3_600_000, "3600")] {
            let refused = Refused {
                retry_after: Some(Duration::from_millis(wait_ms)),
                ..Refused::new(RefusedKind::TooManyRequests, "m", "h")
            };
            let answer = Refusal::from(refused).into_response();
            assert_eq!(answer.headers().get("retry-after").unwrap(), told, "{wait_ms} ms");
        }
        let unsaid = Refusal::from(Refused::new(RefusedKind::Internal, "m", "h")).into_response();
        assert_eq!(unsaid.headers().get("retry-after"), None);
    }
}
