//! A body that is read before anything is done for it: whole, within its length. One that comes in one piece, as almost all do, is not
//! copied.

use crate::envelope::Refusal;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::StatusCode;
use motorpool_wire::error::ErrorCode;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

#[derive(Debug, Default)]
pub(super) enum Gathered {
    #[default]
    Nothing,
    One(Bytes),
    Many(Vec<u8>),
}

impl Gathered {
    fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::One(bytes) => bytes.len(),
            Self::Many(bytes) => bytes.len(),
        }
    }

    fn add(&mut self, more: Bytes) {
        match self {
            Self::Nothing => *self = Self::One(more),
            Self::One(first) => {
                let mut all = Vec::with_capacity(first.len() + more.len());
                all.extend_from_slice(first);
                all.extend_from_slice(&more);
                *self = Self::Many(all);
            }
            Self::Many(all) => all.extend_from_slice(&more),
        }
    }

    fn take(&mut self) -> Bytes {
        match std::mem::take(self) {
            Self::Nothing => Bytes::new(),
            Self::One(bytes) => bytes,
            Self::Many(bytes) => Bytes::from(bytes),
        }
    }
}

/// Reads on, as far as there is something to read.
pub(super) fn gather(
    body: &mut Body,
    gathered: &mut Gathered,
    most: usize,
    cx: &mut Context<'_>,
) -> Poll<Result<Bytes, Refusal>> {
    if announces_more_than(body, most) {
        return Poll::Ready(Err(too_long()));
    }
    loop {
        if body.is_end_stream() {
            return Poll::Ready(Ok(gathered.take()));
        }
        match ready!(Pin::new(&mut *body).poll_frame(cx)) {
            None => return Poll::Ready(Ok(gathered.take())),
            Some(Err(error)) => return Poll::Ready(Err(unreadable(&error.to_string()))),
            Some(Ok(frame)) => {
                // A frame that is no data is a trailer, and none of this API's requests has one.
                let data = frame.into_data().unwrap_or_default();
                if gathered.len() + data.len() > most {
                    return Poll::Ready(Err(too_long()));
                }
                gathered.add(data);
            }
        }
    }
}

fn announces_more_than(body: &Body, most: usize) -> bool {
    usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX) > most
}

pub(crate) fn too_long() -> Refusal {
    Refusal::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::InvalidRequest,
        "the body is longer than this route takes",
        "send less: no request of this API needs as much",
    )
}

pub(super) fn too_slow() -> Refusal {
    Refusal::new(
        StatusCode::REQUEST_TIMEOUT,
        ErrorCode::InvalidRequest,
        "the body did not come in time, and nothing was done",
        "send it whole and at once: no request of this API is long",
    )
}

pub(crate) fn unreadable(why: &str) -> Refusal {
    Refusal::invalid(
        format!("the body could not be read: {why}"),
        "send the whole body, as long as Content-Length says",
    )
}
