//! A call that has a runner's CI system bring it jobs again. Whoever makes it may be slow, give up or die, and it may arrive all the same: until then a
//! pause that was acknowledged may be undone behind everybody's back, so it counts for nothing. The call is written down before it is made, while the
//! runner is idle; and a pause is asked for when the runner is idle no more. So whoever pauses sees every call that may still arrive.

use crate::ids::RunnerId;
use crate::record::{Key, Kind, Path, Record, Version};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const UNPAUSING: Kind = Kind::new("unpausing");

/// No call takes longer, with all that it asks on the way, and by the clock of whoever looks: two clocks may differ by a minute.
const UNDER_WAY: Duration = Duration::from_secs(180);
const KEPT: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpausing {
    pub runner: RunnerId,
    /// Drawn for this call: it tells it from any other.
    pub call: u32,
    /// Until then it may arrive.
    pub until: Timestamp,
    /// Whoever makes it has not heard what became of it, and not given up.
    pub is_under_way: bool,
    /// Until then one may arrive that was begun before it, and given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_until: Option<Timestamp>,
}

impl Unpausing {
    pub fn path_of(runner: &RunnerId) -> Path {
        Key::new(UNPAUSING, runner.as_str()).into()
    }

    /// The next one; nothing while somebody else is at it.
    pub fn begin(runner: &RunnerId, last: Option<&Self>, call: u32, now: Timestamp) -> Option<Self> {
        let last = last.filter(|last| last.may_arrive(now));
        if last.is_some_and(|last| last.is_under_way) {
            return None;
        }
        Some(Self {
            runner: runner.clone(),
            call,
            until: now.after(UNDER_WAY),
            is_under_way: true,
            earlier_until: last.map(|last| last.until),
        })
    }

    /// What is left to be heard of when it has arrived, or is known never to.
    pub fn settled(&self, now: Timestamp) -> Option<Self> {
        let until = self.earlier_until.filter(|until| *until > now)?;
        Some(Self { until, is_under_way: false, earlier_until: None, ..self.clone() })
    }

    /// Nobody heard what became of it.
    pub fn given_up(&self) -> Self {
        Self { is_under_way: false, ..self.clone() }
    }

    pub fn may_arrive(&self, now: Timestamp) -> bool {
        self.until > now
    }
}

impl Record for Unpausing {
    fn path(&self) -> Path {
        Self::path_of(&self.runner)
    }

    fn version(&self) -> Version {
        Version { rev: u64::from(self.call), ..Version::default() }
    }

    fn kept_until(&self) -> Option<Timestamp> {
        Some(self.until.after(KEPT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn begin(last: Option<&Unpausing>, now: Timestamp) -> Option<Unpausing> {
        Unpausing::begin(&RunnerId::parse("mac-01").unwrap(), last, 7, now)
    }

    #[test]
    fn inv_30_one_calls_at_a_time_and_whoever_died_at_it_is_waited_for() {
        let first = begin(None, NOW).unwrap();
        assert!(first.may_arrive(NOW.after(Duration::from_secs(179))));
        assert_eq!(begin(Some(&first), NOW.after(Duration::from_secs(179))), None);
        assert!(!first.may_arrive(NOW.after(UNDER_WAY)));
        assert!(begin(Some(&first), NOW.after(UNDER_WAY)).is_some());
        assert_eq!(first.settled(NOW), None, "it has arrived, and nothing is left of it");
    }

    #[test]
    fn inv_30_one_that_was_given_up_may_arrive_though_a_later_one_has() {
        let first = begin(None, NOW).unwrap().given_up();
        let later = NOW.after(Duration::from_secs(30));
        let second = begin(Some(&first), later).expect("nobody is at it");
        let left = second.settled(later).expect("the first may arrive yet");
        assert_eq!((left.until, left.is_under_way), (first.until, false));
        assert_eq!(second.settled(first.until), None);
    }
}
