//! Which types, zones and ways of selling make a pool's ladder, and in which order. Pure: what EC2 has is an argument.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use motorpool_domain::ladder::{CapacityOption, Price};
use motorpool_domain::pool::Ec2Rules;
use motorpool_domain::spec::{Offer, Spec, Usage, Want};

use crate::prices;

/// An instance type, as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) name: String,
    pub(crate) spec: Spec,
    pub(crate) sold: Vec<Usage>,
}

/// A zone that the pool has a subnet in, with what is to be had there.
#[derive(Debug, Clone)]
pub(crate) struct ZoneOffers {
    pub(crate) name: String,
    pub(crate) offered: Arc<HashSet<String>>,
    /// Empty for a pool that has no use for spot prices.
    pub(crate) spot_prices: Arc<HashMap<String, Price>>,
}

/// A longer ladder would only be walked through while everything is empty; by then it is better to wait.
const MOST_RUNGS: usize = 40;
/// How many rungs are kept for on-demand, where that comes after spot.
const MOST_BEHIND_SPOT: usize = 12;

/// What is wanted of all that the pool may launch: spot before on-demand, the cheapest first in each. Of equal prices, by type, and then in the order of the pool's subnets.
pub(crate) fn ladder(
    offer: &Offer,
    rules: &Ec2Rules,
    want: &Want,
    types: &[Type],
    zones: &[ZoneOffers],
) -> Vec<CapacityOption> {
    let fit: Vec<&Type> = types
        .iter()
        .filter(|kind| kind.spec.cpu >= offer.spec.cpu && kind.spec.memory_mb >= offer.spec.memory_mb)
        .filter(|kind| rules.instance_types.matches(&kind.name))
        .collect();
    // What is not wanted must not take the place of what is.
    let wanted = |usage| {
        let sold = rungs_sold(usage, &fit, zones).into_iter();
        sold.filter(|rung| want.fits(&rung.offer)).collect()
    };
    let rungs = |usage, most| cheapest(wanted(usage), zones, most);
    match (offer.usage, rules.on_demand_fallback) {
        (Usage::OnDemand, _) => rungs(Usage::OnDemand, MOST_RUNGS),
        (Usage::Spot, false) => rungs(Usage::Spot, MOST_RUNGS),
        (Usage::Spot, true) => {
            let mut both = rungs(Usage::Spot, MOST_RUNGS - MOST_BEHIND_SPOT);
            both.extend(rungs(Usage::OnDemand, MOST_BEHIND_SPOT));
            both
        }
    }
}

/// What is sold in this way, in the order of the ladder.
fn rungs_sold(usage: Usage, types: &[&Type], zones: &[ZoneOffers]) -> Vec<CapacityOption> {
    let mut rungs: Vec<(Price, &Type, usize, CapacityOption)> = Vec::new();
    for kind in types.iter().filter(|kind| kind.sold.contains(&usage)) {
        let on_demand = prices::on_demand(&kind.name, kind.spec);
        let offer = Offer { instance_type: kind.name.clone(), usage, spec: kind.spec };
        for (order, zone) in zones.iter().enumerate().filter(|(_, zone)| zone.offered.contains(&kind.name)) {
            let hourly = match usage {
                // A type without a history of spot prices costs no more than on demand.
                Usage::Spot => zone.spot_prices.get(&kind.name).copied().unwrap_or(on_demand),
                Usage::OnDemand => on_demand,
            };
            let rung =
                CapacityOption { offer: offer.clone(), zone: Some(zone.name.clone()), hourly: Some(hourly) };
            rungs.push((hourly, kind, order, rung));
        }
    }
    // Of two at the same price the smaller one: nobody needs more than was asked for.
    rungs.sort_by_key(|(hourly, kind, order, _)| {
        let Type { name, spec, .. } = kind;
        (*hourly, spec.cpu, spec.memory_mb, name.clone(), *order)
    });
    rungs.into_iter().map(|(_, _, _, rung)| rung).collect()
}

/// The first `most`, but of no zone more than its share while another has some left: when the cheapest zone is empty, its rungs are no help.
fn cheapest(rungs: Vec<CapacityOption>, zones: &[ZoneOffers], most: usize) -> Vec<CapacityOption> {
    let share = most.div_ceil(zones.len().max(1));
    let mut taken: BTreeMap<Option<String>, usize> = BTreeMap::new();
    let in_share: Vec<bool> = rungs
        .iter()
        .map(|rung| {
            let count = taken.entry(rung.zone.clone()).or_default();
            *count += 1;
            *count <= share
        })
        .collect();
    let shared = in_share.iter().filter(|is| **is).count().min(most);
    let (mut of_share, mut beyond) = (shared, most - shared);
    let mut kept = Vec::with_capacity(most);
    for (rung, in_share) in rungs.into_iter().zip(in_share) {
        let left = if in_share { &mut of_share } else { &mut beyond };
        if *left > 0 {
            *left -= 1;
            kept.push(rung);
        }
    }
    kept
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use motorpool_domain::pool::Architecture;
    use motorpool_domain::spec::TypeGlobs;

    pub(crate) fn rules(globs: &str, on_demand_fallback: bool) -> Ec2Rules {
        Ec2Rules {
            instance_types: TypeGlobs::parse(globs).unwrap(),
            architecture: Architecture::X86_64,
            on_demand_fallback,
            image: "ami-0123456789abcdef0".to_owned(),
            subnets: Vec::new(),
            security_groups: Vec::new(),
            disk_gb: 50,
            instance_profile: None,
            tags: BTreeMap::new(),
            agent: None,
            runner_program: None,
        }
    }

    fn offer(usage: Usage) -> Offer {
        Offer { instance_type: "ec2".to_owned(), usage, spec: Spec { cpu: 2, memory_mb: 4_096 } }
    }

    fn kind(name: &str, cpu: u32, memory_mb: u64) -> Type {
        let sold = vec![Usage::OnDemand, Usage::Spot];
        Type { name: name.to_owned(), spec: Spec { cpu, memory_mb }, sold }
    }

    fn types() -> Vec<Type> {
        vec![
            kind("c6i.medium", 1, 2_048),
            kind("c6i.large", 2, 4_096),
            kind("c6i.xlarge", 4, 8_192),
            kind("m6i.large", 2, 8_192),
            kind("r6i.large", 2, 16_384),
        ]
    }

    fn zone(name: &str, spot: &[(&str, u64)]) -> ZoneOffers {
        let price = |(name, micros): &(&str, u64)| ((*name).to_owned(), Price::from_micro_dollars(*micros));
        ZoneOffers {
            name: name.to_owned(),
            offered: Arc::new(types().into_iter().map(|kind| kind.name).collect()),
            spot_prices: Arc::new(spot.iter().map(price).collect()),
        }
    }

    fn told(rungs: &[CapacityOption]) -> Vec<String> {
        rungs.iter().map(CapacityOption::in_words).collect()
    }

    #[test]
    fn spot_comes_before_on_demand_and_the_cheapest_first() {
        let zones = [
            zone("b", &[("c6i.large", 30_000), ("m6i.large", 35_000), ("c6i.xlarge", 60_000)]),
            zone("a", &[("c6i.large", 40_000), ("m6i.large", 35_000)]),
        ];
        let ladder = ladder(&offer(Usage::Spot), &rules("c* m*", true), &Want::default(), &types(), &zones);
        assert_eq!(
            told(&ladder),
            [
                "c6i.large (spot) in b",
                "m6i.large (spot) in b",
                "m6i.large (spot) in a",
                "c6i.large (spot) in a",
                "c6i.xlarge (spot) in b",
                "c6i.xlarge (spot) in a",
                "c6i.large (on-demand) in b",
                "c6i.large (on-demand) in a",
                "m6i.large (on-demand) in b",
                "m6i.large (on-demand) in a",
                "c6i.xlarge (on-demand) in b",
                "c6i.xlarge (on-demand) in a",
            ]
        );
        let unpriced = ladder.get(5).and_then(|rung| rung.hourly);
        assert_eq!(unpriced, Some(Price::from_micro_dollars(170_000)), "no more than on demand");
    }

    #[test]
    fn on_demand_is_only_what_the_pool_allows() {
        let zones = [zone("a", &[])];
        let all = |usage, fallback| {
            ladder(&offer(usage), &rules("*", fallback), &Want::default(), &types(), &zones)
        };
        let only = |rungs: &[CapacityOption], usage| rungs.iter().all(|rung| rung.offer.usage == usage);
        assert!(only(&all(Usage::Spot, false), Usage::Spot));
        assert!(only(&all(Usage::OnDemand, true), Usage::OnDemand));
        assert_eq!(all(Usage::OnDemand, false).len(), 4, "the one that is too small is left out");
    }

    #[test]
    fn a_zone_without_the_type_has_no_rung_for_it() {
        let mut bare = zone("b", &[]);
        bare.offered = Arc::new(HashSet::from(["m6i.large".to_owned()]));
        let ladder = ladder(
            &offer(Usage::OnDemand),
            &rules("c6i.large m*", false),
            &Want::default(),
            &types(),
            &[bare],
        );
        assert_eq!(told(&ladder), ["m6i.large (on-demand) in b"]);
    }

    #[test]
    fn fault_22_a_long_ladder_keeps_rungs_in_every_zone() {
        let many: Vec<Type> = (0..60).map(|n| kind(&format!("c{n}.large"), 2, 4_096)).collect();
        let names: HashSet<String> = many.iter().map(|kind| kind.name.clone()).collect();
        let zone = |name: &str, micros| ZoneOffers {
            name: name.to_owned(),
            offered: Arc::new(names.clone()),
            spot_prices: Arc::new(
                names.iter().map(|name| (name.clone(), Price::from_micro_dollars(micros))).collect(),
            ),
        };
        let zones = [zone("a", 10_000), zone("b", 20_000), zone("c", 30_000)];
        let ladder = ladder(&offer(Usage::Spot), &rules("*", true), &Want::default(), &many, &zones);
        assert_eq!(ladder.len(), MOST_RUNGS);
        for zone in ["a", "b", "c"] {
            let here = |usage| {
                let is =
                    |rung: &&CapacityOption| rung.zone.as_deref() == Some(zone) && rung.offer.usage == usage;
                ladder.iter().filter(is).count()
            };
            assert!(here(Usage::Spot) >= 8 && here(Usage::OnDemand) == 4, "{zone}: {:#?}", told(&ladder));
        }
        let spot: Vec<Option<Price>> =
            ladder.iter().filter(|rung| rung.offer.usage == Usage::Spot).map(|rung| rung.hourly).collect();
        assert!(spot.is_sorted());
    }

    #[test]
    fn what_is_wanted_is_there_though_many_are_cheaper() {
        let mut many: Vec<Type> = (0..60).map(|n| kind(&format!("c{n}.large"), 2, 4_096)).collect();
        many.push(kind("m7.4xlarge", 16, 65_536));
        let offered: HashSet<String> = many.iter().map(|kind| kind.name.clone()).collect();
        let zone =
            ZoneOffers { name: "a".to_owned(), offered: Arc::new(offered), spot_prices: Arc::default() };
        let wanted = |want: &Want| {
            told(&ladder(&offer(Usage::Spot), &rules("*", true), want, &many, std::slice::from_ref(&zone)))
        };
        assert!(!wanted(&Want::default()).iter().any(|rung| rung.contains("m7")));
        let types = Some(TypeGlobs::parse("m7.*").unwrap());
        let by_type = Want { instance_types: types, ..Want::default() };
        assert_eq!(wanted(&by_type), ["m7.4xlarge (spot) in a", "m7.4xlarge (on-demand) in a"]);
        let spec = Some(Spec { cpu: 4, memory_mb: 8_192 });
        let by_size = Want { spec, usage: Some(Usage::OnDemand), ..Want::default() };
        assert_eq!(wanted(&by_size), ["m7.4xlarge (on-demand) in a"]);
    }

    #[test]
    fn what_one_zone_leaves_goes_to_the_others() {
        let many: Vec<Type> = (0..60).map(|n| kind(&format!("c{n}.large"), 2, 4_096)).collect();
        let all: HashSet<String> = many.iter().map(|kind| kind.name.clone()).collect();
        let zone = |name: &str, offered: HashSet<String>| ZoneOffers {
            name: name.to_owned(),
            offered: Arc::new(offered),
            spot_prices: Arc::default(),
        };
        let zones = [zone("a", all), zone("b", HashSet::from(["c7.large".to_owned()]))];
        let ladder = ladder(&offer(Usage::OnDemand), &rules("*", false), &Want::default(), &many, &zones);
        assert_eq!(ladder.len(), MOST_RUNGS);
        assert_eq!(ladder.iter().filter(|rung| rung.zone.as_deref() == Some("b")).count(), 1);
    }
}
