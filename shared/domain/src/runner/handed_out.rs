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

/// An agent counts one further before each request: some are lost, but not as many.
const MOST_AHEAD: u32 = 1_000;

/// Counts rise. An agent counts before it asks, so that a process which starts anew never asks for what the last one may have got; the same count
/// again is the same process, whose answer was lost, or somebody else. So is who jumps ahead, so that no later count of the agent's would be good, and
/// who says no session where the agent is known to have one.
pub fn may_be_handed_out(runner: &Runner, next: &HandedOut) -> bool {
    let is_of_a_session = runner.credential.as_ref().is_some_and(|known| known.named.is_some());
    if is_of_a_session && next.session.is_none() {
        return false;
    }
    match &runner.handed_out {
        None | Some(HandedOut { session: None, .. }) => true,
        Some(last) if next.session.is_none() => next == last,
        Some(last) => next == last || (1..=MOST_AHEAD).contains(&next.count.saturating_sub(last.count)),
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
        assert!(may(of(3, Some("a")), of(1_003, Some("a"))), "after many that were lost");
        let jumps = [of(1_004, Some("a")), of(u32::MAX, Some("b")), of(4, None)];
        for other in [of(3, Some("b")), of(3, None), of(2, Some("a"))].into_iter().chain(jumps) {
            assert!(!may(of(3, Some("a")), other.clone()), "{other:?}");
        }
        assert!(may(of(3, None), of(3, None)), "an agent of an older version repeats itself");
    }
}
