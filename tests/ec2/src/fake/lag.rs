//! Listings that lag and go back, as EC2's do: each shows each instance as it was some time ago, by a draw from a seed. What an instance was
//! then is the instance's to say.

use super::faults::mixed;
use super::world::State;
use motorpool_domain::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often listings were behind what there was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lagged {
    /// An instance that is there was left out.
    pub hidden: u32,
    /// An instance was shown in a state that it is no longer in.
    pub outdated: u32,
    /// An instance was shown in an earlier state than a listing before had shown, or was left out again.
    pub went_back: u32,
}

impl Lagged {
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            hidden: self.hidden + other.hidden,
            outdated: self.outdated + other.outdated,
            went_back: self.went_back + other.went_back,
        }
    }

    /// Whether it came to each of these.
    pub fn in_every_way(self) -> bool {
        let Self { hidden, outdated, went_back } = self;
        hidden > 0 && outdated > 0 && went_back > 0
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Lag {
    pub(super) seed: u64,
    /// The furthest that a listing is behind.
    pub(super) most: Duration,
}

impl Lag {
    /// As of when this listing shows this instance. The same listing shows another as of another time.
    pub(super) fn as_of(self, listing: u64, instance: &str, now: Timestamp) -> Timestamp {
        let most = u64::try_from(self.most.as_millis()).unwrap_or(u64::MAX);
        let drawn =
            instance.bytes().fold(self.seed ^ mixed(listing), |bits, byte| mixed(bits ^ u64::from(byte)));
        let behind = drawn % most.saturating_add(1);
        Timestamp::from_millis(now.as_millis().saturating_sub(behind))
    }
}

/// What listings have shown so far.
#[derive(Debug, Default)]
pub(super) struct Listings {
    /// The furthest state of each instance.
    shown: BTreeMap<String, Option<State>>,
    pub(super) lagged: Lagged,
}

impl Listings {
    /// One listing shows an instance so, and it truly is so. Nothing: it is left out, or not there.
    pub(super) fn note(&mut self, instance: &str, shown: Option<State>, is: Option<State>) {
        match shown {
            Some(_) if shown != is => self.lagged.outdated += 1,
            None if is.is_some() => self.lagged.hidden += 1,
            Some(_) | None => {}
        }
        let furthest = self.shown.entry(instance.to_owned()).or_default();
        // What EC2 has forgotten is left out for good.
        if shown < *furthest && is.is_some() {
            self.lagged.went_back += 1;
        }
        *furthest = shown.max(*furthest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    #[test]
    fn a_listing_is_behind_by_no_more_than_the_most_and_the_same_each_time() {
        let lag = Lag { seed: 7, most: Duration::from_secs(90) };
        let drawn = |lag: Lag| (0..1_000).map(|listing| lag.as_of(listing, "i-1", NOW)).collect::<Vec<_>>();
        let behind: Vec<Duration> = drawn(lag).into_iter().map(|as_of| NOW.since(as_of)).collect();
        assert!(behind.iter().all(|behind| *behind <= lag.most));
        assert!(behind.iter().any(|behind| *behind > lag.most * 9 / 10));
        assert!(behind.iter().any(|behind| *behind < lag.most / 10));
        assert_eq!(drawn(lag), drawn(lag));
        assert_ne!(drawn(lag), drawn(Lag { seed: 8, ..lag }));
        assert_ne!(lag.as_of(1, "i-1", NOW), lag.as_of(1, "i-2", NOW));
    }

    #[test]
    fn what_is_behind_is_told_from_what_goes_back() {
        use State::{Pending, Running, Terminated};
        let mut listings = Listings::default();
        let mut noted = |shown, is| {
            listings.note("i-1", shown, is);
            let Lagged { hidden, outdated, went_back } = listings.lagged;
            (hidden, outdated, went_back)
        };
        assert_eq!(noted(None, Some(Pending)), (1, 0, 0));
        assert_eq!(noted(Some(Running), Some(Running)), (1, 0, 0));
        assert_eq!(noted(Some(Pending), Some(Running)), (1, 1, 1));
        assert_eq!(noted(None, Some(Running)), (2, 1, 2));
        assert_eq!(noted(Some(Running), Some(Terminated)), (2, 2, 2));
        assert_eq!(noted(Some(Terminated), Some(Terminated)), (2, 2, 2));
        assert_eq!(noted(None, None), (2, 2, 2), "it is forgotten");
    }
}
