//! A host's own clock: it began somewhere else than the control planes' (fault 4), and runs a little fast or slow.

use crate::chance::Chance;
use motorpool_agent::clock::BootInstant;

#[derive(Debug, Clone, Copy)]
pub(super) struct HostClock {
    booted_at_ms: u64,
    offset_ms: u64,
    /// How many milliseconds it gains in a million; it loses 100 of them.
    gain: u64,
}

/// Up to ten minutes ahead or behind of what would be right.
const MOST_OFFSET_MS: u64 = 1_200_000;
const RIGHT_MS: u64 = MOST_OFFSET_MS / 2;
const MINUTE_MS: u64 = 60_000;
const LOSS: u64 = 100;

impl HostClock {
    pub(super) fn boot(chance: &mut Chance, now_ms: u64) -> Self {
        let offset_ms = chance.between(0, MOST_OFFSET_MS);
        Self { booted_at_ms: now_ms, offset_ms, gain: chance.between(0, 2 * LOSS) }
    }

    pub(super) fn is_minutes_off(&self) -> bool {
        self.offset_ms.abs_diff(RIGHT_MS) > MINUTE_MS
    }

    pub(super) fn now(&self, now_ms: u64) -> BootInstant {
        let since = now_ms.saturating_sub(self.booted_at_ms);
        let drifted = since + since * self.gain / 1_000_000 - since * LOSS / 1_000_000;
        BootInstant::from_boot_ms(self.offset_ms + drifted)
    }

    /// How long, in simulated time, until this clock shows `at`.
    pub(super) fn until_ms(&self, at: BootInstant, now_ms: u64) -> u64 {
        let left = at.boot_ms().saturating_sub(self.now(now_ms).boot_ms());
        // A slow clock needs longer; a millisecond more, since both round down.
        left + left * LOSS / 1_000_000 + u64::from(left > 0)
    }
}
