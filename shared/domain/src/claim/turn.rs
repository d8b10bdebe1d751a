//! Whose turn it is when claims want more runners than there are. Without an order, claims that each have some of their runners
//! would wait for each other until all of them fail.

use crate::claim::Claim;

/// How many runners claims that wait longer than `claim` still lack. `waiting` is sorted by age. `alike`: every runner of the pool
/// suits every claim; if not, only those that ask for the same come before.
pub fn lacked_before(claim: &Claim, waiting: &[Claim], alike: bool) -> u32 {
    waiting
        .iter()
        .take_while(|other| (other.opened_at, &other.id) < (claim.opened_at, &claim.id))
        .filter(|other| alike || other.ask.want == claim.ask.want)
        .map(Claim::short)
        .fold(0, u32::saturating_add)
}

/// Whether `claim` may get further now. Who waits longest takes what there is. Anybody else takes all that he lacks out of what
/// those before him leave, or nothing: so at most one claim holds runners and waits for more.
pub fn is_its_turn(claim: &Claim, lacked_before: u32, room: u32) -> bool {
    lacked_before == 0 || lacked_before.saturating_add(claim.short()) <= room
}
