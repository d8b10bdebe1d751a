//! The machines as they really are, whatever any record says of them: the truth that records are held against.

use motorpool_domain::{Label, LaunchId, PoolName, RunnerId};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Yard {
    pub(crate) sites: BTreeMap<RunnerId, Site>,
    /// How many of each launch were made, and how many refused.
    launches: BTreeMap<LaunchId, (u32, u32)>,
}

#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) pool: PoolName,
    /// What its agent redeems.
    pub(crate) secret: String,
    /// An operator's own machine: never launched, never ended by the provider.
    pub(crate) kept: bool,
    pub(crate) power: Power,
    /// Since when its power is so.
    pub(crate) since_ms: u64,
    /// Whose jobs it may have run since it was new or last cleaned.
    pub(crate) used_by: Option<Label>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Power {
    Booting,
    On,
    Stopping,
    Off,
}

impl Yard {
    pub(crate) fn power(&self, runner: &RunnerId) -> Option<Power> {
        self.sites.get(runner).map(|site| site.power)
    }

    pub(crate) fn turn(&mut self, runner: &RunnerId, power: Power, now_ms: u64) {
        if let Some(site) = self.sites.get_mut(runner)
            && site.power != power
        {
            site.power = power;
            site.since_ms = now_ms;
        }
    }

    /// Whether there is nothing left of it, or never was anything.
    pub(crate) fn gone(&self, runner: &RunnerId) -> bool {
        self.power(runner).is_none_or(|power| power == Power::Off)
    }

    /// Notes one outcome of a launch; true once some of it were made and some were refused.
    pub(crate) fn partial(&mut self, launch: &LaunchId, made: bool) -> bool {
        let (yes, no) = self.launches.entry(launch.clone()).or_default();
        *(if made { &mut *yes } else { &mut *no }) += 1;
        *yes > 0 && *no > 0
    }
}
