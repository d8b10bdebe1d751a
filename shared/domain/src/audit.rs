//! The audit log's entries: who, what, from, to, why.

use crate::ids::{Owner, RunnerId};
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

/// The longest text of somebody else's that a record or its log keeps.
pub const LONGEST_WHY: usize = 2_000;

/// A text that came from outside, as far as it is kept.
pub fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(LONGEST_WHY) {
        text.truncate(end);
        text.push('…');
    }
    text
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
