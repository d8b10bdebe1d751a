//! What the cloud sells: types in zones, spot or on demand; and what of it there is none of at times.

use motorpool_domain::ladder::{CapacityOption, Lacking, Price};
use motorpool_domain::pool::Pool;
use motorpool_domain::spec::{Offer, Spec, Usage};

const TYPES: [(&str, u64); 2] = [("c6i.large", 85_000), ("m6i.large", 96_000)];
const ZONES: [&str; 3] = ["eu-west-1a", "eu-west-1b", "eu-west-1c"];

/// What there is none of for a while (fault 22).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Short {
    Type(usize),
    Zone(usize),
    Usage(Usage),
    Everything,
    /// In this zone a call gets one machine, however many it asks for.
    AllButOne(usize),
}

impl Short {
    pub(crate) fn draw(mut pick: impl FnMut(usize) -> usize) -> Self {
        match pick(8) {
            0 | 1 => Self::Type(pick(TYPES.len())),
            2 | 3 => Self::Zone(pick(ZONES.len())),
            4 => Self::Usage(if pick(2) == 0 { Usage::Spot } else { Usage::OnDemand }),
            _ => Self::Everything,
        }
    }

    /// What a call for this rung is told, if it lacks.
    pub(super) fn of(self, rung: &CapacityOption) -> Option<Lacking> {
        let (short, of) = match self {
            Self::Type(nth) => {
                let short = TYPES.get(nth).is_some_and(|(name, _)| *name == rung.offer.instance_type);
                (short, Lacking::rung(rung))
            }
            Self::Zone(nth) => {
                let zone = ZONES.get(nth).copied().unwrap_or_default();
                (rung.zone.as_deref() == Some(zone), Lacking::Zone { zone: zone.to_owned() })
            }
            Self::Usage(usage) => (rung.offer.usage == usage, Lacking::Usage { usage }),
            Self::Everything => (true, Lacking::rung(rung)),
            Self::AllButOne(_) => return None,
        };
        short.then_some(of)
    }
}

impl Short {
    /// How many machines a call for this rung gets at most.
    pub(super) fn at_most(self, rung: &CapacityOption) -> usize {
        match self {
            Self::AllButOne(nth) if rung.zone.as_deref() == ZONES.get(nth).copied() => 1,
            Self::AllButOne(_) | Self::Type(_) | Self::Zone(_) | Self::Usage(_) | Self::Everything => {
                usize::MAX
            }
        }
    }
}

/// Spot before on-demand, cheapest first; on-demand only where the pool allows it.
pub(crate) fn ladder(pool: &Pool) -> Vec<CapacityOption> {
    let fallback = pool.rules.ec2.as_ref().is_some_and(|ec2| ec2.on_demand_fallback);
    let sold: &[Usage] = match (pool.rules.offer.usage, fallback) {
        (Usage::Spot, true) => &[Usage::Spot, Usage::OnDemand],
        (Usage::Spot, false) => &[Usage::Spot],
        (Usage::OnDemand, _) => &[Usage::OnDemand],
    };
    let mut rungs = Vec::new();
    for usage in sold {
        for (name, micros) in TYPES {
            let hourly = Price::from_micro_dollars(if *usage == Usage::Spot { micros / 3 } else { micros });
            let spec = Spec { cpu: 2, memory_mb: 4_096 };
            for zone in ZONES {
                let offer = Offer { instance_type: name.to_owned(), usage: *usage, spec };
                rungs.push(CapacityOption { offer, zone: Some(zone.to_owned()), hourly: Some(hourly) });
            }
        }
    }
    rungs
}
