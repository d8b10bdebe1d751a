//! Properties of the runner's state machine, over stories that take every step of the state table.

mod samples;
mod stories;

use motorpool_domain::Epoch;
use motorpool_domain::pool::Clean;
use motorpool_domain::runner::{
    Decision, Desired, Hold, Holder, Observed, Presence, Runner, RunnerEvent, RunnerState, StateName, Task,
    awaits_pause, desired, observe, wanted_label,
};
use samples::hook_rules;
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
    let cases = [
        "taken from the pool",
        "taken on its way",
        "taken by the CI system's own job",
        "wanted while another holds it",
    ];
    in_every_story(&cases, |story, reached| {
        for step in story {
            let Some(hold) = taking(&step.event) else { continue };
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
            let Some(hold) = taking(&step.event) else { panic!("nobody took it: {step:?}") };
            assert_eq!(&hold.holder, has, "{step:?}");
            match step.before.state.name() {
                StateName::Idle => reached.case(match hold.holder {
                    Holder::Claim(_) => "taken from the pool",
                    Holder::Checkpoint(_) => "taken by the CI system's own job",
                }),
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

/// Who wants the runner.
fn taking(event: &RunnerEvent) -> Option<&Hold> {
    if let RunnerEvent::Taken { hold } | RunnerEvent::CheckpointCreated { hold: Some(hold), .. } = event {
        Some(hold)
    } else {
        None
    }
}

#[test]
fn inv_13_a_checkpoint_is_dropped_only_with_the_proof_that_its_machine_is_clean() {
    let cases = ["a promise kept", "another job while the last one's promise is open"];
    in_every_story(&cases, |story, reached| {
        for step in story {
            let Some(checkpoint) = &step.before.checkpoint else { continue };
            if matches!(&step.event, RunnerEvent::CheckpointCreated { .. }) {
                reached.case("another job while the last one's promise is open");
                assert_eq!(step.after(), None, "{step:?}");
            }
            let Some(after) = step.after() else { continue };
            if after.checkpoint.as_ref() == Some(checkpoint) {
                continue;
            }
            reached.case("a promise kept");
            assert_eq!((&after.checkpoint, after.state.name()), (&None, StateName::Idle), "{step:?}");
            assert!(after.proof.is_some() && step.before.state.name() == StateName::Resetting, "{step:?}");
        }
    });
}

#[test]
fn inv_30_what_the_ci_system_was_told_of_one_job_says_nothing_of_the_next() {
    in_every_story(&["a job begins on it", "it is paused"], |story, reached| {
        for (step, after) in changes(story) {
            if after.paused_at.is_some() && step.before.paused_at.is_none() {
                reached.case("it is paused");
            }
            if after.state.name() == StateName::Running && step.before.state.name() == StateName::Idle {
                reached.case("a job begins on it");
                assert_eq!(after.paused_at, None, "{step:?}");
            }
            let may_be = match after.state.name() {
                StateName::Releasing | StateName::Resetting | StateName::Idle | StateName::Quarantined => {
                    true
                }
                StateName::Created
                | StateName::Claimed
                | StateName::Running
                | StateName::Terminating
                | StateName::Terminated => false,
            };
            assert!(
                may_be || after.paused_at.is_none() || step.before.state.name() == after.state.name(),
                "{step:?}"
            );
        }
    });
}

#[test]
fn inv_30_nothing_is_done_to_a_machine_before_its_ci_system_brings_it_no_more_jobs() {
    let cases = ["it waits for its CI system", "it is paused, and goes on"];
    in_every_story(&cases, |story, reached| {
        for step in story.iter().filter(|step| step.hook) {
            let rules = hook_rules(Clean::Cleanup);
            let waits = awaits_pause(&step.before, &rules);
            let is_next = matches!(step.before.state.name(), StateName::Releasing | StateName::Resetting);
            if !is_next {
                continue;
            }
            reached.case(if waits { "it waits for its CI system" } else { "it is paused, and goes on" });
            let label = step.before.pool.label();
            let observed = Observed { registered: Some(label), ..Observed::default() };
            let asked = desired(&step.before, &observed, &rules, step.now);
            let told = observe(&step.before, &Observed::default(), &rules);
            assert!(!waits || (asked == Desired::Rest && told.is_none()), "{step:?}");
        }
    });
}

#[test]
fn inv_13_a_program_that_has_had_its_job_is_registered_for_another_on_a_clean_machine_alone() {
    let cases = ["it has a job", "it waits for one"];
    in_every_story(&cases, |story, reached| {
        for step in story.iter().filter(|step| step.hook) {
            let (rules, runner) = (hook_rules(Clean::Cleanup), &step.before);
            let is_ended = Observed::default();
            let asked = desired(runner, &is_ended, &rules, step.now);
            let registers = matches!(asked, Desired::Do(Task::Register { .. }));
            match &runner.state {
                RunnerState::Running { hold, .. } if hold.holder.is_one_job() => {
                    reached.case("it has a job");
                    assert_eq!((asked, wanted_label(runner, &rules)), (Desired::Rest, None), "{step:?}");
                    if let RunnerEvent::RegistrationIssued { .. } = &step.event {
                        assert_eq!(step.after(), None, "{step:?}");
                    }
                }
                RunnerState::Idle => {
                    reached.case("it waits for one");
                    assert!(registers && wanted_label(runner, &rules).is_some(), "{step:?}");
                }
                RunnerState::Created { .. }
                | RunnerState::Claimed { .. }
                | RunnerState::Running { .. }
                | RunnerState::Releasing { .. }
                | RunnerState::Resetting { .. }
                | RunnerState::Quarantined { .. }
                | RunnerState::Terminating { .. }
                | RunnerState::Terminated { .. } => {}
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
    let cases = [
        "a step after its time",
        "refused for its time",
        "an idle one that is kept anyway takes a job",
        "a forgotten checkpoint's is released",
    ];
    in_every_story(&cases, |story, reached| {
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
                StateName::Running if step.hook && step.before.state.name() == StateName::Idle => {
                    reached.case("an idle one that is kept anyway takes a job");
                }
                StateName::Releasing if matches!(holder(after), Some(Holder::Checkpoint(_))) => {
                    reached.case("a forgotten checkpoint's is released");
                    assert!(matches!(step.event, RunnerEvent::ThresholdPassed { .. }), "{step:?}");
                }
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
