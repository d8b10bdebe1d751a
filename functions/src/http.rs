//! HTTP events to the router that `serve` has too, and its answers back. A function answers its own paths alone, so that its
//! address opens no more than it is meant for.

use crate::routes::{Function, function_of};
use axum::Router;
use axum::http::uri::{PathAndQuery, Uri};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use lambda_http::{Request, RequestExt, Service, service_fn};
use motorpool_http::HttpLimits;
use motorpool_http::envelope::Refusal;
use motorpool_wire::error::ErrorCode;
use std::convert::Infallible;
use std::fmt::Write;
use std::time::Duration;
use tower::ServiceExt;

/// A held answer is paid for by the second, and no change that another function makes wakes it: it is held briefly, and looks often.
pub fn limits() -> HttpLimits {
    HttpLimits {
        request: Duration::from_secs(28),
        claim_hold: Duration::from_secs(20),
        sync_hold: Duration::ZERO,
        recheck: Duration::from_secs(1),
        ..HttpLimits::default()
    }
}

/// Brings each request to the router, if its path is this function's.
pub fn service(
    function: Function,
    router: Router,
) -> impl Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone {
    service_fn(move |request: Request| {
        let router = router.clone();
        async move {
            let request = with_request_id(with_path_as_sent(request));
            match function_of(request.uri().path()) == function {
                true => router.oneshot(request).await,
                false => Ok(elsewhere(function, &request).into_response()),
            }
        }
    })
}

fn elsewhere(function: Function, request: &Request) -> Refusal {
    tracing::info!(function = function.name(), "refused a request that is another function's");
    Refusal::new(
        StatusCode::NOT_FOUND,
        ErrorCode::NotFound,
        format!(
            "the function {} has no route {} {}",
            function.name(),
            request.method(),
            request.uri().path()
        ),
        "ask at the address that leads to all functions",
    )
}

/// A function URL hands the path on as it was sent, an HTTP API decodes it, and the runtime's crate makes a URL of either: dots would
/// climb, line ends vanish, a question mark begin the query. This takes it as it came, with whatever can't stand in a path encoded.
fn with_path_as_sent(mut request: Request) -> Request {
    let raw = request.raw_http_path().to_owned();
    let mut path = String::with_capacity(raw.len());
    if !raw.starts_with('/') {
        path.push('/');
    }
    for byte in raw.bytes() {
        let stands = byte.is_ascii_alphanumeric() || b"/%-._~!$&'()*+,;=:@".contains(&byte);
        if stands {
            path.push(char::from(byte));
        } else {
            // Writing to a string can't fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
    if let Some(query) = request.uri().query() {
        path.push('?');
        path.push_str(query);
    }
    // A path of these bytes parses; if one ever does not, what the crate made of it is as good as any.
    if let Ok(path) = PathAndQuery::try_from(path) {
        *request.uri_mut() = Uri::from(path);
    }
    request
}

/// One id from Lambda's own lines to the answer's header, unless the caller brings one.
fn with_request_id(mut request: Request) -> Request {
    const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
    let id = request.lambda_context_ref().and_then(|context| HeaderValue::from_str(&context.request_id).ok());
    if let (Some(id), false) = (id, request.headers().contains_key(REQUEST_ID)) {
        request.headers_mut().insert(REQUEST_ID, id);
    }
    request
}
