//! One request on its way through a lane, as a future that needs no box of its own.

use super::body::{Gathered, gather, too_slow};
use super::places::Place;
use super::{AgentTicket, Lane, Ticket, long_answer, too_many};
use crate::clock;
use crate::envelope::Refusal;
use crate::limits::took_too_long;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use pin_project_lite::pin_project;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::{Instant, Sleep, sleep_until};
use tower::Service;

/// The routes of a lane.
#[derive(Debug, Clone)]
pub struct Passing<S> {
    lane: Lane,
    inner: S,
}

pin_project! {
    #[derive(Debug)]
    pub struct Passage<S, F> {
        lane: Lane,
        #[pin]
        stage: Stage<S, F>,
        // One for all stages: it is set when there is something to wait for, and set again only if it rings too early.
        #[pin]
        timer: Option<Sleep>,
    }
}

pin_project! {
    #[project = StageProjection]
    #[derive(Debug)]
    enum Stage<S, F> {
        Reading {
            inner: S,
            // Until the body is there.
            waiting: Option<(Parts, Ticket)>,
            body: Body,
            gathered: Gathered,
            place: Option<Place>,
            until: Instant,
        },
        Working {
            #[pin]
            answer: F,
            ticket: Ticket,
            place: Option<Place>,
            until: Instant,
        },
        Over {
            refusal: Option<Refusal>,
        },
    }
}

impl<S> Passing<S> {
    pub(super) fn new(lane: Lane, inner: S) -> Self {
        Self { lane, inner }
    }
}

impl<S> Service<Request> for Passing<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Passage<S, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let stage = self.begin(request).unwrap_or_else(Stage::refused);
        Passage { lane: self.lane.clone(), stage, timer: None }
    }
}

impl<S> Passing<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone,
{
    fn begin(&mut self, mut request: Request) -> Result<Stage<S, S::Future>, Refusal> {
        let ticket = self.lane.admit(&mut request)?;
        let sends_nothing = matches!(*request.method(), Method::GET | Method::HEAD | Method::DELETE);
        if sends_nothing || request.body().is_end_stream() {
            return work(&self.lane, &mut self.inner, ticket, request);
        }
        let place = ticket.reading.as_ref().map(|places| places.take().ok_or_else(too_many)).transpose()?;
        let (parts, body) = request.into_parts();
        Ok(Stage::Reading {
            inner: self.inner.clone(),
            waiting: Some((parts, ticket)),
            body,
            gathered: Gathered::default(),
            place,
            until: clock::now() + self.lane.body_within,
        })
    }
}

/// Takes a place, and has the request answered.
fn work<S>(
    lane: &Lane,
    inner: &mut S,
    ticket: Ticket,
    request: Request,
) -> Result<Stage<S, S::Future>, Refusal>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    let mut place = Some(ticket.working.take().ok_or_else(too_many)?);
    if let Some(AgentTicket::Newcomer(newcomer)) = &ticket.agent
        && let Some(place) = place.take()
    {
        newcomer.holds(place);
    }
    Ok(Stage::Working { answer: inner.call(request), ticket, place, until: clock::now() + lane.time })
}

impl<S, F> Stage<S, F> {
    fn refused(refusal: Refusal) -> Self {
        Self::Over { refusal: Some(refusal) }
    }
}

impl<S, F> Future for Passage<S, F>
where
    S: Service<Request, Response = Response, Error = Infallible, Future = F>,
    F: Future<Output = Result<Response, Infallible>>,
{
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.stage.as_mut().project() {
                StageProjection::Reading { inner, waiting, body, gathered, place, until } => {
                    let read = match gather(body, gathered, this.lane.body_bytes, cx) {
                        Poll::Ready(read) => read,
                        Poll::Pending if has_passed(this.timer.as_mut(), *until, cx) => Err(too_slow()),
                        Poll::Pending => return Poll::Pending,
                    };
                    drop(place.take());
                    match (read, waiting.take()) {
                        (Ok(bytes), Some((parts, ticket))) => {
                            let request = Request::from_parts(parts, Body::from(bytes));
                            work(this.lane, inner, ticket, request).unwrap_or_else(Stage::refused)
                        }
                        (Ok(_), None) => Stage::Over { refusal: None },
                        (Err(refusal), _) => Stage::refused(refusal),
                    }
                }
                StageProjection::Working { answer, ticket, place, until } => match answer.poll(cx) {
                    Poll::Ready(answer) => {
                        let Ok(answer) = answer;
                        ticket.learn(answer.status());
                        let answer = long_answer::hold(answer, place.take());
                        // Its places are free before a short answer is on its way.
                        this.stage.set(Stage::Over { refusal: None });
                        return Poll::Ready(Ok(answer));
                    }
                    Poll::Pending if has_passed(this.timer.as_mut(), *until, cx) => {
                        Stage::refused(took_too_long())
                    }
                    Poll::Pending => return Poll::Pending,
                },
                StageProjection::Over { refusal } => {
                    let refusal = refusal.take().unwrap_or_else(took_too_long);
                    return Poll::Ready(Ok(refusal.into_response()));
                }
            };
            this.stage.set(next);
        }
    }
}

impl Ticket {
    /// What the answer tells of an agent's token.
    fn learn(&self, status: StatusCode) {
        match &self.agent {
            Some(AgentTicket::Newcomer(newcomer)) if status.is_success() => newcomer.is_known_now(),
            Some(AgentTicket::Known { agents, key, .. }) if status == StatusCode::UNAUTHORIZED => {
                agents.forget(*key);
            }
            Some(AgentTicket::Newcomer(_) | AgentTicket::Known { .. }) | None => {}
        }
    }
}

/// Whether it is later than `until`; if not, `cx` is woken when it is.
fn has_passed(mut timer: Pin<&mut Option<Sleep>>, until: Instant, cx: &mut Context<'_>) -> bool {
    if timer.is_none() {
        timer.set(Some(sleep_until(until)));
    }
    let Some(mut timer) = timer.as_pin_mut() else { return false };
    if timer.deadline() > until {
        timer.as_mut().reset(until);
    }
    while timer.as_mut().poll(cx).is_ready() {
        if timer.deadline() >= until {
            return true;
        }
        timer.as_mut().reset(until);
    }
    false
}
