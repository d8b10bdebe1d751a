//! One connection, from its first byte to its end.

use super::crowd::Seat;
use super::limits::ConnectionLimits;
use super::silence::{Activity, Heard, UnderWay};
use axum::body::{Bytes, HttpBody};
use axum::http::{Request, Version};
use axum::response::Response;
use axum::{BoxError, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tower::Service;

/// What all connections have in common.
pub(super) struct Server {
    pub(super) limits: ConnectionLimits,
    pub(super) router: Router,
    pub(super) tls: Option<TlsAcceptor>,
    http: Builder<TokioExecutor>,
}

/// How long requests under way may take once a stop is asked for.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// How long a connection that was silent for too long has to take its leave.
const LEAVE: Duration = Duration::from_secs(1);
/// A head is never as long; and an answer is written in pieces of this.
const BUFFER_BYTES: usize = 32 * 1024;
/// What comes on one stream, and on all streams of a connection, before it is read.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;
/// Streams that the peer opens and gives up at once, and streams that are refused: beyond that the connection is ended.
const RESETS: usize = 32;

impl Server {
    pub(super) fn new(limits: ConnectionLimits, router: Router, tls: Option<TlsAcceptor>) -> Self {
        let mut http = Builder::new(TokioExecutor::new());
        // No time-out of hyper's for heads: it would set a timer for each request, and end idle connections with a warning.
        http.http1().max_buf_size(BUFFER_BYTES).header_read_timeout(None::<Duration>);
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams)
            .max_pending_accept_reset_streams(RESETS)
            .max_local_error_reset_streams(RESETS)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(BUFFER_BYTES)
            .keep_alive_interval(limits.ping)
            .keep_alive_timeout(limits.pong);
        Self { limits, router, tls, http }
    }

    /// Serves it until it ends, is silent for too long, or the server stops.
    pub(super) async fn connection(&self, stream: TcpStream, seat: Seat, stopping: watch::Receiver<bool>) {
        // A small answer need not wait for a full packet; where that can't be set, it does.
        let _ = stream.set_nodelay(true);
        match &self.tls {
            None => self.http(stream, seat, stopping).await,
            Some(tls) => match timeout(self.limits.tls_handshake, tls.accept(stream)).await {
                Ok(Ok(stream)) => self.http(stream, seat, stopping).await,
                Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => tracing::debug!("a TLS handshake took too long"),
            },
        }
    }

    /// A connection that becomes a WebSocket is over as one of HTTP, and its silence is no more for this to watch. Its bytes take its seat along, and
    /// the server waits for its end when it stops.
    async fn http<I>(&self, io: I, seat: Seat, mut stopping: watch::Receiver<bool>)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let activity = Activity::new();
        let service = Noted { router: self.router.clone(), activity: Arc::clone(&activity) };
        let kept = Kept { _seat: seat, _stopping: stopping.clone() };
        let io = TokioIo::new(Heard::new(io, Arc::clone(&activity), kept));
        let service = TowerToHyperService::new(service);
        let mut connection = pin!(self.http.serve_connection_with_upgrades(io, service));
        let leave = tokio::select! {
            biased;
            // However it ended: whoever was on the other side knows.
            _ = connection.as_mut() => return,
            () = activity.silence(&self.limits) => LEAVE,
            _ = stopping.wait_for(|stopping| *stopping) => GRACE,
        };
        connection.as_mut().graceful_shutdown();
        let _ = timeout(leave, connection).await;
    }
}

/// What a connection has as long as its bytes can flow.
#[derive(Debug)]
pub(super) struct Kept {
    _seat: Seat,
    _stopping: watch::Receiver<bool>,
}

/// The router, noting which requests are under way.
#[derive(Clone)]
struct Noted {
    router: Router,
    activity: Arc<Activity>,
}

pin_project_lite::pin_project! {
    struct Answering<F> {
        #[pin]
        answer: F,
        under_way: UnderWay,
    }
}

impl<B> Service<Request<B>> for Noted
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Answering<<Router as Service<Request<B>>>::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<B>>::poll_ready(&mut self.router, cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let under_way = self.activity.request(request.version() == Version::HTTP_2);
        Answering { answer: self.router.call(request), under_way }
    }
}

impl<F: Future> Future for Answering<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().answer.poll(cx)
    }
}
