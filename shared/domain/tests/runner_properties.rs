//! Properties of the runner's state machine, over stories that take every step of the state table.

mod samples;
mod stories;

use motorpool_domain::Epoch;
use motorpool_domain::runner::{Decision, Holder, Presence, Runner, RunnerEvent, RunnerState, StateName};
use std::cell::RefCell;
use std::collections::BTreeSet;
use stories::{Outcome, Step, Taken, in_every_story};

/// The steps that changed the record, with the record after each.
fn changes(story: &[Step]) -> impl Iterator<Item = (&Step, &Runner)> {
    story.iter().filter_map(|step| Some((step, step.after()?)))
}

fn holder(runner: &Runner) -> Option<&Holder> {
    runner.holder()
}

/// Whose jobs can have run on it: its agent is there, and registers it for whoever holds it.
fn may_use_it(runner: &Runner) -> Option<&Holder> {
    holder(runner).filter(|_| runner.credential.is_some())
}

#[test]
fn the_stories_take_every_step_of_the_state_table() {
    let taken = RefCell::new(Taken::default());
    in_every_story(&[], |story, _| taken.borrow_mut().count(story));
    taken.into_inner().must_be_the_whole_table();
}

#[test]
fn inv_01_epoch_and_rank_only_rise() {
    in_every_story(&[], |story, _| {
        for (step, after) in changes(story) {
            let rank = |runner: &Runner| (runner.epoch, runner.state.name().rank());
            assert!(rank(&step.before) <= rank(after), "{step:?}");
            assert_eq!(after.rev, step.before.rev + 1, "{step:?}");
        }
    });
}

#[test]
fn inv_01_terminated_absorbs() {
    in_every_story(&["an event after the end"], |story, reached| {
        for step in story.iter().filter(|step| step.before.state.name() == StateName::Terminated) {
            reached.case("an event after the end");
            assert_eq!(step.after(), None, "{step:?}");
        }
    });
}

#[test]
fn inv_01_the_epoch_rises_only_on_entering_resetting() {
    in_every_story(&["the third epoch of a story"], |story, reached| {
        let first = story.first().map_or(Epoch(0), |step| step.before.epoch);
        for (step, after) in changes(story) {
            let before = &step.before;
            let entered =
                after.state.name() == StateName::Resetting && before.state.name() != StateName::Resetting;
            assert_eq!(after.epoch, if entered { before.epoch.next() } else { before.epoch }, "{step:?}");
            if entered && after.epoch == first.next().next() {
                reached.case("the third epoch of a story");
            }
        }
    });
}

#[test]
fn inv_02_what_was_decided_for_one_holder_is_void_for_another() {
    let cases = ["it came for another holder", "it came late for the same holder"];
    in_every_story(&cases, |story, reached| {
        for step in story.iter().filter(|step| is_its_holders(&step.event) && step.read != step.before) {
            if holder(&step.read) != holder(&step.before) {
                reached.case("it came for another holder");
                assert_eq!(step.outcome, Outcome::Void, "{step:?}");
            } else if step.after().is_some() {
                reached.case("it came late for the same holder");
            }
        }
    });
}

/// Events that are about who has the runner.
fn is_its_holders(event: &RunnerEvent) -> bool {
    use RunnerEvent as E;
    matches!(
        event,
        E::Ready { .. }
            | E::Registered { .. }
            | E::Unhealthy { .. }
            | E::TimeBegins { .. }
            | E::Release { .. }
            | E::Deregistered
            | E::RegistrationIssued { .. }
    )
}

#[test]
fn inv_03_a_runner_has_one_holder_at_a_time() {
    let cases = ["taken from the pool", "taken on its way", "wanted while another holds it"];
    in_every_story(&cases, |story, reached| {
        for step in story {
            let RunnerEvent::Taken { hold } = &step.event else { continue };
            if holder(&step.before).is_some_and(|holder| *holder != hold.holder) {
                reached.case("wanted while another holds it");
                assert_eq!(step.after(), None, "{step:?}");
            }
        }
        for (step, after) in changes(story) {
            let (had, Some(has)) = (holder(&step.before), holder(after)) else { continue };
            if let Some(had) = had {
                assert_eq!(had, has, "{step:?}");
                continue;
            }
            let RunnerEvent::Taken { hold } = &step.event else { panic!("nobody took it: {step:?}") };
            assert_eq!(&hold.holder, has, "{step:?}");
            match step.before.state.name() {
                StateName::Idle => reached.case("taken from the pool"),
                StateName::Created => reached.case("taken on its way"),
                StateName::Resetting
                | StateName::Claimed
                | StateName::Running
                | StateName::Releasing
                | StateName::Quarantined
                | StateName::Terminating
                | StateName::Terminated => panic!("it is not free: {step:?}"),
            }
        }
    });
}

#[test]
fn inv_03_only_one_holder_in_an_epoch_can_have_used_it() {
    let cases = ["two holders in an epoch", "another user in another epoch"];
    in_every_story(&cases, |story, reached| {
        let (mut epoch, mut holders, mut users) = (Epoch(0), BTreeSet::new(), BTreeSet::new());
        let mut last_user = None;
        for (step, after) in changes(story) {
            for runner in [&step.before, after] {
                if runner.epoch != epoch {
                    epoch = runner.epoch;
                    holders.clear();
                    users.clear();
                }
                if holders.len() < 2 && holder(runner).is_some_and(|claim| holders.insert(claim)) {
                    let two = holders.len() == 2;
                    two.then(|| reached.case("two holders in an epoch"));
                }
                let Some(user) = may_use_it(runner) else { continue };
                users.insert(user);
                assert_eq!(users.len(), 1, "{users:?} in {epoch:?}: {step:?}");
                let another = last_user.replace(user).is_some_and(|last| last != user);
                another.then(|| reached.case("another user in another epoch"));
            }
        }
    });
}

/// What is on a machine, as far as anybody can know.
#[derive(Debug, PartialEq, Eq)]
enum Dirt<'a> {
    Clean,
    /// Jobs of this claim can have run since it was clean.
    Of(&'a Holder),
    /// It is an operator's, or its past is not in the story.
    Unknown,
}

fn dirt_at_first(runner: &Runner) -> Dirt<'_> {
    if let Some(user) = may_use_it(runner) {
        return Dirt::Of(user);
    }
    match runner.state.name() {
        StateName::Idle => Dirt::Clean,
        StateName::Created if !runner.kept => Dirt::Clean,
        StateName::Created
        | StateName::Resetting
        | StateName::Claimed
        | StateName::Running
        | StateName::Releasing
        | StateName::Quarantined
        | StateName::Terminating
        | StateName::Terminated => Dirt::Unknown,
    }
}

#[test]
fn inv_13_nothing_is_idle_or_starts_a_job_while_its_clean_step_is_unproven() {
    let cases =
        ["idle as it is new", "idle after a use", "a job on a clean machine", "used before it was ready"];
    in_every_story(&cases, |story, reached| {
        let Some(first) = story.first() else { return };
        let mut dirt = dirt_at_first(&first.before);
        for (step, after) in changes(story) {
            if let Some(user) = may_use_it(&step.before) {
                dirt = Dirt::Of(user);
            }
            let entered = |state: StateName| after.state.name() == state && step.before.state.name() != state;
            if entered(StateName::Idle) {
                if matches!(step.event, RunnerEvent::CleanProven { .. }) {
                    matches!(dirt, Dirt::Of(_)).then(|| reached.case("idle after a use"));
                    dirt = Dirt::Clean;
                } else {
                    assert!(matches!(step.event, RunnerEvent::Ready { .. }), "{step:?}");
                    reached.case("idle as it is new");
                }
                assert_eq!(dirt, Dirt::Clean, "{step:?}");
                assert_eq!(after.proof.as_ref().map(|proof| proof.at), Some(step.now), "{step:?}");
            }
            if entered(StateName::Running) {
                let own = holder(after).is_some_and(|claim| dirt == Dirt::Of(claim));
                assert!(own || dirt == Dirt::Clean, "{dirt:?} is on it: {step:?}");
                after.proof.is_some().then(|| reached.case("a job on a clean machine"));
            }
            if entered(StateName::Resetting) {
                assert_eq!(after.proof, None, "{step:?}");
                let unready = step.before.state.name() == StateName::Created && step.before.used;
                unready.then(|| reached.case("used before it was ready"));
            }
        }
    });
}

#[test]
fn inv_14_a_held_runner_is_not_reaped_while_its_threshold_lies_ahead() {
    let cases = ["refresh looks while it runs", "it is silent while it runs"];
    in_every_story(&cases, |story, reached| {
        for step in story.iter().filter(|step| holder(&step.before).is_some() && !step.late()) {
            let runs = step.before.state.name() == StateName::Running;
            let case = if matches!(step.event, RunnerEvent::ThresholdPassed { .. }) {
                "refresh looks while it runs"
            } else if is_silent_but_not_gone(&step.event) {
                "it is silent while it runs"
            } else {
                continue;
            };
            runs.then(|| reached.case(case));
            assert_eq!(step.after(), None, "{step:?}");
        }
    });
}

fn is_silent_but_not_gone(event: &RunnerEvent) -> bool {
    matches!(event, RunnerEvent::Silent { presence: Presence::There | Presence::Unknown })
}

fn is_gone(event: &RunnerEvent) -> bool {
    matches!(event, RunnerEvent::ProviderGone | RunnerEvent::Silent { presence: Presence::Gone })
}

#[test]
fn inv_14_the_intent_to_terminate_comes_before_the_end_of_a_machine_that_is_there() {
    let cases = ["ended as it was meant to", "found gone", "never launched"];
    in_every_story(&cases, |story, reached| {
        for (step, after) in changes(story) {
            if after.state.name() != StateName::Terminated {
                continue;
            }
            let unlaunched = matches!(step.before.state, RunnerState::Created { launched_at: None, .. });
            let case = if is_gone(&step.event) {
                let meant = step.before.state.name() == StateName::Terminating;
                if meant { "ended as it was meant to" } else { "found gone" }
            } else {
                let refused = matches!(step.event, RunnerEvent::LaunchFailed { .. });
                assert!(unlaunched && refused, "nobody said that there is no machine: {step:?}");
                "never launched"
            };
            reached.case(case);
        }
    });
}

#[test]
fn inv_18_a_deadline_never_moves_back_while_the_state_lasts() {
    let cases =
        ["put off while it runs", "put off while it is idle", "noted, and its deadline left", "no more time"];
    in_every_story(&cases, |story, reached| {
        for step in story.iter().filter(|step| step.before.state.name() == StateName::Running) {
            let RunnerEvent::TimeBegins { until } = &step.event else { continue };
            let less = step.before.threshold.is_some_and(|threshold| *until < threshold);
            less.then(|| reached.case("no more time"));
        }
        for (step, after) in changes(story) {
            let before = &step.before;
            if (before.state.name(), before.epoch) != (after.state.name(), after.epoch) {
                continue;
            }
            assert!(before.threshold <= after.threshold, "{step:?}");
            let put_off = before.threshold < after.threshold;
            if put_off && after.state.name() == StateName::Running {
                reached.case("put off while it runs");
            } else if put_off && after.state.name() == StateName::Idle {
                reached.case("put off while it is idle");
            } else if !put_off {
                reached.case("noted, and its deadline left");
            }
        }
    });
}

#[test]
fn inv_18_what_is_over_moves_nowhere_but_to_its_end_or_to_be_cleaned() {
    in_every_story(&["a step after its time", "refused for its time"], |story, reached| {
        for step in story.iter().filter(|step| step.late()) {
            if let Outcome::Decided(Decision::Refuse(_)) = &step.outcome {
                reached.case("refused for its time");
            }
            let Some(after) = step.after() else { continue };
            if after.state.name() == step.before.state.name() {
                assert_eq!(holder(after), holder(&step.before), "{step:?}");
                continue;
            }
            reached.case("a step after its time");
            match after.state.name() {
                StateName::Resetting
                | StateName::Quarantined
                | StateName::Terminating
                | StateName::Terminated => {}
                StateName::Created
                | StateName::Idle
                | StateName::Claimed
                | StateName::Running
                | StateName::Releasing => panic!("it moved on after its time: {step:?}"),
            }
        }
    });
}

#[test]
fn inv_22_the_same_story_is_decided_the_same() {
    let told = || {
        let steps = RefCell::new(Vec::new());
        in_every_story(&[], |story, _| {
            steps.borrow_mut().extend(changes(story).map(|(_, after)| after.clone()));
        });
        steps.into_inner()
    };
    assert!(told() == told(), "the same stories came out otherwise");
}

#[test]
fn every_state_that_can_get_stuck_has_a_threshold() {
    in_every_story(&[], |story, _| {
        for (step, after) in changes(story) {
            let may_rest = matches!(after.state.name(), StateName::Quarantined | StateName::Terminated);
            assert_eq!(after.threshold.is_none(), may_rest, "{step:?}");
        }
    });
}
