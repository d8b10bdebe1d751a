//! The control planes' clocks. Each is a little off, as NTP leaves it; and now and then one is far off for a while (fault 4), before it is set right
//! in one step.
//!
//! What is promised. A deadline is compared on the clock of the control plane that decides. So one that is off by S lets it pass up to S too early or too
//! late, and a time that it wrote is off by S for all others. Two clocks may differ by a minute: a machine that EC2 does not list counts as gone two
//! minutes after its call, by the clock of who looks, and EC2's lists lag by a minute at most (invariant 17 would break beyond). Beside that, who may have
//! what does not depend on clocks: an agent gets durations and ends its own work, and a runner is clean when its agent says so. The oracle judges
//! deadlines by the clock of who decided (14, 18), and everything else by the world's.

use super::chance::Chance;
use super::ground::Ground;
use super::schedule::SimClock;
use motorpool_control::ports::clock::Clock;
use motorpool_domain::Timestamp;
use std::sync::Arc;

/// How far off NTP leaves a clock.
pub(crate) const USUALLY_OFF_MS: u64 = 1_000;
/// How far off a clock may be as a fault, either way, and for how long.
pub(crate) const MOST_OFF_MS: u64 = 30_000;
const LONGEST_OFF_MS: u64 = 12 * 60_000;

#[derive(Debug, Default)]
pub(crate) struct Clocks {
    usually: Vec<i64>,
    wrong: Vec<Wrong>,
}

/// A clock is far off.
#[derive(Debug)]
struct Wrong {
    plane: usize,
    from_ms: u64,
    to_ms: u64,
    ahead_ms: i64,
}

impl Clocks {
    /// All are right again before faults stop, by as much as one was wrong: the latest time that was written has come by then.
    pub(crate) fn draw(chance: &mut Chance, planes: usize, calm_from_ms: u64) -> Self {
        let usually = (0..planes).map(|_| either_way(chance, USUALLY_OFF_MS)).collect();
        let last_ms = calm_from_ms.saturating_sub(MOST_OFF_MS);
        let wrong = (0..chance.between(1, 4))
            .map(|_| {
                let from_ms = chance.between(0, last_ms);
                let to_ms = from_ms + chance.between(60_000, LONGEST_OFF_MS);
                let ahead_ms = either_way(chance, MOST_OFF_MS);
                Wrong { plane: chance.index(planes), from_ms, to_ms: to_ms.min(last_ms), ahead_ms }
            })
            .collect();
        Self { usually, wrong }
    }

    /// How far this plane's clock is ahead of the world's.
    pub(crate) fn ahead_ms(&self, plane: usize, now_ms: u64) -> i64 {
        let wrong = self
            .wrong
            .iter()
            .find(|wrong| wrong.plane == plane && (wrong.from_ms..wrong.to_ms).contains(&now_ms));
        wrong.map_or_else(|| self.usually.get(plane).copied().unwrap_or_default(), |wrong| wrong.ahead_ms)
    }
}

fn either_way(chance: &mut Chance, most_ms: u64) -> i64 {
    let most = i64::try_from(most_ms).unwrap_or(i64::MAX);
    i64::try_from(chance.between(0, 2 * most_ms + 1)).unwrap_or(most) - most
}

/// What one control plane takes for the time.
#[derive(Debug)]
pub(crate) struct PlaneClock {
    pub(crate) ground: Arc<Ground>,
    pub(crate) plane: usize,
}

impl Clock for PlaneClock {
    fn now(&self) -> Timestamp {
        let now_ms = self.ground.now_ms();
        SimClock::timestamp_ahead(now_ms, self.ground.clocks.ahead_ms(self.plane, now_ms))
    }
}
