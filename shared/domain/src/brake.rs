//! The brake: when most heartbeats vanish at once, the outage is ours, and nobody is reaped for silence.

/// What one due pass saw among the runners whose heartbeat it looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Looks {
    pub heard: usize,
    pub silent: usize,
}

/// Fewer silent runners than this are machines that died, whatever their share.
const FEWEST: usize = 5;

impl Looks {
    /// Most of those looked at are silent, and they are too many to have died together.
    pub fn brake(self) -> bool {
        self.silent >= FEWEST && self.silent > self.heard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_20_the_brake_holds_when_most_are_silent_and_not_for_a_few() {
        for (heard, silent, expected) in
            [(0, 4, false), (0, 5, true), (5, 5, false), (5, 6, true), (100, 50, false), (49, 51, true)]
        {
            assert_eq!(Looks { heard, silent }.brake(), expected, "{heard} heard, {silent} silent");
        }
    }
}
