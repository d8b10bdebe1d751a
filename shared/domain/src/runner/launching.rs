//! A runner while its machine is asked for or on its way: by which call, and for whom that still is.

use crate::ladder::{CapacityOption, LaunchCall};
use crate::runner::{Runner, RunnerState, StateName};
use crate::time::{Threshold, Timestamp};
use std::time::Duration;

/// Those that follow on each other: a call asks for a run of its launch. Whoever stands apart is left to refresh.
pub fn run_from(from: u32, runners: &[Runner]) -> &[Runner] {
    let run = (from..).zip(runners).take_while(|(index, runner)| *index == runner.index).count();
    runners.get(..run).unwrap_or(runners)
}

/// A record of before attempts were written down has the one that its launch amounts to.
pub fn call_of(runner: &Runner) -> LaunchCall {
    let noted = match &runner.state {
        RunnerState::Created { attempt, .. } => attempt.clone(),
        RunnerState::Resetting { .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Releasing { .. }
        | RunnerState::Quarantined { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => None,
    };
    noted.unwrap_or_else(|| LaunchCall::first(1, CapacityOption::only(runner.offer.clone()), None))
}

pub fn is_unlaunched(runner: &Runner) -> bool {
    matches!(runner.state, RunnerState::Created { launched_at: None, .. })
}

/// Whether the machine is there and will be ready for whoever takes it: its claim ended before it came, or it was to be a spare. One that
/// may have had a job must be cleaned first, and so must a machine that is kept.
pub fn is_on_its_way_for_nobody(runner: &Runner) -> bool {
    let coming = matches!(runner.state, RunnerState::Created { hold: None, launched_at: Some(_), .. });
    coming && !runner.used && !runner.kept && !runner.draining
}

/// The same, while it still has half of its time to come: one that hangs is not handed on from claim to claim.
pub fn can_be_taken_on_its_way(runner: &Runner, now: Timestamp) -> bool {
    let late = runner.threshold.is_some_and(|Threshold(end)| {
        now.since(runner.entered_at).saturating_mul(2) >= end.since(runner.entered_at)
    });
    is_on_its_way_for_nobody(runner) && !late
}

/// Whether a call for this attempt is still for this runner: it is on its way by it, or came by it and lives.
pub fn is_of(runner: &Runner, attempt: &LaunchCall) -> bool {
    match runner.state.name() {
        StateName::Terminating | StateName::Terminated => false,
        StateName::Created => call_of(runner).number == attempt.number,
        StateName::Resetting
        | StateName::Idle
        | StateName::Claimed
        | StateName::Running
        | StateName::Releasing
        | StateName::Quarantined => true,
    }
}

/// Whether the call that these runners wait for may have made machines that the provider does not show yet. It was made until the first of
/// them was over, and not after that; what it made is shown `shown_within` later.
pub fn may_be_unseen<'a>(
    called_for: impl IntoIterator<Item = &'a Runner>,
    shown_within: Duration,
    now: Timestamp,
) -> bool {
    let over_since = |runner: &Runner| match runner.state.name() {
        StateName::Terminating | StateName::Terminated => Some(runner.entered_at),
        StateName::Created
        | StateName::Resetting
        | StateName::Idle
        | StateName::Claimed
        | StateName::Running
        | StateName::Releasing
        | StateName::Quarantined => None,
    };
    let over = called_for.into_iter().filter_map(over_since).min();
    over.is_some_and(|over| now.since(over) < shown_within)
}

#[cfg(test)]
pub(super) mod samples {
    use super::*;
    use crate::ids::{LaunchId, RunnerId};
    use crate::runner::NewRunner;
    use crate::spec::{Offer, Usage};
    use crate::time::{Threshold, Timestamp};

    /// One of a launch of four, whose time to come is over after a millisecond.
    pub(in crate::runner) fn runner(index: u32, number: u32, launched: bool) -> Runner {
        let launch = LaunchId::parse("l-1").unwrap();
        let instance_type = "c6i.large".to_owned();
        let offer = Offer { instance_type, usage: Usage::Spot, ..crate::samples::offer() };
        let call = LaunchCall::first(4, CapacityOption::only(offer.clone()), None);
        let new = NewRunner {
            attempt: Some(LaunchCall { number, ..call }),
            index,
            offer,
            threshold: Threshold(Timestamp::from_millis(1)),
            ..crate::samples::new_runner(
                RunnerId::of_launch(&launch, index).as_str(),
                Timestamp::from_millis(0),
            )
        };
        let mut runner = Runner::intent(new, Timestamp::from_millis(0));
        if let RunnerState::Created { launched_at, .. } = &mut runner.state {
            *launched_at = launched.then_some(Timestamp::from_millis(0));
        }
        runner
    }
}

#[cfg(test)]
mod tests {
    use super::samples::runner;
    use super::*;

    #[test]
    fn a_call_is_for_those_that_follow_on_each_other() {
        let all: Vec<Runner> = [2, 3, 5].map(|index| runner(index, 1, false)).into();
        let run: Vec<u32> = run_from(2, &all).iter().map(|runner| runner.index).collect();
        assert_eq!(run, [2, 3]);
        assert!(run_from(9, &all).is_empty());
    }

    #[test]
    fn inv_15_a_repeated_call_is_for_who_waits_for_it_or_came_by_it_and_lives() {
        let attempt = call_of(&runner(0, 1, false));
        assert!(is_of(&runner(0, 1, false), &attempt) && is_of(&runner(1, 1, true), &attempt));
        assert!(!is_of(&runner(0, 2, false), &attempt), "it waits for the next call already");
        let state = |state| Runner { state, ..runner(0, 1, true) };
        assert!(is_of(&state(RunnerState::Idle), &attempt));
        let why = "over".to_owned();
        assert!(!is_of(&state(RunnerState::Terminating { why: why.clone(), told: 1 }), &attempt));
        assert!(!is_of(&state(RunnerState::Terminated { why }), &attempt));
        assert!(is_unlaunched(&runner(0, 1, false)) && !is_unlaunched(&runner(0, 1, true)));
    }

    #[test]
    fn inv_17_what_a_call_made_may_be_unseen_for_a_while_after_the_last_time_that_it_was_made() {
        let (at, within) = (Timestamp::from_millis, Duration::from_millis(100));
        let waits = runner(1, 1, false);
        assert!(!may_be_unseen([&waits], within, at(0)), "the call can be made again, and tells");
        let ending = RunnerState::Terminating { why: "removed".to_owned(), told: 1 };
        let over = Runner { state: ending, entered_at: at(50), ..runner(0, 1, false) };
        assert!(may_be_unseen([&over, &waits], within, at(149)));
        assert!(!may_be_unseen([&over, &waits], within, at(150)));
        assert!(!may_be_unseen([&over, &waits], Duration::ZERO, at(50)), "it shows everything at once");
    }

    #[test]
    fn inv_13_only_what_nobody_had_is_taken_on_its_way() {
        let at = Timestamp::from_millis;
        let coming = Runner { threshold: Some(Threshold(at(10))), ..runner(0, 1, true) };
        assert!(can_be_taken_on_its_way(&coming, at(0)) && can_be_taken_on_its_way(&coming, at(4)));
        assert!(!can_be_taken_on_its_way(&coming, at(5)), "it may hang");
        assert!(is_on_its_way_for_nobody(&coming));
        for other in [
            runner(0, 1, false),
            Runner { used: true, ..coming.clone() },
            Runner { kept: true, ..coming.clone() },
            Runner { draining: true, ..coming.clone() },
            Runner { state: RunnerState::Idle, ..coming.clone() },
        ] {
            assert!(
                !is_on_its_way_for_nobody(&other) && !can_be_taken_on_its_way(&other, at(0)),
                "{other:?}"
            );
        }
    }
}
