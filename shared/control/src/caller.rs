//! Who asks, and what that lets him do.

use crate::error::Refused;
use motorpool_domain::claim::Claim;
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
