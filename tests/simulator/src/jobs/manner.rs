//! How a job behaves, drawn once.

use super::Origin;
use crate::chance::Chance;
use motorpool_domain::checkpoint::JobOutcome;

#[derive(Debug)]
pub(super) struct Manner {
    pub(super) lasts_ms: u64,
    pub(super) outcome: JobOutcome,
    /// What its last hook says of it, if there is one: it does not know all.
    pub(super) says: Option<JobOutcome>,
    /// That hook does not wait until the job is over.
    pub(super) says_early: bool,
    /// So long after its script its CI system knows.
    pub(super) known_after_ms: u64,
    /// Its hook runs before more than one step.
    pub(super) steps: bool,
    /// So long after that each of its webhooks sets out, all of one delivery.
    pub(super) webhooks: Vec<u64>,
}

impl Manner {
    pub(super) fn draw(chance: &mut Chance, origin: Origin) -> Self {
        let outcome = match chance.between(0, 20) {
            0..11 => JobOutcome::Success,
            11..18 => JobOutcome::Failure,
            _ => JobOutcome::Canceled,
        };
        let says = match (origin, chance.between(0, 20)) {
            (Origin::Forge | Origin::Registry, 0..8) => None,
            // It is told nothing of how its job ended.
            (Origin::Registry, _) => Some(JobOutcome::Failure),
            (Origin::Forge, 8..17) => Some(outcome),
            (Origin::Forge, 17..19) => Some(JobOutcome::Success),
            (Origin::Forge, _) => Some(JobOutcome::Failure),
        };
        let stuck = chance.hits(600);
        let lasts_ms = match stuck {
            true => chance.between(20 * 60_000, 30 * 60_000),
            false => chance.skewed(2_000, 6 * 60_000),
        };
        let webhooks = match chance.between(0, 10) {
            0..3 => Vec::new(),
            3..7 => vec![chance.skewed(50, 20_000)],
            7..9 => vec![chance.skewed(50, 20_000), chance.skewed(50, 120_000)],
            _ => vec![chance.skewed(50, 20_000), chance.between(10 * 60_000, 25 * 60_000)],
        };
        let known_after_ms = chance.skewed(0, 25_000);
        let steps = chance.hits(4_000) && origin == Origin::Forge;
        let says_early = chance.hits(3_000) || origin == Origin::Forge;
        Self { lasts_ms, outcome, says, says_early, known_after_ms, steps, webhooks }
    }

    /// Of one that is asked for when all is well.
    pub(super) fn in_the_calm(number: usize, origin: Origin) -> Self {
        let outcome = if number.is_multiple_of(2) { JobOutcome::Success } else { JobOutcome::Failure };
        let says = number.is_multiple_of(3).then_some(match origin {
            Origin::Forge => outcome,
            Origin::Registry => JobOutcome::Failure,
        });
        let webhooks = if number.is_multiple_of(5) { vec![1_000] } else { Vec::new() };
        let says_early = origin == Origin::Forge;
        Self { lasts_ms: 20_000, outcome, says, says_early, known_after_ms: 1_000, steps: false, webhooks }
    }
}
