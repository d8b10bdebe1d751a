//! How likely each fault is at each moment: always a little, much in storms that are drawn from the seed, never once faults stop.

use super::chance::Chance;
use super::provider::Short;

/// What a storm makes worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wind {
    LedgerThrottled,
    LedgerAnswersLost,
    LedgerConflicts,
    IndexLags,
    LedgerSlow,
    QueueLossy,
    QueueRepeats,
    QueueShortVisibility,
    ProviderThrottled,
    ProviderFull,
    ProviderMute,
    NetworkLossy,
    Crashes,
    /// While an order for machines is on its way, or its answer.
    CrashesAtLaunch,
    TasksFail,
    CiDown,
}

impl Wind {
    const ALL: [Self; 16] = [
        Self::LedgerThrottled,
        Self::LedgerAnswersLost,
        Self::LedgerConflicts,
        Self::IndexLags,
        Self::LedgerSlow,
        Self::QueueLossy,
        Self::QueueRepeats,
        Self::QueueShortVisibility,
        Self::ProviderThrottled,
        Self::ProviderFull,
        Self::ProviderMute,
        Self::NetworkLossy,
        Self::Crashes,
        Self::CrashesAtLaunch,
        Self::TasksFail,
        Self::CiDown,
    ];

    /// Of 10,000 calls: always, and in its storm.
    fn rates(self) -> (u32, u32) {
        match self {
            Self::LedgerThrottled => (20, 2_500),
            Self::LedgerAnswersLost => (150, 3_000),
            Self::LedgerConflicts => (100, 3_000),
            Self::IndexLags => (1_500, 9_000),
            Self::LedgerSlow => (100, 3_000),
            Self::QueueLossy => (200, 5_000),
            Self::QueueRepeats => (300, 5_000),
            Self::QueueShortVisibility => (200, 4_000),
            Self::ProviderThrottled => (300, 6_000),
            Self::ProviderFull => (200, 5_000),
            Self::ProviderMute => (300, 4_000),
            Self::NetworkLossy => (100, 4_000),
            Self::Crashes => (2, 30),
            Self::CrashesAtLaunch => (300, 3_000),
            Self::TasksFail => (100, 3_000),
            Self::CiDown => (200, 5_000),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Weather {
    storms: Vec<(u64, u64, Wind)>,
    /// What the cloud has none of, and when.
    shorts: Vec<(u64, u64, Short)>,
    /// Times at which no heartbeat arrives.
    outages: Vec<(u64, u64)>,
    /// From then on nothing goes wrong any more.
    calm_from_ms: u64,
}

const MINUTE: u64 = 60_000;
/// An agent's longest backoff is half a minute.
const COMING_BACK_MS: u64 = 40_000;

impl Weather {
    pub(crate) fn draw(chance: &mut Chance, calm_from_ms: u64) -> Self {
        let storms = (0..chance.between(5, 14))
            .filter_map(|_| {
                let from = chance.between(0, calm_from_ms);
                let to = from + chance.between(MINUTE, 10 * MINUTE);
                Wind::ALL.get(chance.index(Wind::ALL.len())).map(|wind| (from, to.min(calm_from_ms), *wind))
            })
            .collect();
        let shorts = (0..chance.between(4, 9))
            .map(|_| {
                let from = chance.between(0, calm_from_ms);
                let to = from + chance.between(2 * MINUTE, 12 * MINUTE);
                (from, to.min(calm_from_ms), Short::draw(|len| chance.index(len)))
            })
            .collect();
        let outages = (0..chance.between(0, 3))
            .map(|_| {
                let from = chance.between(10 * MINUTE, calm_from_ms);
                (from, (from + chance.between(2 * MINUTE, 8 * MINUTE)).min(calm_from_ms))
            })
            .collect();
        Self { storms, shorts, outages, calm_from_ms }
    }

    /// Nothing goes wrong; but for what is short, as long as it is.
    pub(crate) fn fair(shorts: Vec<(u64, u64, Short)>) -> Self {
        Self { storms: Vec::new(), shorts, outages: Vec::new(), calm_from_ms: 0 }
    }

    /// What the cloud has none of now.
    pub(crate) fn shorts(&self, now_ms: u64) -> impl Iterator<Item = Short> {
        self.shorts
            .iter()
            .filter(move |(from, to, _)| (*from..*to).contains(&now_ms))
            .map(|(_, _, short)| *short)
    }

    /// Of 10,000 calls.
    pub(crate) fn rate(&self, wind: Wind, now_ms: u64) -> u32 {
        if self.calm(now_ms) {
            return 0;
        }
        let (always, in_storm) = wind.rates();
        let blows = |(from, to, which): &(u64, u64, Wind)| *which == wind && (*from..*to).contains(&now_ms);
        if self.storms.iter().any(blows) { in_storm } else { always }
    }

    pub(crate) fn outage(&self, now_ms: u64) -> bool {
        self.outages.iter().any(|(from, to)| (*from..*to).contains(&now_ms))
    }

    /// One is, or was over so short a time ago that agents are still coming back.
    pub(crate) fn outage_lately(&self, now_ms: u64) -> bool {
        self.outage(now_ms) || self.outage(now_ms.saturating_sub(COMING_BACK_MS))
    }

    pub(crate) fn calm(&self, now_ms: u64) -> bool {
        now_ms >= self.calm_from_ms
    }
}
