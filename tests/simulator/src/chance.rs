//! Chance from a seed (splitmix64): the same seed, the same draws, on every machine and with every version of every library.

#[derive(Debug, Clone)]
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x6a09_e667_f3bc_c908 }
    }

    /// Another stream, so that what one part draws does not change what another does.
    pub(crate) fn fork(&mut self) -> Self {
        Self { state: self.draw() }
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From `low` to `high`, the latter excluded.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.draw() % high.saturating_sub(low).max(1)
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.draw() % u64::try_from(len).unwrap_or(1).max(1)).unwrap_or(0)
    }

    pub(crate) fn one_of<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }

    /// True in so many of 10,000 cases.
    pub(crate) fn hits(&mut self, of_10_000: u32) -> bool {
        of_10_000 > 0 && self.draw() % 10_000 < u64::from(of_10_000)
    }

    /// Mostly near `low`, seldom near `high`: as latencies are.
    pub(crate) fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let part = (self.draw() >> 11) as f64 / (1_u64 << 53) as f64;
        low + ((high.saturating_sub(low)) as f64 * part * part * part) as u64
    }
}
