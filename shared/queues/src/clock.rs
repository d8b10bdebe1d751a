//! The only place in this crate that reads a clock. It knows no calendar time.

use tokio::time::Instant;

/// The runtime's own clock, so that instants and sleeps agree, and a test may stop both. It stands still while the host
/// is suspended: a message stays hidden longer by that time, and that costs latency only.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
