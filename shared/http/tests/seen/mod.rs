//! An answer as a test sees it.
#![allow(dead_code, reason = "each test file uses the part that it needs")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use motorpool_wire::error::{ErrorBody, ErrorCode, ErrorEnvelope};
use serde_json::Value;
use tower::ServiceExt;

#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

pub(crate) async fn send(router: &Router, request: Request<Body>) -> Seen {
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, 1 << 20).await.unwrap();
    Seen { status: parts.status, headers: parts.headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
}

pub(crate) fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

pub(crate) fn get_with(path: &str, authorization: &str) -> Request<Body> {
    Request::get(path).header("authorization", authorization).body(Body::empty()).unwrap()
}

pub(crate) fn post(path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(path).header("content-type", "application/json").body(body.into()).unwrap()
}

pub(crate) fn call(method: &str, path: &str, token: Option<&str>, body: impl Into<Body>) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request.body(body.into()).unwrap()
}

impl Seen {
    #[track_caller]
    pub(crate) fn json(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        serde_json::from_str(&self.text).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The envelope, which must be whole: a code that suits, a message and a hint.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: ErrorCode) -> ErrorBody {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/json"));
        let ErrorEnvelope { error } = serde_json::from_str(&self.text).unwrap();
        assert_eq!(error.code, code, "{error:?}");
        assert!(!error.message.is_empty() && !error.hint.is_empty(), "{error:?}");
        error
    }
}
