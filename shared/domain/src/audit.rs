//! The audit log's entries: who, what, from, to, why.

use crate::claim::Claim;
use crate::ids::{Owner, RunnerId};
use crate::runner::Runner;
use crate::text::visible;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    pub at: Timestamp,
    pub who: Actor,
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to: Option<String>,
    pub why: String,
}

impl AuditEntry {
    /// Something that moved no record from one state to another.
    pub fn of(at: Timestamp, who: Actor, what: &str, why: impl Into<String>) -> Self {
        Self { at, who, what: what.to_owned(), from: None, to: None, why: why.into() }
    }

    /// The birth of a record in the state `to`.
    pub fn of_new(at: Timestamp, who: Actor, what: &str, to: &str, why: impl Into<String>) -> Self {
        Self { to: Some(to.to_owned()), ..Self::of(at, who, what, why) }
    }

    pub fn of_runner(at: Timestamp, who: Actor, before: &Runner, after: &Runner, why: &str) -> Self {
        let state = |runner: &Runner| Some(format!("{}@{}", runner.state.name(), runner.epoch));
        Self { from: state(before), to: state(after), ..Self::of(at, who, "transition", why) }
    }

    pub fn of_claim(
        at: Timestamp,
        who: Actor,
        what: &str,
        before: &Claim,
        after: &Claim,
        why: impl Into<String>,
    ) -> Self {
        let state = |claim: &Claim| Some(claim.state.as_str().to_owned());
        Self { from: state(before), to: state(after), ..Self::of(at, who, what, why) }
    }
}

/// The longest text of somebody else's that a record or its log keeps.
pub const LONGEST_WHY: usize = 2_000;

/// A text that came from outside, as far as it is kept, and as people may read it.
pub fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(LONGEST_WHY) {
        text.truncate(end);
        text.push('…');
    }
    visible(&text)
}

/// On whose behalf a record was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    Owner(Owner),
    Runner(RunnerId),
    Refresh,
    /// The control plane on its own, following up on a write.
    Control,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(owner) => write!(f, "{owner}"),
            Self::Runner(runner) => write!(f, "runner {runner}"),
            Self::Refresh => f.write_str("refresh"),
            Self::Control => f.write_str("control"),
        }
    }
}
