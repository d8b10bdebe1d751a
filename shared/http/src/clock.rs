//! The clock of time-outs: it tells how long something takes, never what time it is.

use tokio::time::Instant;

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
