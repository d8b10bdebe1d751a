//! The instances of the fake, and what is left to be had. Time is an argument: a state follows from it.

use super::lag::Listings;
use crate::ground::runner_of;
use motorpool_domain::spec::Usage;
use motorpool_domain::{RunnerId, Timestamp};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// EC2 forgets a terminated instance after about this long.
const REMEMBERED_FOR: Duration = Duration::from_secs(3_600);

/// In the order in which an instance comes through them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Pending,
    Running,
    ShuttingDown,
    Terminated,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
        }
    }

    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Pending => "0",
            Self::Running => "16",
            Self::ShuttingDown => "32",
            Self::Terminated => "48",
        }
    }
}

/// An instance as a test sees it.
#[derive(Debug, Clone)]
pub struct Instance {
    pub id: String,
    pub token: Option<String>,
    pub launch_index: u32,
    pub instance_type: String,
    pub zone: String,
    pub subnet: String,
    pub usage: Usage,
    pub image: String,
    pub tags: BTreeMap<String, String>,
    pub volume_tags: BTreeMap<String, String>,
    /// Decoded.
    pub user_data: String,
    pub made_at: Timestamp,
    pub ending: Option<Ending>,
    pub(super) reservation: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Who or what ended it.
    pub why: &'static str,
    pub began_at: Timestamp,
    /// From when on it is terminated; until then it is shutting down.
    pub over_at: Timestamp,
}

impl Instance {
    /// The runner that it is for, by its tags and its place in the launch.
    pub fn runner(&self) -> Option<RunnerId> {
        runner_of(&self.tags, self.launch_index)
    }

    /// Its state at any time since it was made.
    pub(super) fn state(&self, at: Timestamp, boot: Duration) -> State {
        match &self.ending {
            Some(ending) if ending.over_at <= at => State::Terminated,
            Some(ending) if ending.began_at <= at => State::ShuttingDown,
            Some(_) | None if self.made_at.after(boot) <= at => State::Running,
            Some(_) | None => State::Pending,
        }
    }

    pub(super) fn forgotten(&self, now: Timestamp) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.over_at.after(REMEMBERED_FOR) <= now)
    }
}

/// A call that made instances.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) parameters: BTreeMap<String, String>,
    pub(super) reservation: String,
    pub(super) instances: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) instances: BTreeMap<String, Instance>,
    pub(super) tokens: BTreeMap<String, Made>,
    /// How many more may be had; without an entry, any number.
    pub(super) capacity: HashMap<(String, String, &'static str), u32>,
    pub(super) addresses: HashMap<String, u32>,
    /// How many may be alive at once.
    pub(super) quotas: HashMap<&'static str, u32>,
    pub(super) most_alive: usize,
    pub(super) listings: Listings,
    named: u64,
}

impl World {
    pub(super) fn fresh_id(&mut self, prefix: &str) -> String {
        self.named += 1;
        format!("{prefix}-{:017x}", self.named)
    }

    /// All that are not terminated: also what shuts down still counts.
    pub(super) fn alive(&self, now: Timestamp) -> usize {
        self.instances.values().filter(|instance| !is_over(instance, now)).count()
    }

    pub(super) fn alive_sold(&self, usage: Usage, now: Timestamp) -> u32 {
        let sold = |instance: &&Instance| instance.usage == usage && !is_over(instance, now);
        u32::try_from(self.instances.values().filter(sold).count()).unwrap_or(u32::MAX)
    }

    /// What has begun to end goes on ending as it was.
    pub(super) fn end(&mut self, id: &str, why: &'static str, began_at: Timestamp, takes: Duration) -> bool {
        let Some(instance) = self.instances.get_mut(id) else { return false };
        instance.ending.get_or_insert(Ending { why, began_at, over_at: began_at.after(takes) });
        true
    }
}

fn is_over(instance: &Instance, now: Timestamp) -> bool {
    instance.ending.as_ref().is_some_and(|ending| ending.over_at <= now)
}
