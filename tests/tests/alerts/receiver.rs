//! A receiver on loopback: it keeps what it takes, and answers as the test says.

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

pub(crate) const SECRET: &str = "shared with the receiver alone";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Takes,
    Fails,
    /// It hears the message, and never answers.
    Hangs,
}

/// What it was sent, in order, each with how it answered.
type Sent = Vec<(Value, Answer)>;

#[derive(Debug, Clone)]
pub(crate) struct Receiver {
    pub(crate) url: String,
    sent: Arc<Mutex<Sent>>,
    /// What it answers to the next messages; all others it takes.
    next: Arc<Mutex<VecDeque<Answer>>>,
}

impl Receiver {
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/hook", listener.local_addr()?);
        let receiver = Self { url, sent: Arc::default(), next: Arc::default() };
        let router = Router::new().fallback(take).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(receiver)
    }

    pub(crate) fn answers(&self, next: &[Answer]) {
        self.next.lock().unwrap().extend(next);
    }

    pub(crate) fn sent(&self) -> Sent {
        self.sent.lock().unwrap().clone()
    }

    /// State and incident of each message that it took.
    pub(crate) fn took(&self) -> Vec<String> {
        let taken = self.sent().into_iter().filter(|(_, answer)| *answer == Answer::Takes);
        taken
            .map(|(body, _)| {
                let part = |name: &str| body[name].as_str().unwrap_or("-").to_owned();
                format!("{} {} {}", part("incident"), part("subject"), part("state"))
            })
            .collect()
    }
}

async fn take(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let Ok(body) = checked(&headers, &body) else { return StatusCode::UNAUTHORIZED };
    let answer = receiver.next.lock().unwrap().pop_front().unwrap_or(Answer::Takes);
    receiver.sent.lock().unwrap().push((body, answer));
    match answer {
        Answer::Takes => StatusCode::OK,
        Answer::Fails => StatusCode::INTERNAL_SERVER_ERROR,
        Answer::Hangs => std::future::pending().await,
    }
}

/// The body, if it is signed with our secret: as a receiver that is not ours would check it.
fn checked(headers: &HeaderMap, body: &[u8]) -> Result<Value> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).context("no header");
    let timestamp = header("x-motorpool-timestamp")?;
    let text = [timestamp.as_bytes(), b".", body].concat();
    let pad = |with: u8| -> Vec<u8> {
        (0..64).map(|place| SECRET.as_bytes().get(place).copied().unwrap_or(0) ^ with).collect()
    };
    let inner = Sha256::digest([pad(0x36), text].concat());
    let outer = Sha256::digest([pad(0x5c), inner.to_vec()].concat());
    let expected: String = outer.iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(header("x-motorpool-signature")? == format!("sha256={expected}"), "another's signature");
    Ok(serde_json::from_slice(body)?)
}
