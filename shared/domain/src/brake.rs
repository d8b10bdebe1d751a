//! The brake: when most heartbeats vanish at once, the outage is ours, and nobody is reaped for silence.

/// Of all runners that were ever heard, how many are, and how many are overdue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Heartbeats {
    pub heard: usize,
    pub overdue: usize,
}

/// Fewer than this are machines that died, whatever their share.
const FEWEST: usize = 5;

impl Heartbeats {
    /// Most are overdue, and they are too many to have died together.
    pub fn brake(self) -> bool {
        self.overdue >= FEWEST && self.overdue > self.heard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_20_the_brake_holds_when_most_are_overdue_and_not_for_a_few() {
        for (heard, overdue, expected) in
            [(0, 4, false), (0, 5, true), (5, 5, false), (5, 6, true), (100, 50, false), (49, 51, true)]
        {
            assert_eq!(Heartbeats { heard, overdue }.brake(), expected, "{heard} heard, {overdue} overdue");
        }
    }
}
