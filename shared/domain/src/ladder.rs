//! The ladder: the ways to get a machine, best first, and which of them to try next. A rung that had nothing to give is passed
//! over for a while, by every claim.

use crate::claim::ClaimKey;
use crate::ids::{ClaimId, LaunchId, RunnerId, Workflow};
use crate::pool::Pool;
use crate::spec::{Offer, Usage, Want};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One way to get a machine: what it would be, where, and at about what price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityOption {
    pub offer: Offer,
    pub zone: Option<String>,
    pub hourly: Option<Price>,
}

impl CapacityOption {
    /// Of a provider that has one kind of machine, in one place.
    pub fn only(offer: Offer) -> Self {
        Self { offer, zone: None, hourly: None }
    }

    /// `m6i.large (spot) in eu-west-1a`
    pub fn in_words(&self) -> String {
        let Self { offer, zone, hourly: _ } = self;
        let place = zone.as_ref().map(|zone| format!(" in {zone}")).unwrap_or_default();
        format!("{} ({}){place}", offer.instance_type, offer.usage.name())
    }
}

/// US dollars, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Price(u64);

impl Price {
    pub const fn from_micro_dollars(micros: u64) -> Self {
        Self(micros)
    }

    pub const fn micro_dollars(self) -> u64 {
        self.0
    }

    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// What so long costs at this price an hour.
    #[must_use]
    pub fn over(self, span: Duration) -> Self {
        let micros = u128::from(self.0) * span.as_millis() / 3_600_000;
        Self(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

/// One call to the provider, as it is written down before it is made: the same call again can be made from it, and is known to the
/// provider as the same. It asks for the runners `from..from + count` of its launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchCall {
    /// Counts the calls that were written down for each of its runners. With `from`, no other call of the launch has it.
    pub number: u32,
    pub from: u32,
    pub count: u32,
    pub rung: CapacityOption,
    /// Whom the machines were for when it was made; noted on them for the reports of costs.
    pub asked_by: Option<AskedBy>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedBy {
    pub claim: ClaimId,
    pub workflow: Workflow,
}

impl AskedBy {
    pub fn new(claim: &ClaimId, key: &ClaimKey) -> Self {
        Self { claim: claim.clone(), workflow: key.workflow.clone() }
    }
}

impl LaunchCall {
    pub fn first(count: u32, rung: CapacityOption, asked_by: Option<AskedBy>) -> Self {
        Self { number: 1, from: 0, count, rung, asked_by }
    }

    /// The next call, for runners that this one did not give.
    #[must_use]
    pub fn next(&self, from: u32, count: u32, rung: CapacityOption) -> Self {
        Self { number: self.number + 1, from, count, rung, asked_by: self.asked_by.clone() }
    }

    pub fn runners(&self, launch: &LaunchId) -> Vec<RunnerId> {
        (self.from..self.from + self.count).map(|index| RunnerId::of_launch(launch, index)).collect()
    }
}

/// For so long nobody asks again for what there was none of.
const EMPTY_FOR: Duration = Duration::from_secs(180);

/// What a provider had none of, and until when nobody asks it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortage {
    pub of: Lacking,
    pub until: Timestamp,
    /// In the provider's words.
    pub why: String,
}

impl Shortage {
    pub fn seen(of: Lacking, why: String, now: Timestamp) -> Self {
        Self { of, until: now.after(EMPTY_FOR), why }
    }
}

/// How much of a ladder a shortage concerns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lacking {
    /// This type, here, sold so.
    #[serde(rename = "rung")]
    CapacityOption { instance_type: String, zone: Option<String>, usage: Usage },
    /// Everything here: no address is free in its network.
    Zone { zone: String },
    /// Everything sold so: a quota of the account is used up.
    Usage { usage: Usage },
}

impl Lacking {
    pub fn rung(rung: &CapacityOption) -> Self {
        Self::CapacityOption {
            instance_type: rung.offer.instance_type.clone(),
            zone: rung.zone.clone(),
            usage: rung.offer.usage,
        }
    }

    pub fn covers(&self, rung: &CapacityOption) -> bool {
        match self {
            Self::CapacityOption { instance_type, zone, usage } => {
                *instance_type == rung.offer.instance_type && *zone == rung.zone && *usage == rung.offer.usage
            }
            Self::Zone { zone } => rung.zone.as_ref() == Some(zone),
            Self::Usage { usage } => *usage == rung.offer.usage,
        }
    }

    /// A name that no other shortage of the pool has.
    pub fn key(&self) -> String {
        match self {
            Self::CapacityOption { instance_type, zone, usage } => {
                format!("rung/{instance_type}/{}/{}", zone.as_deref().unwrap_or("-"), usage.name())
            }
            Self::Zone { zone } => format!("zone/{zone}"),
            Self::Usage { usage } => format!("usage/{}", usage.name()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    Try(CapacityOption),
    /// All that would do had nothing to give; the first may have again at `until`.
    Wait {
        until: Timestamp,
        why: String,
    },
    /// No rung would ever do.
    NoneFits {
        why: String,
    },
}

/// The best rung that fits what is wanted and is not known to be empty.
pub fn choose(ladder: &[CapacityOption], want: &Want, shortages: &[Shortage], now: Timestamp) -> Choice {
    let mut misfit = None;
    let mut empty: Vec<&Shortage> = Vec::new();
    for rung in ladder {
        if let Some(why) = want.misfit(&rung.offer) {
            misfit.get_or_insert(why);
            continue;
        }
        match shortages.iter().find(|shortage| shortage.until > now && shortage.of.covers(rung)) {
            Some(shortage) => empty.push(shortage),
            None => return Choice::Try(rung.clone()),
        }
    }
    match (empty.iter().map(|shortage| shortage.until).min(), empty.first()) {
        (Some(until), Some(first)) => {
            let why = format!("the provider has nothing left that would do: {}", first.why);
            Choice::Wait { until, why }
        }
        (Some(_) | None, _) => {
            let why = match (misfit, ladder.len()) {
                (Some(misfit), 1) => misfit,
                // One of many that do not fit says little.
                (Some(_), _) => format!("it launches nothing{}", want.in_words()),
                (None, _) if *want != Want::default() => format!("it launches nothing{}", want.in_words()),
                (None, _) => "the provider has no type for it".to_owned(),
            };
            Choice::NoneFits { why }
        }
    }
}

/// Why nothing can be launched for `pool`, whatever the provider has.
pub fn cannot_launch(pool: &Pool, want: &Want) -> Option<String> {
    if pool.retired {
        return Some(format!("pool {} is retired, and gets no new runners", pool.name));
    }
    if !pool.rules.backend.launches() {
        return Some(format!(
            "no idle runner in pool {}{}; its machines are registered by an operator, not launched",
            pool.name,
            want.in_words()
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;

    fn rung(instance_type: &str, zone: &str, usage: Usage) -> CapacityOption {
        let offer = Offer { instance_type: instance_type.to_owned(), usage, ..crate::samples::offer() };
        CapacityOption { offer, zone: Some(zone.to_owned()), hourly: None }
    }

    fn ladder() -> Vec<CapacityOption> {
        vec![
            rung("c6i.large", "a", Usage::Spot),
            rung("c6i.large", "b", Usage::Spot),
            rung("m6i.large", "a", Usage::Spot),
            rung("c6i.large", "a", Usage::OnDemand),
        ]
    }

    fn short(of: Lacking, until_ms: u64) -> Shortage {
        Shortage { of, until: Timestamp::from_millis(until_ms), why: "none left".to_owned() }
    }

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    #[test]
    fn the_first_rung_that_is_not_empty_is_tried() {
        let want = Want::default();
        let [first, second, third, last] = <[CapacityOption; 4]>::try_from(ladder()).unwrap();
        let chosen = |shortages: &[Shortage]| choose(&ladder(), &want, shortages, NOW);
        assert_eq!(chosen(&[]), Choice::Try(first.clone()));
        assert_eq!(chosen(&[short(Lacking::rung(&first), 2_000)]), Choice::Try(second));
        assert_eq!(chosen(&[short(Lacking::rung(&first), 1_000)]), Choice::Try(first.clone()), "it is over");
        assert_eq!(chosen(&[short(Lacking::Usage { usage: Usage::Spot }, 2_000)]), Choice::Try(last));
        let zone = Lacking::Zone { zone: "a".to_owned() };
        let both = [short(Lacking::rung(&first), 2_000), short(zone, 3_000)];
        assert_eq!(chosen(&both), Choice::Try(rung("c6i.large", "b", Usage::Spot)));
        let _ = third;
    }

    #[test]
    fn fault_22_nothing_left_waits_for_the_first_that_may_have_again() {
        let all = [
            short(Lacking::Usage { usage: Usage::Spot }, 5_000),
            short(Lacking::Usage { usage: Usage::OnDemand }, 3_000),
        ];
        let until = Timestamp::from_millis(3_000);
        let why = "the provider has nothing left that would do: none left".to_owned();
        let expected = Choice::Wait { until, why };
        assert_eq!(choose(&ladder(), &Want::default(), &all, NOW), expected);
    }

    #[test]
    fn what_nothing_fits_is_said_and_not_waited_for() {
        let want = Want { spec: Some(Spec { cpu: 64, memory_mb: 1 }), ..Want::default() };
        let Choice::NoneFits { why } = choose(&ladder(), &want, &[], NOW) else { panic!("nothing fits") };
        assert!(why.starts_with("it launches nothing that "), "{why}");
        assert!(matches!(choose(&[], &Want::default(), &[], NOW), Choice::NoneFits { .. }));
    }

    #[test]
    fn the_next_attempt_is_for_what_the_last_did_not_give() {
        let [first, second, ..] = <[CapacityOption; 4]>::try_from(ladder()).unwrap();
        let attempt = LaunchCall::first(5, first, None);
        let next = attempt.next(2, 3, second);
        assert_eq!((next.number, next.from, next.count), (2, 2, 3));
        let launch = LaunchId::parse("l-abc").unwrap();
        let ids: Vec<String> = next.runners(&launch).iter().map(ToString::to_string).collect();
        assert_eq!(ids, ["r-abc-2", "r-abc-3", "r-abc-4"]);
    }

    #[test]
    fn a_price_over_time() {
        assert_eq!(
            Price::from_micro_dollars(96_000).over(Duration::from_secs(1_800)).micro_dollars(),
            48_000
        );
    }
}
