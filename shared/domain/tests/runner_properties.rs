//! Properties of the runner's state machine under random events at random times.

mod samples;

use motorpool_domain::pool::Clean;
use motorpool_domain::runner::{Decision, Runner, RunnerEvent, RunnerState, StateName, decide};
use motorpool_domain::{Epoch, Timestamp};
use proptest::prelude::*;
use samples::{NOW, events, intent, rules};
use std::time::Duration;

fn clean() -> impl Strategy<Value = Clean> {
    prop_oneof![Just(Clean::Replace), Just(Clean::Cleanup), Just(Clean::Keep)]
}

fn story() -> impl Strategy<Value = Vec<(usize, u64)>> {
    prop::collection::vec((0..events().len(), 0u64..400), 1..60)
}

/// Plays a story, and shows every step: before, event, after, time.
fn play(
    kept: bool,
    clean: Clean,
    story: &[(usize, u64)],
    mut each: impl FnMut(&Runner, &RunnerEvent, &Runner, Timestamp),
) {
    let events = events();
    let mut runner = intent(kept);
    let mut now = NOW;
    for (which, seconds) in story {
        now = now.after(Duration::from_secs(*seconds));
        let Some((_, event)) = events.get(*which) else { continue };
        if let Decision::Change(change) = decide(&runner, event, &rules(clean), now) {
            each(&runner, event, &change.after, now);
            runner = change.after;
        }
    }
}

proptest! {
    #[test]
    fn inv_01_epoch_and_rank_only_rise(kept: bool, clean in clean(), story in story()) {
        play(kept, clean, &story, |before, event, after, _| {
            let rank = |runner: &Runner| (runner.epoch, runner.state.name().rank());
            assert!(rank(before) <= rank(after), "{event:?}: {before:?} to {after:?}");
            assert_ne!(before.state.name(), StateName::Terminated);
        });
    }

    #[test]
    fn inv_01_the_epoch_rises_only_on_entering_resetting(kept: bool, clean in clean(), story in story()) {
        play(kept, clean, &story, |before, _, after, _| {
            let entered = after.state.name() == StateName::Resetting && before.state.name() != StateName::Resetting;
            assert_eq!(after.epoch, if entered { Epoch(before.epoch.0 + 1) } else { before.epoch });
        });
    }

    #[test]
    fn inv_03_a_runner_has_one_holder_in_an_epoch(kept: bool, clean in clean(), story in story()) {
        play(kept, clean, &story, |before, event, after, _| {
            let (had, has) = (before.state.hold(), after.state.hold());
            if let (Some(had), Some(has)) = (had, has) {
                assert_eq!(&had.claim, &has.claim);
            }
            if had.is_none() && has.is_some() {
                assert!(matches!(event, RunnerEvent::Taken { .. }) && before.state == RunnerState::Idle);
            }
        });
    }

    #[test]
    fn inv_13_idle_means_proven_clean_since_its_last_holder(kept: bool, clean in clean(), story in story()) {
        play(kept, clean, &story, |before, event, after, now| {
            if after.state == RunnerState::Idle && before.state != RunnerState::Idle {
                assert!(matches!(event, RunnerEvent::CleanProven { .. } | RunnerEvent::Ready { .. }));
                assert_eq!(after.proof.as_ref().map(|proof| proof.at), Some(now));
            }
            if after.state.name() == StateName::Resetting {
                assert_eq!(&after.proof, &None);
            }
        });
    }

    #[test]
    fn inv_14_a_busy_runner_is_not_reaped_while_its_threshold_lies_ahead(kept: bool, clean in clean(), story in story()) {
        play(kept, clean, &story, |before, event, after, now| {
            let busy = before.state.name() == StateName::Running;
            let ahead = before.threshold.is_some_and(|threshold| !threshold.passed(now));
            let by_refresh = matches!(event, RunnerEvent::ThresholdPassed { .. });
            assert!(!(busy && ahead && by_refresh), "{after:?}");
        });
    }

    #[test]
    fn inv_18_a_deadline_never_moves_back_while_the_state_lasts(kept: bool, clean in clean(), story in story()) {
        play(kept, clean, &story, |before, _, after, _| {
            if before.state.name() == after.state.name() && before.epoch == after.epoch {
                assert!(before.threshold <= after.threshold, "{before:?} to {after:?}");
            }
        });
    }

    #[test]
    fn inv_22_the_same_story_is_decided_the_same(kept: bool, clean in clean(), story in story()) {
        let told = || {
            let mut steps = Vec::new();
            play(kept, clean, &story, |_, _, after, _| steps.push(after.clone()));
            steps
        };
        assert_eq!(told(), told());
    }

    #[test]
    fn every_state_that_can_get_stuck_has_a_threshold(kept: bool, clean in clean(), story in story()) {
        play(kept, clean, &story, |_, _, after, _| {
            let may_rest = matches!(after.state.name(), StateName::Quarantined | StateName::Terminated);
            assert_eq!(after.threshold.is_none(), may_rest, "{after:?}");
        });
    }
}
