//! One address for all functions, as an API gateway is one: it leads a path to its function by the functions' own table, joins
//! headers that come more than once, and changes nothing else.

use super::Deployed;
use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use motorpool_functions::routes::{Function, function_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Lambda takes 6 MB.
const LARGEST: usize = 6_000_000;

#[derive(Debug)]
pub(super) struct Front {
    url: String,
    serving: JoinHandle<()>,
}

impl Front {
    pub(super) async fn open(functions: BTreeMap<Function, Deployed>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a port for the front")?;
        let url = format!("http://{}", listener.local_addr()?);
        let router = Router::new().fallback(lead).with_state(Arc::new(functions));
        let serving = tokio::spawn(async move {
            // Whoever asks it sees if it ends.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, serving })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn close(&self) {
        self.serving.abort();
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.close();
    }
}

async fn lead(State(functions): State<Arc<BTreeMap<Function, Deployed>>>, request: Request) -> Response {
    match led(&functions, request).await {
        Ok(answer) => answer,
        Err(error) => (StatusCode::BAD_GATEWAY, format!("the front: {error:#}")).into_response(),
    }
}

async fn led(functions: &BTreeMap<Function, Deployed>, request: Request) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let function = functions.get(&function_of(parts.uri.path())).context("the function is deployed")?;
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let body = to_bytes(body, LARGEST).await.context("the request's body")?;
    let asked = function.request(parts.method, path).headers(joined(&parts.headers)?).body(body);
    let answer = asked.send().await.context("no answer of the emulator")?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    *response.headers_mut() = without_hops(answer.headers());
    *response.body_mut() = Body::from(answer.bytes().await.context("half an answer")?);
    Ok(response)
}

/// As payload format 2.0 has them: one line a name.
fn joined(headers: &HeaderMap) -> Result<HeaderMap> {
    let mut all = HeaderMap::new();
    for name in headers.keys().filter(|name| !is_hop(name)) {
        let values: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
        all.insert(name, HeaderValue::from_bytes(&values.join(b",".as_slice()))?);
    }
    Ok(all)
}

fn without_hops(headers: &HeaderMap) -> HeaderMap {
    headers
        .iter()
        .filter(|(name, _)| !is_hop(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// What is between two neighbours only.
fn is_hop(name: &HeaderName) -> bool {
    [CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING].contains(name)
}
