//! What one team may have at once, and what a claim says that would be too much.

use crate::ids::Owner;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The operator has no limits: he makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TeamLimits {
    pub max_open_claims: u32,
    /// Runners that its claims hold, in all pools together. None: as many as the pools have.
    pub max_slots: Option<u32>,
    /// Requests that are answered at the same time.
    pub max_requests_at_once: u32,
}

impl Default for TeamLimits {
    fn default() -> Self {
        Self { max_open_claims: 10_000, max_slots: None, max_requests_at_once: 16 }
    }
}

/// The largest that a limit may be.
const LARGEST: u32 = 100_000;

const BOUNDS: &str = "must be from 1 to 100000";

/// A limit that can't hold: `field` is its key in the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} {}", BOUNDS)]
pub struct TeamLimitError {
    pub field: &'static str,
}

impl TeamLimitError {
    /// What is wrong with it, where its key is named already.
    pub fn problem(&self) -> &'static str {
        BOUNDS
    }
}

/// A team's limits as its settings name them, each or none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NamedLimits {
    pub max_open_claims: Option<u32>,
    pub max_slots: Option<u32>,
    pub max_requests_at_once: Option<u32>,
}

impl NamedLimits {
    pub fn checked(self) -> Result<TeamLimits, TeamLimitError> {
        let Self { max_open_claims, max_slots, max_requests_at_once } = self;
        for (field, limit) in [
            ("max_open_claims", max_open_claims),
            ("max_slots", max_slots),
            ("max_requests_at_once", max_requests_at_once),
        ] {
            if limit.is_some_and(|limit| !(1..=LARGEST).contains(&limit)) {
                return Err(TeamLimitError { field });
            }
        }
        let usual = TeamLimits::default();
        Ok(TeamLimits {
            max_open_claims: max_open_claims.unwrap_or(usual.max_open_claims),
            max_slots,
            max_requests_at_once: max_requests_at_once.unwrap_or(usual.max_requests_at_once),
        })
    }
}

/// A limit of its team that a claim would exceed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "limit", rename_all = "snake_case")]
pub enum OverLimit {
    Slots { team: Owner, used: u32, max: u32 },
}

impl OverLimit {
    /// The same limit of the same team, however much of it is used: that changes all the time, and would be written all the time.
    pub fn is_the_limit_of(&self, other: &Self) -> bool {
        let Self::Slots { team, used: _, max } = self;
        let Self::Slots { team: of_team, used: _, max: of_max } = other;
        (team, max) == (of_team, of_max)
    }
}

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots { team, used, max } => write!(f, "team {team} uses {used} of its {max} slots"),
        }
    }
}

impl TeamLimits {
    /// Whether a claim that lacks `short` would exceed what its team may hold, which holds `used`.
    pub fn over_slots(&self, team: &Owner, used: u32, short: u32) -> Option<OverLimit> {
        let max = self.max_slots?;
        (used.saturating_add(short) > max).then(|| OverLimit::Slots { team: team.clone(), used, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_waits_that_would_take_its_team_over_its_slots() {
        let team = Owner::parse("web").unwrap();
        let limits = TeamLimits { max_slots: Some(20), ..TeamLimits::default() };
        for (used, short, waits) in [(0, 20, false), (19, 1, false), (19, 2, true), (20, 1, true)] {
            assert_eq!(
                limits.over_slots(&team, used, short).is_some(),
                waits,
                "{used} used, {short} lacking"
            );
        }
        let over = limits.over_slots(&team, 20, 1).unwrap();
        assert_eq!(over.to_string(), "team web uses 20 of its 20 slots");
        assert_eq!(TeamLimits::default().over_slots(&team, u32::MAX, 1), None);
    }
}
