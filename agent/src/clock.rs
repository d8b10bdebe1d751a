//! The agent's clock: time since boot, counting suspend. It is the only place in the agent that reads a clock;
//! it knows no calendar time, and its instants mean nothing on another host or after a reboot.

use std::ops::Add;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// On macOS the monotonic clock runs through sleep; on Linux it does not, and the boot clock does.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// A timer of the runtime stands still in suspend. So no wait is longer than this before the clock is read again.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl BootClock {
    pub fn now(self) -> BootInstant {
        let time = clock_gettime(CLOCK);
        let seconds_ms = u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000);
        let rest_ms = u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000;
        BootInstant { boot_ms: seconds_ms.saturating_add(rest_ms) }
    }

    /// Returns once `deadline` has passed; after a suspend, at most a second late. Safe to cancel.
    pub async fn sleep_until(self, deadline: BootInstant) {
        loop {
            let now = self.now();
            if deadline.passed(now) {
                return;
            }
            tokio::time::sleep(deadline.since(now).min(LONGEST_SLEEP)).await;
        }
    }
}

/// Milliseconds since this host booted. Every process of the host counts the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootInstant {
    boot_ms: u64,
}

impl BootInstant {
    pub const fn from_boot_ms(boot_ms: u64) -> Self {
        Self { boot_ms }
    }

    pub const fn boot_ms(self) -> u64 {
        self.boot_ms
    }

    /// A deadline has passed from its very millisecond on.
    pub fn passed(self, now: BootInstant) -> bool {
        now >= self
    }

    /// The time from `earlier` to `self`; zero if `earlier` is the later one.
    pub fn since(self, earlier: BootInstant) -> Duration {
        Duration::from_millis(self.boot_ms.saturating_sub(earlier.boot_ms))
    }

    /// The instant `duration` before; at the earliest the boot.
    pub fn minus(self, duration: Duration) -> BootInstant {
        Self { boot_ms: self.boot_ms.saturating_sub(whole_ms(duration)) }
    }
}

impl Add<Duration> for BootInstant {
    type Output = BootInstant;

    fn add(self, duration: Duration) -> BootInstant {
        Self { boot_ms: self.boot_ms.saturating_add(whole_ms(duration)) }
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_and_never_panics() {
        let at = BootInstant::from_boot_ms(1_000);
        assert_eq!((at + Duration::from_millis(500)).boot_ms(), 1_500);
        assert_eq!((at + Duration::MAX).boot_ms(), u64::MAX);
        assert_eq!(at.minus(Duration::from_secs(5)).boot_ms(), 0);
        assert_eq!(at.since(BootInstant::from_boot_ms(400)), Duration::from_millis(600));
        assert_eq!(at.since(BootInstant::from_boot_ms(4_000)), Duration::ZERO);
        assert!(at.passed(at));
        assert!(!at.passed(BootInstant::from_boot_ms(999)));
    }

    #[tokio::test]
    async fn a_sleep_ends_at_or_after_its_deadline() {
        let deadline = BootClock.now() + Duration::from_millis(30);
        BootClock.sleep_until(deadline).await;
        assert!(deadline.passed(BootClock.now()));
    }
}
