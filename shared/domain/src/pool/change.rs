//! Whether a pool may get another definition now. A machine is asked for, and ended, where its pool's backend is: while one lives, that
//! stays.

use super::{BackendKind, Pool, PoolRecord, Rules, Source};
use crate::time::Timestamp;
use std::collections::HashSet;

/// How another definition of a known pool may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolChange {
    /// It is so already.
    Nothing,
    /// The pools file has it, and so it is changed there.
    OfTheFile,
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
pub fn decide_change(known: &Pool, wanted: &Pool, used: u32) -> PoolChange {
    if known == wanted {
        return PoolChange::Nothing;
    }
    if (known.source, known.retired, wanted.source) == (Source::File, false, Source::Api) {
        return PoolChange::OfTheFile;
    }
    // By name, so that whoever adds a rule says whether a machine is found by it. All of `ec2` is for launches alone: an instance is
    // found by the tags of the installation, the pool and its launch, or by its own id. A registration knows its CI system.
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
        job_env: _,
        trusted: _,
        allow_exec: _,
        teams: _,
        checkpoints: _,
    } = &known.rules;
    let moved = Moved { from: *from, to: wanted.rules.backend };
    match (moved.from == moved.to, used) {
        (true, _) => PoolChange::AtOnce,
        (false, 0) => PoolChange::OnlyUnused(moved),
        (false, runners) => PoolChange::InUse { moved, runners },
    }
}

/// The pool as it is once the file no longer has it. Nothing, if it is so already, or the API has it by now.
pub fn retired(known: &Pool) -> Option<Pool> {
    is_left_to_the_file(known).then(|| Pool { retired: true, ..known.clone() })
}

/// Whether a pool can be deleted only by taking it out of the file.
pub fn is_left_to_the_file(known: &Pool) -> bool {
    known.source == Source::File && !known.retired
}

/// The backends that a control plane must have: those of the pools that are defined; and of pools that no longer are, or are not defined
/// here, as long as they have runners. Somebody must be able to see and end them.
pub fn needed_backends<'a>(
    defined: impl IntoIterator<Item = &'a Rules>,
    known: &[PoolRecord],
) -> HashSet<BackendKind> {
    let in_use = known.iter().filter(|record| record.used > 0).map(|record| record.pool.rules.backend);
    defined.into_iter().map(|rules| rules.backend).chain(in_use).collect()
}

/// The number of a definition after the one that was seen. It follows the clock, so that a pool which is deleted and defined again is not
/// taken for the one that it was.
pub fn next_rev(seen: u64, now: Timestamp) -> u64 {
    seen.saturating_add(1).max(now.as_millis())
}

/// Whether machines are launched as before: what was wrong with them then is no reason to refuse another change.
pub fn launches_as_before(known: &Rules, wanted: &Rules) -> bool {
    (known.backend, &known.offer, &known.ec2) == (wanted.backend, &wanted.offer, &wanted.ec2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Architecture, Clean, Ec2Rules};
    use crate::samples;
    use crate::spec::TypeGlobs;
    use std::collections::BTreeMap;

    fn rules(backend: BackendKind) -> Rules {
        Rules { backend, max: 3, ..samples::rules() }
    }

    fn pool(source: Source, retired: bool, rules: Rules) -> Pool {
        Pool { source, retired, ..samples::pool("small", rules) }
    }

    fn of_the_api(rules: Rules) -> Pool {
        pool(Source::Api, false, rules)
    }

    #[test]
    fn inv_16_another_backend_waits_for_the_last_runner() {
        let backends = [BackendKind::Local, BackendKind::Ec2, BackendKind::BareMetal];
        for (from, to) in backends.into_iter().flat_map(|from| backends.map(|to| (from, to))) {
            let moved = Moved { from, to };
            for used in [0, 1, 7] {
                let expected = match (from == to, used) {
                    (true, _) => PoolChange::AtOnce,
                    (false, 0) => PoolChange::OnlyUnused(moved),
                    (false, runners) => PoolChange::InUse { moved, runners },
                };
                let (known, wanted) = (of_the_api(rules(from)), of_the_api(Rules { max: 4, ..rules(to) }));
                assert_eq!(decide_change(&known, &wanted, used), expected, "{moved:?}, {used} used");
                assert_eq!(decide_change(&known, &known, used), PoolChange::Nothing);
            }
        }
    }

    #[test]
    fn inv_16_a_pool_that_left_the_file_has_its_backend_while_it_has_runners() {
        let known =
            |used| [PoolRecord { pool: pool(Source::File, true, rules(BackendKind::Ec2)), rev: 1, used }];
        let (local, ec2) = (BackendKind::Local, BackendKind::Ec2);
        for (used, expected) in [(0, HashSet::from([local])), (1, HashSet::from([local, ec2]))] {
            assert_eq!(needed_backends([&rules(local)], &known(used)), expected, "{used} used");
        }
        assert_eq!(needed_backends([], &known(0)), HashSet::new());
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
        let change = decide_change(&of_the_api(known.clone()), &of_the_api(wanted.clone()), 7);
        assert_eq!(change, PoolChange::AtOnce);
        assert!(!launches_as_before(&known, &wanted), "another image");
        assert!(launches_as_before(&known, &Rules { max: 1, clean: Clean::Replace, ..known.clone() }));
    }

    #[test]
    fn a_pool_of_the_file_is_changed_there() {
        let (file, api) = (Source::File, Source::Api);
        let local = || rules(BackendKind::Local);
        let larger = || Rules { max: 4, ..local() };
        for (known, wanted, expected) in [
            (pool(file, false, local()), pool(api, false, larger()), PoolChange::OfTheFile),
            (pool(file, false, local()), pool(api, false, local()), PoolChange::OfTheFile),
            (pool(file, true, local()), pool(api, false, larger()), PoolChange::AtOnce),
            (pool(file, false, local()), pool(file, false, larger()), PoolChange::AtOnce),
            (pool(api, false, local()), pool(file, false, local()), PoolChange::AtOnce),
            (pool(file, false, local()), pool(file, true, local()), PoolChange::AtOnce),
        ] {
            assert_eq!(decide_change(&known, &wanted, 1), expected, "{known:?} to {wanted:?}");
        }
    }

    #[test]
    fn only_a_pool_of_the_file_is_retired_and_only_once() {
        let local = || rules(BackendKind::Local);
        let of_file = pool(Source::File, false, local());
        assert!(retired(&of_file).is_some_and(|after| after.retired));
        assert!(is_left_to_the_file(&of_file));
        for other in [pool(Source::File, true, local()), pool(Source::Api, false, local())] {
            assert_eq!(retired(&other), None);
            assert!(!is_left_to_the_file(&other));
        }
    }

    #[test]
    fn inv_02_no_number_of_a_definition_comes_twice() {
        let (earlier, later) = (Timestamp::from_millis(1_000), Timestamp::from_millis(2_000));
        assert_eq!(next_rev(0, later), 2_000);
        assert_eq!(next_rev(2_000, later), 2_001, "twice within a moment");
        assert_eq!(next_rev(2_000, earlier), 2_001, "by a clock that is behind");
    }
}
