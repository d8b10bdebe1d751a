//! A server on loopback that remembers what it was asked, and a clock that a test moves.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, Request};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::{RequestExt, Router};
use motorpool_control::ports::clock::Clock;
use motorpool_domain::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;

/// 2027-01-15 08:00:00 UTC.
const START_S: u64 = 1_800_000_000;

#[derive(Debug)]
pub struct TestClock(AtomicU64);

impl TestClock {
    pub fn start() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(START_S * 1_000)))
    }

    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    pub fn seconds(&self) -> u64 {
        self.0.load(Ordering::SeqCst) / 1_000
    }

    pub fn text_in(&self, later: Duration) -> String {
        let at = i64::try_from(self.seconds() + later.as_secs()).unwrap();
        jiff::Timestamp::from_second(at).unwrap().to_string()
    }

    fn http_date(&self) -> String {
        let now = jiff::Timestamp::from_second(i64::try_from(self.seconds()).unwrap()).unwrap();
        jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&now).unwrap()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub path: String,
    pub query: BTreeMap<String, String>,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Seen {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    pub fn number(&self, name: &str) -> Option<usize> {
        self.query.get(name).map(|value| value.parse().unwrap())
    }
}

#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Value,
    /// The connection breaks before the body.
    pub lost: bool,
    /// Nothing is ever said.
    pub hangs: bool,
}

impl Reply {
    pub fn new(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body, lost: false, hangs: false }
    }

    /// No answer at all.
    pub fn never() -> Self {
        Self { hangs: true, ..Self::new(200, Value::Null) }
    }

    pub fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }
}

#[derive(Debug)]
pub struct Server {
    pub url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Something was asked.
    asked: Arc<Notify>,
}

impl Server {
    pub async fn start(
        clock: Arc<TestClock>,
        answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let (seen, asked): (Arc<Mutex<Vec<Seen>>>, Arc<Notify>) = Default::default();
        let (remembered, told, answer) = (Arc::clone(&seen), Arc::clone(&asked), Arc::new(answer));
        let app = Router::new().fallback(move |request: Request| {
            let (seen, answer, clock) = (Arc::clone(&remembered), Arc::clone(&answer), Arc::clone(&clock));
            let asked = Arc::clone(&told);
            async move {
                let request = read(request).await;
                seen.lock().unwrap().push(request.clone());
                let reply = answer(&request);
                asked.notify_waiters();
                if reply.hangs {
                    std::future::pending::<()>().await;
                }
                respond(reply, &clock)
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, seen, asked }
    }

    /// Returns once so many requests have come.
    pub async fn was_asked(&self, times: usize) {
        loop {
            let asked = self.asked.notified();
            if self.seen.lock().unwrap().len() >= times {
                return;
            }
            asked.await;
        }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn lines(&self) -> Vec<String> {
        self.seen().iter().map(Seen::line).collect()
    }

    /// How many requests there were whose line ends so.
    pub fn count(&self, end: &str) -> usize {
        self.lines().iter().filter(|line| line.ends_with(end)).count()
    }
}

async fn read(mut request: Request) -> Seen {
    let Query(query) = request.extract_parts::<Query<BTreeMap<String, String>>>().await.unwrap();
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    Seen {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query,
        headers: parts.headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    }
}

fn respond(reply: Reply, clock: &TestClock) -> Response {
    let Reply { status, headers, body, lost, hangs: _ } = reply;
    let mut response = Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header("content-type", "application/json")
        .header("date", clock.http_date());
    for (name, value) in headers {
        response = response.header(name, value);
    }
    let body = if lost {
        let broken = std::io::Error::other("the line is cut");
        Body::from_stream(futures_util::stream::once(async { Err::<Bytes, _>(broken) }))
    } else if body.is_null() {
        Body::empty()
    } else {
        Body::from(body.to_string())
    };
    response.body(body).unwrap()
}
