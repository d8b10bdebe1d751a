//! A broken invariant: which, when, and about whom. The first one ends the run.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its number in PROOF.md.
    pub invariant: u8,
    pub at_ms: u64,
    pub what: String,
    /// Ids of whom it is about, for finding what led to it.
    pub about: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (minutes, seconds) = (self.at_ms / 60_000, self.at_ms / 1_000 % 60);
        write!(f, "invariant {} is broken at {minutes}:{seconds:02}: {}", self.invariant, self.what)
    }
}
