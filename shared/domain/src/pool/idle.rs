//! How many idle runners a pool keeps: how many it lacks, and which of those whose time is over it can spare.

use super::Pool;

/// What there is towards `min_idle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spares {
    pub idle: u32,
    pub resetting: u32,
    /// On their way for nobody.
    pub starting: u32,
}

impl Pool {
    /// How many idle runners this pool keeps ready.
    pub fn wanted_idle(&self) -> u32 {
        if self.retired { 0 } else { self.rules.min_idle }
    }

    pub fn lacks(&self, spares: Spares) -> u32 {
        let Spares { idle, resetting, starting } = spares;
        self.wanted_idle().saturating_sub(idle.saturating_add(resetting).saturating_add(starting))
    }

    /// How many may be launched at once, with so many slots in use.
    pub fn free_slots(&self, used: u32) -> u32 {
        self.rules.max.saturating_sub(used)
    }
}

/// How many idle runners may go in one pass of refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surplus(u32);

impl Surplus {
    pub fn of(pool: &Pool, idle: u32) -> Self {
        Self(idle.saturating_sub(pool.wanted_idle()))
    }

    /// Whether one more can be spared, which then is.
    pub fn spare(&mut self) -> bool {
        let spare = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        spare
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Rules;
    use crate::samples::{pool, rules};

    fn keeping(min_idle: u32) -> Pool {
        pool("small", Rules { min_idle, ..rules() })
    }

    #[test]
    fn what_is_on_its_way_counts_towards_min_idle() {
        let spares = |idle, resetting, starting| Spares { idle, resetting, starting };
        for (there, lacks) in
            [(spares(0, 0, 0), 3), (spares(1, 1, 0), 1), (spares(1, 1, 1), 0), (spares(9, 0, 0), 0)]
        {
            assert_eq!(keeping(3).lacks(there), lacks, "{there:?}");
        }
        let retired = Pool { retired: true, ..keeping(3) };
        assert_eq!(retired.lacks(Spares::default()), 0, "it gets no new ones");
    }

    #[test]
    fn only_what_is_beyond_min_idle_is_spared() {
        let mut surplus = Surplus::of(&keeping(3), 5);
        assert_eq!([surplus.spare(), surplus.spare(), surplus.spare()], [true, true, false]);
        assert!(!Surplus::of(&keeping(3), 2).spare());
        assert!(Surplus::of(&Pool { retired: true, ..keeping(3) }, 1).spare());
    }

    #[test]
    fn slots_are_free_up_to_the_maximum() {
        let pool = keeping(0);
        assert_eq!(
            [0, pool.rules.max, pool.rules.max + 1].map(|used| pool.free_slots(used)),
            [pool.rules.max, 0, 0]
        );
    }
}
