//! How long something took, for people to read. Nothing is decided by it.

use std::fmt;
use std::time::Instant;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    started: Instant,
}

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "this is xtask's clock module")]
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }
}

impl fmt::Display for Stopwatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.started.elapsed().as_secs_f64())
    }
}
