//! Answers as Proxmox VE writes them: `{"data": …}`, and for errors its words in the reason phrase and, since 2025, in the body.

use axum::body::{Body, Bytes};
use axum::http::{Response, StatusCode};
use hyper::ext::ReasonPhrase;
use serde_json::{Map, Value, json};

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) data: Value,
    /// By parameter.
    pub(crate) errors: Map<String, Value>,
}

impl Answer {
    pub(crate) fn ok(data: Value) -> Self {
        Self { status: 200, reason: "OK".to_owned(), data, errors: Map::new() }
    }

    pub(crate) fn error(status: u16, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into(), data: Value::Null, errors: Map::new() }
    }

    pub(crate) fn parameter(name: &str, why: &str) -> Self {
        let errors = Map::from_iter([(name.to_owned(), json!(why))]);
        Self { errors, ..Self::error(400, "Parameter verification failed.") }
    }

    /// `in_body`: errors say what they are there, too. `lost`: the answer begins, and breaks off.
    pub(crate) fn response(self, in_body: bool, lost: bool) -> Response<Body> {
        let Self { status, reason, data, errors } = self;
        let mut body = Map::from_iter([("data".to_owned(), data)]);
        if !errors.is_empty() {
            body.insert("errors".to_owned(), Value::Object(errors));
        }
        if in_body && status >= 400 {
            body.insert("message".to_owned(), json!(format!("{reason}\n")));
        }
        let body = if lost {
            let broken = std::io::Error::other("the line is cut");
            Body::from_stream(futures_util::stream::once(async { Err::<Bytes, _>(broken) }))
        } else {
            Body::from(Value::Object(body).to_string())
        };
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(status).expect("a status of three digits");
        let headers = response.headers_mut();
        headers.insert("content-type", "application/json;charset=UTF-8".parse().expect("a header"));
        headers.insert("server", "pve-api-daemon/3.0".parse().expect("a header"));
        let reason = ReasonPhrase::try_from(reason.into_bytes()).expect("a reason of one line");
        response.extensions_mut().insert(reason);
        response
    }
}
