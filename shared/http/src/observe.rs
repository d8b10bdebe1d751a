//! Around every request, in one layer: its id, its log line and its count; an answer even where a handler panics; and the pause before an
//! answer that is one of a flood's.

use crate::calm::{Calm, Gets, KeptBack};
use crate::clock;
use crate::envelope::panicked;
use crate::log::{Mark, REQUEST_ID};
use crate::metrics::Served;
use axum::extract::Request;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use pin_project_lite::pin_project;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::time::{Instant, Sleep, sleep};
use tower::{Layer, Service};
use tracing::Instrument;
use tracing::instrument::Instrumented;

#[derive(Debug, Clone)]
pub(crate) struct Observe {
    pub(crate) served: Arc<Served>,
    pub(crate) calm: Arc<Calm>,
}

#[derive(Debug, Clone)]
pub(crate) struct Observed<S> {
    by: Observe,
    inner: S,
}

pin_project! {
    pub(crate) struct Observing<F> {
        by: Observe,
        mark: Mark,
        since: Instant,
        #[pin]
        stage: Stage<F>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<F> {
        Answering {
            #[pin]
            answer: Instrumented<F>,
        },
        Pausing {
            #[pin]
            pause: Sleep,
            kept: KeptBack,
            response: Option<Response>,
        },
    }
}

impl<S> Layer<S> for Observe {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed { by: self.clone(), inner }
    }
}

impl<S> Service<Request> for Observed<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Observing<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let since = clock::now();
        let mark = Mark::of(&request);
        request.extensions_mut().insert(mark.clone());
        let span = mark.span();
        let answer = span.in_scope(|| self.inner.call(request));
        let stage = Stage::Answering { answer: answer.instrument(span) };
        Observing { by: self.by.clone(), mark, since, stage }
    }
}

impl<F> Future for Observing<F>
where
    F: Future<Output = Result<Response, Infallible>>,
{
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.stage.as_mut().project() {
                StageProjection::Answering { answer } => {
                    let polled = catch_unwind(AssertUnwindSafe(|| answer.poll(cx)));
                    let mut response = match polled {
                        Ok(answer) => {
                            let Ok(answer) = ready!(answer);
                            answer
                        }
                        Err(payload) => panicked(payload),
                    };
                    add_headers(this.mark, &mut response);
                    this.by.served.count(this.mark.method(), this.mark.route(), response.status());
                    this.mark.write_line(response.status(), clock::now().duration_since(*this.since));
                    let gets = match (is_a_stranger_s(response.status()), this.mark.is_of_nobody_known()) {
                        (true, _) => Gets::Refused,
                        (false, true) => Gets::Something,
                        (false, false) => return Poll::Ready(Ok(response)),
                    };
                    let Some(kept) = this.by.calm.count(gets) else { return Poll::Ready(Ok(response)) };
                    let pause = sleep(kept.pause);
                    this.stage.set(Stage::Pausing { pause, kept, response: Some(response) });
                }
                StageProjection::Pausing { pause, response, .. } => {
                    ready!(pause.poll(cx));
                    return Poll::Ready(Ok(response.take().unwrap_or_default()));
                }
            }
        }
    }
}

/// An agent's token is known to be good or bad only by the answer, and so is one of an agent on a route that is none of its own.
fn is_a_stranger_s(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS)
}

fn add_headers(mark: &Mark, response: &mut Response) {
    if let Some(id) = mark.id() {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    // Answers are of the moment, and some hold a secret.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HttpLimits;
    use axum::Router;
    use axum::body::{Body, to_bytes};
    use axum::routing::get;
    use motorpool_wire::error::{ErrorCode, ErrorEnvelope};
    use tower::ServiceExt;

    #[tokio::test]
    async fn a_panic_is_an_envelope_too_and_keeps_its_text_to_itself() {
        async fn bug() -> &'static str {
            panic!("mp_secret")
        }
        let served = Arc::new(Served::new([]));
        let calm = Arc::new(Calm::new(&HttpLimits::default()));
        let router = Router::new().route("/", get(bug)).layer(Observe { served, calm });
        let answer = router.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let bytes = to_bytes(answer.into_body(), 10_000).await.unwrap();
        let ErrorEnvelope { error } = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(error.code, ErrorCode::Internal);
        assert!(!error.message.contains("mp_secret") && !error.hint.contains("mp_secret"));
    }
}
