//! Who asks, and what that lets him do.

use crate::error::Refused;
use motorpool_domain::claim::Claim;
use motorpool_domain::pool::Pool;
use motorpool_domain::{Actor, Owner};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Holds the admin token.
    Operator,
    Team(Owner),
}

impl Caller {
    pub fn owner(&self) -> Owner {
        match self {
            Self::Operator => Owner::operator(),
            Self::Team(owner) => owner.clone(),
        }
    }

    pub(crate) fn actor(&self) -> Actor {
        Actor::Owner(self.owner())
    }

    pub(crate) fn must_be_operator(&self, to: &str) -> Result<(), Refused> {
        match self {
            Self::Operator => Ok(()),
            Self::Team(owner) => Err(Refused::forbidden(
                format!("team {owner} may not {to}"),
                "this needs the operator's admin token",
            )),
        }
    }

    /// A pool may name the teams that may use it. The others are told no more of it than its name, which they have said themselves.
    pub(crate) fn may_use(&self, pool: &Pool) -> Result<(), Refused> {
        let owner = self.owner();
        match pool.rules.may_be_used_by(&owner) {
            true => Ok(()),
            false => Err(Refused::forbidden(
                format!("team {owner} may not use pool {}", pool.name),
                "`motorpool pools` lists those that it may use; the operator names a pool's teams",
            )),
        }
    }

    pub(crate) fn may_see(&self, claim: &Claim) -> Result<(), Refused> {
        match self {
            Self::Operator => Ok(()),
            Self::Team(owner) if *owner == claim.key.owner => Ok(()),
            Self::Team(_) => Err(Refused::forbidden(
                format!("claim {} belongs to another owner", claim.id),
                "ask with its owner's token, or the operator's",
            )),
        }
    }
}
