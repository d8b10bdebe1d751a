//! An answer that is long holds its caller's place until it is sent, or given up: a caller that asks and does not read fills its own places, and not
//! the memory. A short one fits in what the connection may buffer anyhow.

use super::places::Place;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

const LONG_BYTES: u64 = 16 * 1024;

pub(super) fn hold(response: Response, place: Option<Place>) -> Response {
    let is_long = response.body().size_hint().upper().is_none_or(|bytes| bytes > LONG_BYTES);
    match place {
        Some(place) if is_long => response.map(|body| Body::new(Holding { body, _place: place })),
        Some(_) | None => response,
    }
}

struct Holding {
    body: Body,
    _place: Place,
}

impl HttpBody for Holding {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::super::places::Places;
    use super::*;

    #[test]
    fn refuse_24_a_long_answer_that_is_not_read_keeps_its_place_and_a_short_one_does_not() {
        for (bytes, is_kept) in [(100, false), (100_000, true)] {
            let places = Places::new(1);
            let answer = hold(Response::new(Body::from(vec![b'x'; bytes])), places.take());
            assert_eq!(places.is_empty(), !is_kept, "{bytes}");
            drop(answer);
            assert!(places.is_empty());
        }
    }
}
