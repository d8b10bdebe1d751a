//! What about a pool a person should look at, judged by the figures that are shown of it. Whoever shows the pool says it in words.

use super::Limits;
use crate::runner::StateName;
use std::time::Duration;

/// Longer than between two sweeps, which ask the CI system of every pool: an older refusal may be mended.
const FRESH: Duration = Duration::from_secs(15 * 60);

/// A pool in figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolFigures {
    pub used: u32,
    pub max: u32,
    pub idle: u32,
    pub quarantined: u32,
    /// Claims that wait for something.
    pub waiting: u32,
    pub retired: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolConcern {
    Retired,
    /// Claims wait although there are free slots.
    ClaimsWait,
    /// Claims wait, and all slots are taken.
    ClaimsWaitForSlots,
    /// All slots are taken and no runner is idle: the next claim waits.
    Full,
    Quarantined,
}

impl PoolFigures {
    /// In the order in which they are told.
    pub fn concerns(self) -> Vec<PoolConcern> {
        let Self { used, max, idle, quarantined, waiting, retired } = self;
        let slots = match (waiting > 0, used >= max) {
            (true, false) => Some(PoolConcern::ClaimsWait),
            (true, true) => Some(PoolConcern::ClaimsWaitForSlots),
            (false, true) if idle == 0 => Some(PoolConcern::Full),
            (false, true | false) => None,
        };
        let retired = retired.then_some(PoolConcern::Retired);
        let quarantined = (quarantined > 0).then_some(PoolConcern::Quarantined);
        [retired, slots, quarantined].into_iter().flatten().collect()
    }
}

/// Whether a runner seems silent to somebody who does not know its pool's heartbeat: twice what the usual one allows, since a pool may
/// ask for a slower one. Only of a state in which its agent should be heard from.
pub fn seems_silent(state: StateName, unheard_for: Duration) -> bool {
    let is_expected = match state {
        StateName::Idle
        | StateName::Claimed
        | StateName::Running
        | StateName::Releasing
        | StateName::Resetting => true,
        StateName::Created | StateName::Quarantined | StateName::Terminating | StateName::Terminated => false,
    };
    is_expected && unheard_for >= Limits::default().silence() * 2
}

/// Whether what a CI system refused so long ago is refused still, as far as anybody knows.
pub fn refusal_stands(ago: Duration) -> bool {
    ago < FRESH
}

/// Whether the calls that are left to a CI system may not do for a whole pool: each registration is a call, and so is its removal.
pub fn calls_run_short(left: u64, max: u32) -> bool {
    left < u64::from(max) * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_of_concern_when_claims_wait_or_would() {
        use PoolConcern::{ClaimsWait, ClaimsWaitForSlots, Full, Quarantined, Retired};
        let fine = PoolFigures { used: 1, max: 3, idle: 0, quarantined: 0, waiting: 0, retired: false };
        for (figures, expected) in [
            (fine, vec![]),
            (PoolFigures { used: 0, ..fine }, vec![]),
            (PoolFigures { used: 3, ..fine }, vec![Full]),
            (PoolFigures { used: 3, idle: 1, ..fine }, vec![]),
            (PoolFigures { waiting: 1, ..fine }, vec![ClaimsWait]),
            (PoolFigures { waiting: 1, idle: 1, ..fine }, vec![ClaimsWait]),
            (PoolFigures { used: 3, waiting: 2, ..fine }, vec![ClaimsWaitForSlots]),
            (PoolFigures { used: 4, waiting: 2, ..fine }, vec![ClaimsWaitForSlots]),
            (PoolFigures { quarantined: 1, ..fine }, vec![Quarantined]),
            (PoolFigures { retired: true, ..fine }, vec![Retired]),
            (
                PoolFigures { used: 3, waiting: 1, quarantined: 1, retired: true, ..fine },
                vec![Retired, ClaimsWaitForSlots, Quarantined],
            ),
        ] {
            assert_eq!(figures.concerns(), expected, "{figures:?}");
        }
    }

    #[test]
    fn only_who_should_be_heard_from_seems_silent() {
        let edge = Duration::from_secs(120);
        for state in StateName::ALL {
            let is_expected =
                !["created", "quarantined", "terminating", "terminated"].contains(&state.as_str());
            assert_eq!(seems_silent(state, edge), is_expected, "{state}");
            assert!(!seems_silent(state, edge - Duration::from_millis(1)), "{state}");
        }
    }

    #[test]
    fn a_refusal_stands_until_a_sweep_must_have_asked_again() {
        for (minutes, stands) in [(0, true), (3, true), (14, true), (15, false), (60, false)] {
            assert_eq!(refusal_stands(Duration::from_secs(minutes * 60)), stands, "{minutes} min");
        }
    }

    #[test]
    fn calls_run_short_below_two_a_slot() {
        for (left, max, short) in [(5, 3, true), (6, 3, false), (0, 1, true), (2, 1, false)] {
            assert_eq!(calls_run_short(left, max), short, "{left} calls for {max} runners");
        }
    }
}
