//! A receiver on loopback that keeps what it gets, and answers as it is told.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Answers {
    With(StatusCode),
    Elsewhere(String),
    /// Not before it is told so: each permit is for one answer.
    When(Arc<tokio::sync::Semaphore>),
}

#[derive(Debug, Clone)]
pub(crate) struct Receiver {
    pub(crate) port: u16,
    answers: Answers,
    got: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    pub(crate) async fn start(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let receiver = Self { port, answers, got: Arc::default() };
        let router = axum::Router::new().fallback(take).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        receiver
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook/secret-path", self.port)
    }

    pub(crate) fn got(&self) -> Vec<Received> {
        self.got.lock().unwrap().clone()
    }
}

async fn take(State(receiver): State<Receiver>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    receiver.got.lock().unwrap().push(Received { path: uri.path().to_owned(), headers, body });
    match &receiver.answers {
        Answers::With(status) => (*status, "what the receiver answers").into_response(),
        Answers::Elsewhere(url) => Redirect::temporary(url).into_response(),
        Answers::When(told) => {
            told.acquire().await.unwrap().forget();
            StatusCode::OK.into_response()
        }
    }
}
