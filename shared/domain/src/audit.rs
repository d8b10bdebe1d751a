//! The audit log's entries: who, what, from, to, why; and of what can fail or takes its time, how it came out and how long it took.

use crate::claim::Claim;
use crate::ids::{Owner, RunnerId};
use crate::runner::{Runner, RunnerState};
use crate::text::visible;
use crate::time::{Timestamp, millis};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

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
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub result: Option<AuditResult>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub duration_ms: Option<u64>,
}

/// How something came out that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditResult {
    Ok,
    Error,
}

impl AuditEntry {
    /// Something that moved no record from one state to another.
    pub fn of(at: Timestamp, who: Actor, what: &str, why: impl Into<String>) -> Self {
        let (what, why) = (what.to_owned(), why.into());
        Self { at, who, what, from: None, to: None, why, result: None, duration_ms: None }
    }

    #[must_use]
    pub fn came_out(self, result: AuditResult, took: Duration) -> Self {
        Self { result: Some(result), duration_ms: Some(millis(took)), ..self }
    }

    /// The birth of a record in the state `to`.
    pub fn of_new(at: Timestamp, who: Actor, what: &str, to: &str, why: impl Into<String>) -> Self {
        Self { to: Some(to.to_owned()), ..Self::of(at, who, what, why) }
    }

    pub fn of_runner(at: Timestamp, who: Actor, before: &Runner, after: &Runner, why: &str) -> Self {
        let state = |runner: &Runner| Some(format!("{}@{}", runner.state.name(), runner.epoch));
        let entry = Self { from: state(before), to: state(after), ..Self::of(at, who, "transition", why) };
        match cleaned(at, before, after) {
            Some((result, took)) => entry.came_out(result, took),
            None => entry,
        }
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

/// How this attempt to clean a runner came out, if the transition ends one. It took its time from when the machine could be touched.
fn cleaned(at: Timestamp, before: &Runner, after: &Runner) -> Option<(AuditResult, Duration)> {
    let RunnerState::Resetting { attempt, not_before, .. } = &before.state else { return None };
    let result = match &after.state {
        RunnerState::Idle => AuditResult::Ok,
        RunnerState::Resetting { attempt: next, .. } if next > attempt => AuditResult::Error,
        RunnerState::Quarantined { .. } => AuditResult::Error,
        RunnerState::Created { .. }
        | RunnerState::Resetting { .. }
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Releasing { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => return None,
    };
    let begun = before.paused_at.map_or(*not_before, |paused_at| paused_at.max(*not_before));
    Some((result, at.since(begun)))
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

impl fmt::Display for AuditResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Error => "error",
        })
    }
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
