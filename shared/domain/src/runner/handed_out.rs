//! Whether a registration with the CI system may be handed out: once an epoch and count, and again only to who asked for it and did not hear.

use super::Runner;
use serde::{Deserialize, Serialize};

/// Which registration of the present epoch was handed out last, and to whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOut {
    pub count: u32,
    /// Of the agent's process that asked; an agent of an older version has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// Counts rise. An agent counts before it asks, so that a process which starts anew never asks for what the last one may have got; the same count
/// again is the same process, whose answer was lost, or somebody else.
pub fn may_be_handed_out(runner: &Runner, next: &HandedOut) -> bool {
    match &runner.handed_out {
        None | Some(HandedOut { session: None, .. }) => true,
        Some(last) => next.count > last.count || next == last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::launching::samples::runner;

    #[test]
    fn refuse_22_a_registration_is_handed_out_once_a_count_and_again_to_the_same_process_only() {
        let of = |count, session: Option<&str>| HandedOut { count, session: session.map(str::to_owned) };
        let may = |last: HandedOut, next: HandedOut| {
            may_be_handed_out(&Runner { handed_out: Some(last), ..runner(0, 1, true) }, &next)
        };
        assert!(may_be_handed_out(&runner(0, 1, true), &of(3, Some("a"))), "the first of its epoch");
        assert!(may(of(3, Some("a")), of(3, Some("a"))), "its answer was lost");
        assert!(may(of(3, Some("a")), of(4, Some("b"))), "the next, of an agent that started anew");
        for other in [of(3, Some("b")), of(3, None), of(2, Some("a"))] {
            assert!(!may(of(3, Some("a")), other.clone()), "{other:?}");
        }
        assert!(may(of(3, None), of(3, None)), "an agent of an older version repeats itself");
    }
}
