//! A webhook's delivery: one that is done with is remembered, so that the same one again changes nothing. Who sent it, and whether that is true, is
//! not decided here.

use crate::ci::CiSystem;
use crate::ids::DeliveryId;
use crate::record::{Key, Kind, Path, Record, Version};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub const DELIVERY: Kind = Kind::new("delivery");

/// GitHub sends a delivery again for three days at most.
const KEPT: Duration = Duration::from_secs(3 * 24 * 3600);

/// How far the sender's clock and ours may be apart, its message's way included.
const RECENT: Duration = Duration::from_secs(5 * 60);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub system: CiSystem,
    pub id: DeliveryId,
    /// When its effect was written.
    pub done_at: Timestamp,
}

impl Delivery {
    /// Two systems may call theirs the same.
    pub fn key(system: CiSystem, id: &DeliveryId) -> Key {
        Key::new(DELIVERY, format!("{}#{id}", system.name()))
    }
}

impl Record for Delivery {
    fn path(&self) -> Path {
        Self::key(self.system, &self.id).into()
    }

    fn version(&self) -> Version {
        Version::default()
    }

    fn kept_until(&self) -> Option<Timestamp> {
        Some(self.done_at.after(KEPT))
    }
}

/// Whether a message that says when it was sent is of this moment, and no old one that somebody has kept.
pub fn is_recent(sent: Timestamp, now: Timestamp) -> bool {
    now.since(sent).max(sent.since(now)) <= RECENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_recent_within_five_minutes_either_way() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        for (sent_ms, recent) in [
            (1_700_000_000_000, true),
            (1_699_999_700_000, true),
            (1_699_999_699_999, false),
            (1_700_000_300_000, true),
            (1_700_000_300_001, false),
            (0, false),
            (u64::MAX, false),
        ] {
            assert_eq!(is_recent(Timestamp::from_millis(sent_ms), now), recent, "{sent_ms}");
        }
    }

    #[test]
    fn the_same_id_of_two_systems_is_two_deliveries() {
        let id = DeliveryId::parse("72d3162e-cc78-11e3-81ab-4c9367dc0958").unwrap();
        assert_ne!(Delivery::key(CiSystem::GitHub, &id), Delivery::key(CiSystem::GitLab, &id));
    }
}
