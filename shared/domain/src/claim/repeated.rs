//! Recognises a take of our own whose answer was lost: its repetition meets what it wrote, and has not lost a race.

use super::{Claim, Member};
use crate::runner::Runner;

/// Whether the claim has the runner as a take from `before` to `after` gives it, as both records say, and had it not when the take was
/// decided on. Whoever wrote that meant the same. `taken` is the runner as the take saw it.
pub fn taken_before(
    found: &Runner,
    found_claim: &Claim,
    before: &Claim,
    after: &Claim,
    taken: &Runner,
) -> bool {
    let is_it = |member: &&Member| member.runner == taken.id && member.epoch == taken.epoch;
    let gained = after.members.iter().find(is_it);
    found.epoch == taken.epoch
        && found.held_by(&found_claim.id)
        && gained.is_some_and(|gained| found_claim.members.contains(gained))
        && !before.members.iter().any(|member| is_it(&member))
}
