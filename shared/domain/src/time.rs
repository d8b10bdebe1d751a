//! Instants and thresholds on the control plane's clock. Nothing here reads a clock: time is an argument.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Milliseconds since the Unix epoch, on the control plane's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> u64 {
        self.0
    }

    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(millis(wait)))
    }

    /// How long ago `earlier` was; nothing if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// How long it is from here until `later`; nothing if that is past.
    pub fn until(self, later: Self) -> Duration {
        later.since(self)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The instant after which a record counts as expired in its present state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Threshold(pub Timestamp);

impl Threshold {
    pub fn in_(wait: Duration, now: Timestamp) -> Self {
        Self(now.after(wait))
    }

    pub fn passed(self, now: Timestamp) -> bool {
        self.0 <= now
    }
}

/// A span as it travels: in whole milliseconds.
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_passed_at_its_very_instant() {
        let now = Timestamp::from_millis(1_000);
        let threshold = Threshold::in_(Duration::from_millis(5), now);
        assert!(!threshold.passed(Timestamp::from_millis(1_004)));
        assert!(threshold.passed(Timestamp::from_millis(1_005)));
    }
}
