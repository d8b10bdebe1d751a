//! A claim, and the name by which its workflow finds it, as records of the ledger.

use super::{Claim, ClaimKey, ClaimState};
use crate::ids::{ClaimId, Owner, PoolName, Workflow};
use crate::record::{Key, Kind, Path, Place, Record, Version, padded};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub const CLAIM: Kind = Kind::new("claim");
const WORKFLOW: Kind = Kind::new("workflow");

const DAY: Duration = Duration::from_secs(24 * 3600);
const KEPT: Duration = DAY.saturating_mul(30);
/// A claim waits at most 30 days, runs at most 30 days, and is kept for 30: its name is never gone before it.
const NAME_KEPT: Duration = DAY.saturating_mul(90);

/// What the places of [`open_claims`] begin with: those that lack a runner, those that wait for the runners that they have, and the rest.
pub const SHORT: &str = "short#";
pub const STARTING: &str = "starting#";
pub const OPEN: &str = "open#";

/// What the places of [`team_claims`] begin with: those that hold a runner, open ones that hold none, and ended ones. The pool follows.
pub const HOLDING: &str = "holding#";
pub const LACKING: &str = "lacking#";
pub const ENDED: &str = "ended#";

/// What the places of [`waiting_claims`] begin with: those that have a part of their runners, and the rest, by owner.
const GATHERING: &str = "gathering#";
pub const WAITING: &str = "waiting#";

impl From<&ClaimId> for Key {
    fn from(id: &ClaimId) -> Self {
        Self::new(CLAIM, id.as_str())
    }
}

pub fn open_claims(pool: &PoolName) -> String {
    format!("claims#{pool}")
}

/// By when they were opened.
pub fn ended_claims(pool: &PoolName) -> String {
    format!("ended-claims#{pool}")
}

/// All that an owner has, whatever the pool.
pub fn team_claims(owner: &Owner) -> String {
    format!("team-claims#{owner}")
}

/// Those that lack a runner and may have one, by owner and age: whoever waits is found without a walk over everything that he waits for.
pub fn waiting_claims(pool: &PoolName) -> String {
    format!("waiting-claims#{pool}")
}

impl Record for Claim {
    /// Of its pool, of its owner, and of those who wait.
    const LISTS: usize = 3;

    fn path(&self) -> Path {
        Key::from(&self.id).into()
    }

    fn version(&self) -> Version {
        Version { state: self.state.as_str().to_owned(), epoch: 0, rev: self.rev }
    }

    /// An open claim at its threshold; an ended one that has runners to let go of since its end.
    fn due(&self) -> Option<Timestamp> {
        match &self.state {
            ClaimState::Pending | ClaimState::Ready { .. } => self.threshold.map(|threshold| threshold.0),
            ClaimState::Released { at, .. } | ClaimState::Failed { at, .. } => self.settling.then_some(*at),
        }
    }

    fn places(&self) -> Vec<Place> {
        let ClaimKey { owner, pool, workflow: _ } = &self.key;
        let age = format!("{}#{}", padded(self.opened_at), self.id);
        let of_team = |prefix| Place { list: team_claims(owner), sort: format!("{prefix}{pool}#{age}") };
        if !self.state.open() {
            return vec![Place { list: ended_claims(pool), sort: age.clone() }, of_team(ENDED)];
        }
        let prefix = match (self.short() > 0, self.waiting()) {
            (true, _) => SHORT,
            (false, true) => STARTING,
            (false, false) => OPEN,
        };
        let of_pool = Place { list: open_claims(pool), sort: format!("{prefix}{age}") };
        let mut places = vec![of_pool, of_team(if self.members.is_empty() { LACKING } else { HOLDING })];
        if self.short() > 0 && self.over_limit.is_none() {
            let sort = match self.is_gathering() {
                true => format!("{GATHERING}{age}"),
                false => format!("{WAITING}{owner}#{age}"),
            };
            places.push(Place { list: waiting_claims(pool), sort });
        }
        places
    }

    fn kept_until(&self) -> Option<Timestamp> {
        match &self.state {
            ClaimState::Pending | ClaimState::Ready { .. } => None,
            ClaimState::Released { at, .. } | ClaimState::Failed { at, .. } => Some(at.after(KEPT)),
        }
    }
}

/// Which claim a key names: the latest. It stands under its workflow, and who opens a claim takes it in the same transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimName {
    pub key: ClaimKey,
    pub claim: ClaimId,
    pub opened_at: Timestamp,
}

impl ClaimName {
    pub fn of(claim: &Claim) -> Self {
        Self { key: claim.key.clone(), claim: claim.id.clone(), opened_at: claim.opened_at }
    }

    /// Under which the names of all the workflow's claims stand, a pool each. No part contains `#`, so no two workflows share it.
    pub fn workflow(owner: &Owner, workflow: &Workflow) -> Key {
        Key::new(WORKFLOW, format!("{owner}#{workflow}"))
    }

    pub fn path_of(key: &ClaimKey) -> Path {
        Path::child(Self::workflow(&key.owner, &key.workflow), format!("pool#{}", key.pool))
    }

    /// A name is compared by the claim that it names.
    pub fn version_of(claim: &ClaimId) -> Version {
        Version { state: claim.as_str().to_owned(), ..Version::default() }
    }
}

impl Record for ClaimName {
    fn path(&self) -> Path {
        Self::path_of(&self.key)
    }

    fn version(&self) -> Version {
        Self::version_of(&self.claim)
    }

    fn kept_until(&self) -> Option<Timestamp> {
        Some(self.opened_at.after(NAME_KEPT))
    }
}
