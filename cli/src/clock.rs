//! The clocks of the command: the calendar's, a stopwatch, and that of time-outs. Nothing else in it reads one.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use motorpool_domain::Timestamp;

/// This host's calendar time, for words such as "5 s ago". What is due is decided by the server's clock.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "this is the clock module")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// The clock of time-outs.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn ticking() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
