//! The machines as they really are, whatever any record says of them: the truth that records are held against. A machine is known
//! by what its provider calls it: a runner may have two, or none.

use motorpool_domain::ladder::CapacityOption;
use motorpool_domain::runner::Notice;
use motorpool_domain::spec::Usage;
use motorpool_domain::{Label, PoolName, RunnerId};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Yard {
    sites: BTreeMap<String, Site>,
    by_runner: BTreeMap<RunnerId, Vec<String>>,
}

#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) runner: RunnerId,
    pub(crate) pool: PoolName,
    /// What its agent redeems.
    pub(crate) secret: String,
    pub(crate) sort: Sort,
    pub(crate) power: Power,
    /// Since when its power is so.
    pub(crate) since_ms: u64,
    /// Whose jobs it may have run since it was new or last cleaned.
    pub(crate) used_by: Option<Label>,
}

/// Where a machine comes from.
#[derive(Debug)]
pub(crate) enum Sort {
    /// An operator's own: never launched, never ended by the provider.
    Kept,
    Plain,
    Cloud {
        rung: CapacityOption,
        /// Before this its provider does not show it to anybody.
        listed_at_ms: u64,
        /// What it is told will be done to it.
        notice: Option<Notice>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Power {
    Booting,
    On,
    Stopping,
    Off,
}

impl Site {
    pub(crate) fn kept(&self) -> bool {
        matches!(self.sort, Sort::Kept)
    }

    pub(crate) fn is_cloud(&self) -> bool {
        matches!(self.sort, Sort::Cloud { .. })
    }

    pub(crate) fn notice(&self) -> Option<Notice> {
        match &self.sort {
            Sort::Cloud { notice, .. } => *notice,
            Sort::Kept | Sort::Plain => None,
        }
    }

    /// Whether its provider shows it.
    pub(crate) fn listed(&self, now_ms: u64) -> bool {
        match &self.sort {
            Sort::Cloud { listed_at_ms, .. } => *listed_at_ms <= now_ms,
            Sort::Kept | Sort::Plain => true,
        }
    }

    /// Whether its provider may take it away when others pay more.
    pub(crate) fn is_spot(&self) -> bool {
        match &self.sort {
            Sort::Cloud { rung, .. } => rung.offer.usage == Usage::Spot,
            Sort::Kept | Sort::Plain => false,
        }
    }
}

impl Yard {
    pub(crate) fn add(&mut self, machine: &str, site: Site) {
        if self.sites.contains_key(machine) {
            return;
        }
        self.by_runner.entry(site.runner.clone()).or_default().push(machine.to_owned());
        self.sites.insert(machine.to_owned(), site);
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&String, &Site)> {
        self.sites.iter()
    }

    pub(crate) fn site(&self, machine: &str) -> Option<&Site> {
        self.sites.get(machine)
    }

    pub(crate) fn site_mut(&mut self, machine: &str) -> Option<&mut Site> {
        self.sites.get_mut(machine)
    }

    /// Every machine that was ever made for this runner.
    pub(crate) fn of<'a>(&'a self, runner: &RunnerId) -> impl Iterator<Item = (&'a String, &'a Site)> {
        let ids = self.by_runner.get(runner).map(Vec::as_slice).unwrap_or_default();
        ids.iter().filter_map(|id| Some((id, self.sites.get(id)?)))
    }

    pub(crate) fn power(&self, machine: &str) -> Option<Power> {
        self.site(machine).map(|site| site.power)
    }

    pub(crate) fn turn(&mut self, machine: &str, power: Power, now_ms: u64) {
        if let Some(site) = self.sites.get_mut(machine)
            && site.power != power
        {
            site.power = power;
            site.since_ms = now_ms;
        }
    }

    /// Whether there is nothing left of it, or never was anything.
    pub(crate) fn is_off(&self, machine: &str) -> bool {
        self.power(machine).is_none_or(|power| power == Power::Off)
    }

    /// Whether the runner's machine is gone: the one that its record names, or all that were made for it.
    pub(crate) fn gone(&self, runner: &RunnerId, named: Option<&str>) -> bool {
        match named.filter(|named| self.sites.contains_key(*named)) {
            Some(named) => self.is_off(named),
            None => self.of(runner).all(|(_, site)| site.power == Power::Off),
        }
    }
}
