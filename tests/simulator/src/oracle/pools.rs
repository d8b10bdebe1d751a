//! What must hold of pools that are changed while they are used.
//!
//! How invariant 17 counts when a maximum is lowered. Nobody is taken away for it: what is there may stay, and goes by and by; but nothing comes on
//! top, not even by who read the pool before: a launch is written only on the definition that it was decided on.

use super::{Oracle, Scene};
use crate::faults::Fault;
use crate::ledger::SlotsTaken;
use motorpool_domain::PoolName;
use motorpool_domain::pool::Pool;

/// A pool whose maximum was lowered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shrunk {
    /// What there may be, if that is more than the maximum: as many as there were at every look since.
    most: u32,
}

impl Oracle {
    pub(super) fn pool_changes(&mut self, scene: &Scene<'_>, pool: &Pool) {
        let before = self.pools.insert(pool.name.clone(), pool.clone());
        let Some(before) = before.filter(|before| before != pool) else { return };
        self.fired.note(Fault::PoolChanged);
        let (from, to) = (before.rules.max, pool.rules.max);
        if to >= from {
            return;
        }
        let there = self.machines_and_intents(scene.yard, &pool.name);
        if there > to {
            self.fired.note(Fault::PoolShrunk);
        }
        self.shrunk.insert(pool.name.clone(), Shrunk { most: there });
    }

    /// Invariant 17, for records: by the pool's maximum as it is when the launch is written.
    pub(super) fn intents_fit(&mut self, scene: &Scene<'_>, taken: &SlotsTaken) {
        let live = self.live_in(&taken.pool);
        let max = self.pools.get(&taken.pool).map_or(0, |pool| pool.rules.max);
        if live > taken.max || live > max {
            let what = format!(
                "pool {} has {live} live runners, at most {max} are allowed, and it was decided on {}",
                taken.pool, taken.max
            );
            self.fails(scene, 17, &[&taken.pool], what);
        }
    }

    /// How many machines and records there may be, when there are so many.
    pub(super) fn most_allowed(&mut self, pool: &PoolName, there: u32) -> Option<u32> {
        let max = self.pools.get(pool)?.rules.max;
        let most = match self.shrunk.get_mut(pool) {
            Some(shrunk) => {
                let most = shrunk.most;
                shrunk.most = most.min(there);
                most
            }
            None => 0,
        };
        Some(max.max(most))
    }
}
