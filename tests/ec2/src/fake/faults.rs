//! What goes wrong, as the test planned it. The same plan and the same calls give the same faults.

/// How an answer is lost after the call had its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    TimedOut,
    /// The connection breaks.
    Cut,
    /// 500, InternalError.
    ServerError,
    /// 200, and no XML.
    Garbled,
}

/// What EC2 answers who asks too often.
pub(super) const THROTTLED: &str = "RequestLimitExceeded";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    Served,
    /// Without an effect.
    Refused {
        code: String,
        message: String,
        status: u16,
    },
    /// With its effect.
    Lost(Loss),
}

impl Fate {
    pub(super) fn throttled() -> Self {
        Self::Refused {
            code: THROTTLED.to_owned(),
            message: "Request limit exceeded.".to_owned(),
            status: 503,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    planned: Vec<Planned>,
    throttled: Option<Share>,
    lost: Option<Share>,
}

#[derive(Debug)]
struct Planned {
    /// Nothing: any.
    action: Option<String>,
    left: u32,
    fate: Fate,
}

/// So many of a thousand calls, by chance, from a seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub(super) seed: u64,
    pub(super) per_mille: u64,
}

impl Faults {
    pub(super) fn plan(&mut self, action: Option<&str>, times: u32, fate: Fate) {
        self.planned.push(Planned { action: action.map(str::to_owned), left: times, fate });
    }

    pub(super) fn throttle(&mut self, share: Option<Share>) {
        self.throttled = share;
    }

    pub(super) fn lose(&mut self, share: Option<Share>) {
        self.lost = share;
    }

    /// What was planned comes first, in its order.
    pub(super) fn fate(&mut self, action: &str, number: u64) -> Fate {
        let is_for = |plan: &&mut Planned| {
            plan.left > 0 && plan.action.as_ref().is_none_or(|planned| planned == action)
        };
        if let Some(plan) = self.planned.iter_mut().find(is_for) {
            plan.left -= 1;
            return plan.fate.clone();
        }
        if self.throttled.is_some_and(|share| share.has(number)) {
            return Fate::throttled();
        }
        if self.lost.is_some_and(|share| share.has(number)) {
            return Fate::Lost(Loss::Cut);
        }
        Fate::Served
    }
}

impl Share {
    fn has(self, number: u64) -> bool {
        mixed(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) % 1_000 < self.per_mille
    }
}

/// Spreads neighbouring numbers over all of the range.
pub(super) fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_about_that_many_and_the_same_each_time() {
        let share = Share { seed: 7, per_mille: 500 };
        let hit = |share: Share| (0..10_000).filter(|number| share.has(*number)).collect::<Vec<u64>>();
        assert_eq!(hit(share), hit(share));
        assert!((4_500..5_500).contains(&hit(share).len()));
        assert_ne!(hit(share), hit(Share { seed: 8, ..share }));
    }

    #[test]
    fn what_is_planned_for_an_action_leaves_others_alone() {
        let mut faults = Faults::default();
        faults.plan(Some("RunInstances"), 1, Fate::throttled());
        assert_eq!(faults.fate("DescribeInstances", 0), Fate::Served);
        assert_eq!(faults.fate("RunInstances", 1), Fate::throttled());
        assert_eq!(faults.fate("RunInstances", 2), Fate::Served);
    }
}
