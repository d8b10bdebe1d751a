//! Why no instance type is left for a pool: which of its settings excluded the last. Pure: what EC2 has is an argument.

use motorpool_domain::pool::{Architecture, Ec2Rules, RuleError};
use motorpool_domain::spec::{Offer, Spec};

use crate::ladder::{Type, ZoneOffers};

/// How many types are named where any would do.
const NAMED: usize = 3;

/// For a pool whose ladder is empty. `types` are those of its architecture, `others` those of another one.
pub(crate) fn explain_no_match(
    offer: &Offer,
    rules: &Ec2Rules,
    types: &[Type],
    zones: &[ZoneOffers],
    others: (Architecture, &[Type]),
) -> RuleError {
    let Ec2Rules { instance_types: globs, architecture, .. } = rules;
    let (globs_text, architecture) = (globs.as_str(), architecture.name());
    let wrong = |field, problem| RuleError { field, problem };
    let allowed: Vec<&Type> = types.iter().filter(|kind| globs.matches(&kind.name)).collect();
    let large: Vec<&Type> = types.iter().filter(|kind| is_enough(kind.spec, offer.spec)).collect();
    let fit: Vec<&Type> = allowed.iter().copied().filter(|kind| is_enough(kind.spec, offer.spec)).collect();

    if allowed.is_empty() {
        let (other, others) = others;
        if others.iter().any(|kind| globs.matches(&kind.name)) {
            let other = other.name();
            return wrong(
                "architecture",
                format!("is {architecture}, and the types like '{globs_text}' are all {other}"),
            );
        }
        return wrong("instance_types", format!("no type for {architecture} here is like '{globs_text}'"));
    }
    if fit.is_empty() {
        let Spec { cpu, memory_mb } = offer.spec;
        if !large.is_empty() {
            let would_do = names(&large);
            return wrong(
                "instance_types",
                format!(
                    "no type like '{globs_text}' has {cpu} CPUs and {memory_mb} MB; {would_do} would do, if it were allowed"
                ),
            );
        }
        let most_cpu = types.iter().map(|kind| kind.spec.cpu).max().unwrap_or(0);
        if most_cpu < cpu {
            return wrong(
                "cpu",
                format!("is {cpu}, and no type for {architecture} here has more than {most_cpu}"),
            );
        }
        let most_memory = types.iter().map(|kind| kind.spec.memory_mb).max().unwrap_or(0);
        if most_memory < memory_mb {
            return wrong(
                "memory_mb",
                format!("is {memory_mb}, and no type for {architecture} here has more than {most_memory}"),
            );
        }
        let enough_cpu = types.iter().filter(|kind| kind.spec.cpu >= cpu);
        let most_beside = enough_cpu.map(|kind| kind.spec.memory_mb).max().unwrap_or(0);
        return wrong(
            "memory_mb",
            format!(
                "is {memory_mb}, and no type for {architecture} with {cpu} CPUs here has more than {most_beside}"
            ),
        );
    }
    let usage = offer.usage.name();
    let is_here = |kind: &&&Type| zones.iter().any(|zone| zone.offered.contains(&kind.name));
    let here: Vec<&Type> = fit.iter().filter(is_here).copied().collect();
    if here.is_empty() {
        let names_of_zones: Vec<&str> = zones.iter().map(|zone| zone.name.as_str()).collect();
        let (zones, fit) = (names_of_zones.join(", "), names(&fit));
        return wrong(
            "subnets",
            format!("are in {zones}, where none of the types that fit is offered ({fit})"),
        );
    }
    wrong("usage", format!("is {usage}, and what fits is not sold so ({})", names(&here)))
}

fn is_enough(has: Spec, wanted: Spec) -> bool {
    has.cpu >= wanted.cpu && has.memory_mb >= wanted.memory_mb
}

/// The names of the smallest types.
fn names(types: &[&Type]) -> String {
    let mut sorted: Vec<&Type> = types.to_vec();
    sorted.sort_by_key(|kind| (kind.spec.cpu, kind.spec.memory_mb, kind.name.clone()));
    let named: Vec<&str> = sorted.iter().take(NAMED).map(|kind| kind.name.as_str()).collect();
    let more = if sorted.len() > NAMED { ", …" } else { "" };
    format!("{}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::tests::rules;
    use motorpool_domain::spec::Usage;
    use std::collections::HashSet;
    use std::sync::Arc;

    /// Only what the list of the fake EC2 has no case for: the tests over the fake show the rest.
    #[test]
    fn a_lack_of_memory_beside_the_cpus_and_of_a_way_to_buy_it_are_told() {
        let kind = |name: &str, cpu, memory_mb| Type {
            name: name.to_owned(),
            spec: Spec { cpu, memory_mb },
            sold: vec![Usage::OnDemand],
        };
        let types = [kind("many.cpus", 64, 1_024), kind("much.memory", 2, 65_536)];
        let offered: HashSet<String> = types.iter().map(|kind| kind.name.clone()).collect();
        let zone =
            ZoneOffers { name: "a".to_owned(), offered: Arc::new(offered), spot_prices: Arc::default() };
        let told = |cpu, memory_mb| {
            let spec = Spec { cpu, memory_mb };
            let offer = Offer { instance_type: "ec2".to_owned(), usage: Usage::Spot, spec };
            let zones = std::slice::from_ref(&zone);
            explain_no_match(&offer, &rules("*", false), &types, zones, (Architecture::Arm64, &[]))
                .to_string()
        };
        assert_eq!(
            told(64, 65_536),
            "memory_mb: is 65536, and no type for x86_64 with 64 CPUs here has more than 1024"
        );
        assert_eq!(told(2, 2_048), "usage: is spot, and what fits is not sold so (much.memory)");
    }
}
