//! How much of everything a caller may have: bytes, time, and requests at once. What is beyond is refused at once, never queued.

use crate::envelope::Refusal;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    pub body_bytes: usize,
    /// A sync may bring the output of tasks.
    pub sync_body_bytes: usize,
    /// How long a request may take beyond the wait that it asked for.
    pub request: Duration,
    /// How long a long poll may ask to wait.
    pub longest_wait: Duration,
    /// How long `GET /claims/{claim}` is held at most, whatever it asked for; then it tells what is.
    pub claim_hold: Duration,
    /// How long a sync is held at most; zero where it is answered at once.
    pub sync_hold: Duration,
    /// How often a held claim is looked at although nobody was woken: a wake-up may be lost, or be due in another process. Each look
    /// asks the ledger some things, and many may wait.
    pub recheck: Duration,
    pub api_at_once: usize,
    /// Requests that may wait, `GET /claims/{claim}`: counted apart, so that those who wait keep nobody from working.
    pub waits_at_once: usize,
    pub agents_at_once: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            body_bytes: 64 * 1024,
            sync_body_bytes: 256 * 1024,
            request: Duration::from_secs(30),
            longest_wait: Duration::from_secs(60),
            claim_hold: Duration::from_secs(60),
            sync_hold: Duration::from_secs(60),
            recheck: Duration::from_secs(5),
            api_at_once: 512,
            waits_at_once: 512,
            agents_at_once: 20_000,
        }
    }
}

/// Routes that share a number of permits. Time counts from the first byte of the body.
#[derive(Debug, Clone)]
pub struct Lane {
    permits: Arc<Semaphore>,
    time: Duration,
}

impl Lane {
    pub fn new(at_once: usize, time: Duration) -> Self {
        Self { permits: Arc::new(Semaphore::new(at_once.min(Semaphore::MAX_PERMITS))), time }
    }

    /// The same permits, for routes that may take another time.
    #[must_use]
    pub fn lasting(&self, time: Duration) -> Self {
        Self { permits: Arc::clone(&self.permits), time }
    }
}

/// As middleware: a permit of the lane, or 429; an answer in time, or 500.
pub async fn keep_to(State(lane): State<Lane>, request: Request, next: Next) -> Result<Response, Refusal> {
    let Ok(_permit) = lane.permits.try_acquire() else {
        return Err(Refusal::too_many(
            "too many requests are being served at this moment",
            "try again after the seconds in the answer's header Retry-After",
        ));
    };
    tokio::time::timeout(lane.time, next.run(request)).await.map_err(|_| took_too_long())
}

pub(crate) fn took_too_long() -> Refusal {
    Refusal::internal(
        "the request took too long, and was given up",
        "it may have been done all the same: look before you ask again; repeating it is harmless",
    )
}
