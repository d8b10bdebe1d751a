//! What refresh remembers from pass to pass.

use crate::record::{Beside, Key, Kind, Path, Record, Version};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// After so many missed passes nobody can have been listening.
const PASSES_MISSED: u32 = 3;

/// Kept from pass to pass, so that a gap between passes shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshMemory {
    pub last_pass_at: Timestamp,
    pub last_sweep_at: Timestamp,
    /// Since when heartbeats could have arrived without a gap.
    pub listening_since: Timestamp,
    /// Which write of it this is; 0 for one that was never written.
    #[serde(skip)]
    pub rev: u64,
}

impl RefreshMemory {
    /// Since when silence counts in a pass that begins at `now`. Heartbeats that could not arrive were not missed: after a gap between passes that
    /// should come every `interval`, it is counted from now.
    pub fn listening_since(memory: Option<Self>, interval: Duration, now: Timestamp) -> Timestamp {
        let without_a_gap = |memory: &Self| Self::late_by(Some(*memory), interval, now).is_none();
        memory.filter(without_a_gap).map_or(now, |memory| memory.listening_since)
    }

    /// How long ago the last pass was, at the beginning of one that comes after a gap.
    pub fn late_by(memory: Option<Self>, interval: Duration, now: Timestamp) -> Option<Duration> {
        let gap = now.since(memory?.last_pass_at);
        (gap > interval * PASSES_MISSED).then_some(gap)
    }

    pub fn path_of() -> Path {
        Key::new(Kind::new("refresh"), "memory").into()
    }

    pub fn version_of(rev: u64) -> Version {
        Version { rev, ..Version::default() }
    }
}

impl Record for RefreshMemory {
    fn path(&self) -> Path {
        Self::path_of()
    }

    fn version(&self) -> Version {
        Self::version_of(self.rev)
    }

    fn beside(self, beside: &Beside) -> Self {
        Self { rev: beside.version.rev, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_gap_between_passes_silence_is_counted_anew() {
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1_000);
        let memory =
            RefreshMemory { last_pass_at: at(100), listening_since: at(1), ..RefreshMemory::default() };
        let since = |memory, now| RefreshMemory::listening_since(memory, Duration::from_secs(30), now);
        assert_eq!(since(Some(memory), at(190)), at(1));
        assert_eq!(since(Some(memory), at(191)), at(191), "three passes were missed");
        assert_eq!(since(None, at(5)), at(5));
        let late = |memory, now| RefreshMemory::late_by(memory, Duration::from_secs(30), now);
        assert_eq!(late(Some(memory), at(190)), None);
        assert_eq!(late(Some(memory), at(191)), Some(Duration::from_secs(91)));
        assert_eq!(late(None, at(191)), None, "the first pass of all is not late");
    }
}
