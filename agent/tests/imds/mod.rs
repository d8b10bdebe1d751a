//! A metadata service as an EC2 instance has it, over real HTTP on loopback. It notes what it is asked for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::LOCATION;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;

const TOKEN: &str = "x-aws-ec2-metadata-token";
const TOKEN_TTL: &str = "x-aws-ec2-metadata-token-ttl-seconds";

#[derive(Clone)]
pub(crate) struct FakeImds {
    pub(crate) address: String,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
pub(crate) struct Inner {
    /// By their paths under `meta-data/`.
    pub(crate) items: BTreeMap<&'static str, String>,
    /// Who asks for a token is answered this. Everything else is told to anybody, as version 1 does.
    pub(crate) no_tokens: Option<StatusCode>,
    /// So many calls fail first.
    pub(crate) failures: u32,
    /// Sessions that it knows.
    pub(crate) tokens: Vec<String>,
    made: u32,
    pub(crate) seen: Vec<Call>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) status: StatusCode,
}

impl FakeImds {
    pub(crate) async fn new(instance_id: &str, launch_index: u32) -> Self {
        let items = BTreeMap::from([
            ("instance-id", instance_id.to_owned()),
            ("ami-launch-index", launch_index.to_string()),
        ]);
        let inner = Arc::new(Mutex::new(Inner { items, ..Inner::default() }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new().fallback(answer).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { address, inner }
    }

    pub(crate) fn now(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }
}

async fn answer(State(inner): State<Arc<Mutex<Inner>>>, request: Request) -> Response {
    let mut inner = inner.lock().unwrap();
    let response = inner.answer(&request);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    inner.seen.push(Call { method, path, status: response.status() });
    response
}

impl Inner {
    fn answer(&mut self, request: &Request) -> Response {
        if self.failures > 0 {
            self.failures -= 1;
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        let header = |name| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        if request.uri().path() == "/latest/api/token" {
            return self.token(request.method(), header(TOKEN_TTL));
        }
        let allowed =
            self.no_tokens.is_some() || header(TOKEN).is_some_and(|token| self.tokens.contains(&token));
        if !allowed {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        let item =
            request.uri().path().strip_prefix("/latest/meta-data/").and_then(|path| self.items.get(path));
        match item {
            Some(text) => text.clone().into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        }
    }

    fn token(&mut self, method: &Method, ttl: Option<String>) -> Response {
        if let Some(status) = self.no_tokens {
            return (status, [(LOCATION, "/latest/meta-data/instance-id")]).into_response();
        }
        if method != Method::PUT {
            return StatusCode::METHOD_NOT_ALLOWED.into_response();
        }
        match ttl.and_then(|ttl| ttl.parse::<u32>().ok()) {
            Some(1..=21_600) => {}
            Some(_) | None => return StatusCode::BAD_REQUEST.into_response(),
        }
        self.made += 1;
        let token = format!("session-{}", self.made);
        self.tokens.push(token.clone());
        token.into_response()
    }
}
