//! Whether a pool may get other rules now. A machine is asked for, and ended, where its pool's backend is: while one lives, that stays.

use super::{BackendKind, Rules};

/// How new rules for a known pool may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RulesChange {
    /// Whatever runners it has: they go on by the new rules, or are none the worse for them.
    AtOnce,
    /// Only while no slot is used: the write itself must see to it.
    OnlyUnused(Moved),
    /// Runners stand in the way.
    InUse { moved: Moved, runners: u32 },
}

/// A pool whose machines are to come from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    pub from: BackendKind,
    pub to: BackendKind,
}

/// `used`: the slots of the pool in use, launch intents among them: each may have a machine.
pub fn decide_change(known: &Rules, wanted: &Rules, used: u32) -> RulesChange {
    // By name, so that whoever adds a rule says whether a machine is found by it. All of `ec2` is for launches alone: an instance is
    // found by the tags of the installation, the pool and its launch, or by its own id.
    let Rules {
        backend: from,
        dispatch: _,
        clean: _,
        max: _,
        min_idle: _,
        limits: _,
        offer: _,
        commands: _,
        ec2: _,
        ci: _,
    } = known;
    let moved = Moved { from: *from, to: wanted.backend };
    match (moved.from == moved.to, used) {
        (true, _) => RulesChange::AtOnce,
        (false, 0) => RulesChange::OnlyUnused(moved),
        (false, runners) => RulesChange::InUse { moved, runners },
    }
}

/// Whether machines are launched as before: what was wrong with them then is no reason to refuse another change.
pub fn launches_as_before(known: &Rules, wanted: &Rules) -> bool {
    (known.backend, &known.offer, &known.ec2) == (wanted.backend, &wanted.offer, &wanted.ec2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Architecture, Clean, Commands, Dispatch, Ec2Rules, Limits};
    use crate::spec::{Offer, Spec, TypeGlobs, Usage};
    use std::collections::BTreeMap;

    fn rules(backend: BackendKind) -> Rules {
        Rules {
            backend,
            dispatch: Dispatch::Claim,
            clean: Clean::Cleanup,
            max: 3,
            min_idle: 0,
            limits: Limits::default(),
            offer: Offer {
                instance_type: "any".to_owned(),
                usage: Usage::OnDemand,
                spec: Spec { cpu: 1, memory_mb: 1_024 },
            },
            commands: Commands::default(),
            ec2: None,
            ci: None,
        }
    }

    #[test]
    fn inv_16_another_backend_waits_for_the_last_runner() {
        let backends = [BackendKind::Local, BackendKind::Ec2, BackendKind::BareMetal];
        for (from, to) in backends.into_iter().flat_map(|from| backends.map(|to| (from, to))) {
            let moved = Moved { from, to };
            for used in [0, 1, 7] {
                let expected = match (from == to, used) {
                    (true, _) => RulesChange::AtOnce,
                    (false, 0) => RulesChange::OnlyUnused(moved),
                    (false, runners) => RulesChange::InUse { moved, runners },
                };
                assert_eq!(decide_change(&rules(from), &rules(to), used), expected, "{moved:?}, {used} used");
            }
        }
    }

    #[test]
    fn what_a_machine_is_launched_with_may_change_under_it() {
        let ec2 = |image: &str, subnet: &str| Rules {
            ec2: Some(Ec2Rules {
                instance_types: TypeGlobs::general(),
                architecture: Architecture::X86_64,
                on_demand_fallback: false,
                image: image.to_owned(),
                subnets: vec![subnet.to_owned()],
                security_groups: vec!["sg-01234567".to_owned()],
                disk_gb: 50,
                instance_profile: None,
                tags: BTreeMap::new(),
                agent: None,
                runner_program: None,
            }),
            ..rules(BackendKind::Ec2)
        };
        let known = ec2("ami-01234567", "subnet-01234567");
        let wanted = Rules { max: 1, clean: Clean::Replace, ..ec2("ami-89abcdef", "subnet-89abcdef") };
        assert_eq!(decide_change(&known, &wanted, 7), RulesChange::AtOnce);
        assert!(!launches_as_before(&known, &wanted), "another image");
        assert!(launches_as_before(&known, &Rules { max: 1, clean: Clean::Replace, ..known.clone() }));
    }
}
