//! Whether a connection says something: what each of its parts notes, and the watch over it. A request under way is no silence, however
//! long its answer takes: long polls are not cut.

use super::connection::Kept;
use super::limits::ConnectionLimits;
use crate::clock;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

/// What is going on, as long as no request is under way.
#[derive(Debug)]
pub(super) struct Activity {
    begun: Instant,
    requests: AtomicUsize,
    phase: AtomicU8,
    /// When the phase began, counted from `begun`.
    since_ms: AtomicU64,
}

/// Nothing was said yet.
const NEW: u8 = 0;
/// A head has begun.
const HEAD: u8 = 1;
/// All requests are answered.
const IDLE: u8 = 2;
/// As `IDLE`, on HTTP/2: what comes may be no head but a ping.
const IDLE_STREAMS: u8 = 3;

/// A request under way.
#[derive(Debug)]
pub(super) struct UnderWay {
    activity: Arc<Activity>,
    after: u8,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        let begun = clock::ticking();
        let (requests, phase, since_ms) = (AtomicUsize::new(0), AtomicU8::new(NEW), AtomicU64::new(0));
        Arc::new(Self { begun, requests, phase, since_ms })
    }

    pub(super) fn request(self: &Arc<Self>, is_stream: bool) -> UnderWay {
        self.requests.fetch_add(1, Ordering::AcqRel);
        UnderWay { activity: Arc::clone(self), after: if is_stream { IDLE_STREAMS } else { IDLE } }
    }

    fn heard(&self) {
        let phase = self.phase.load(Ordering::Acquire);
        if (phase == NEW || phase == IDLE) && self.requests.load(Ordering::Acquire) == 0 {
            self.enter(HEAD);
        }
    }

    fn enter(&self, phase: u8) {
        let since = clock::ticking().duration_since(self.begun);
        self.since_ms.store(u64::try_from(since.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
        self.phase.store(phase, Ordering::Release);
    }

    /// Until when the connection may say nothing; nothing if a request is under way.
    fn deadline(&self, limits: &ConnectionLimits) -> Option<Instant> {
        if self.requests.load(Ordering::Acquire) > 0 {
            return None;
        }
        let within = match self.phase.load(Ordering::Acquire) {
            NEW => limits.first_byte,
            HEAD => limits.head,
            _ => limits.idle,
        };
        let since = Duration::from_millis(self.since_ms.load(Ordering::Acquire));
        Some(self.begun + since + within)
    }

    /// Ends when the connection has been silent for too long. It must be polled after whatever drives the connection, in the same task:
    /// then a timer is set only for a silence, and not for each request.
    pub(super) async fn silence(&self, limits: &ConnectionLimits) {
        let mut timer = pin!(sleep_until(self.begun + limits.first_byte));
        poll_fn(|cx| {
            loop {
                let deadline = self.deadline(limits);
                if deadline.is_some_and(|deadline| deadline < timer.deadline()) {
                    let earlier = deadline.unwrap_or(self.begun);
                    timer.as_mut().reset(earlier);
                }
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                match deadline {
                    Some(deadline) if deadline <= timer.deadline() => return Poll::Ready(()),
                    Some(later) => timer.as_mut().reset(later),
                    None => timer.as_mut().reset(clock::ticking() + limits.idle),
                }
            }
        })
        .await;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        // Before it is counted as over: whoever sees that nothing is under way must see since when.
        self.activity.enter(self.after);
        self.activity.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A stream that notes when something comes.
#[derive(Debug)]
pub(super) struct Heard<I> {
    /// Before the stream: whoever sees that it is closed finds its seat free.
    _kept: Kept,
    io: I,
    activity: Arc<Activity>,
}

impl<I> Heard<I> {
    pub(super) fn new(io: I, activity: Arc<Activity>, kept: Kept) -> Self {
        Self { _kept: kept, io, activity }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Heard<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.activity.heard();
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Heard<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
