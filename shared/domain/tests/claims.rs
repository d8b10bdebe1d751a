//! Tables for the claim's decisions: opening, counting its runners, readiness and its end.

mod samples;

use motorpool_domain::claim::{
    Ask, Assessment, ClaimState, Member, MemberSeen, Opening, Progress, Wish, assess, decide_opening,
    left_over, progress, why,
};
use motorpool_domain::runner::{Runner, RunnerEvent, RunnerState, StateName};
use motorpool_domain::{Epoch, Threshold};
use samples::{NOW, claim, claim_id, in_state};
use std::time::Duration;

fn member(runner: &Runner) -> Member {
    Member { runner: runner.id.clone(), epoch: runner.epoch, warm: true }
}

#[test]
fn inv_07_the_same_request_again_is_the_same_claim() {
    let open = claim(2);
    let Ask { count, want, max_runtime, idle_only } = open.ask.clone();
    let wish = Wish { count, want, max_runtime: Some(max_runtime), idle_only };
    assert_eq!(decide_opening(None, &wish), Opening::New { replaces: None });
    assert_eq!(decide_opening(Some(&open), &wish), Opening::Same);
    let other = Wish { count: 3, ..wish.clone() };
    assert_eq!(decide_opening(Some(&open), &other), Opening::Conflict);
    let longer = Wish { max_runtime: Some(max_runtime * 2), ..wish.clone() };
    assert_eq!(decide_opening(Some(&open), &longer), Opening::Conflict);
    // As long as the pool allows: that may be another time by now.
    let unnamed = Wish { max_runtime: None, ..wish };
    assert_eq!(decide_opening(Some(&open), &unnamed), Opening::Same);
    let ended = open.released("done", NOW);
    assert_eq!(decide_opening(Some(&ended), &other), Opening::New { replaces: Some(open.id) });
}

#[test]
fn a_member_counts_only_while_its_runners_record_says_so() {
    for (state, running, starting, lost) in [
        (StateName::Created, 0, 1, 0),
        (StateName::Resetting, 0, 0, 1),
        (StateName::Idle, 0, 0, 1),
        (StateName::Claimed, 0, 1, 0),
        (StateName::Running, 1, 0, 0),
        (StateName::Releasing, 0, 0, 1),
        (StateName::Quarantined, 0, 0, 1),
        (StateName::Terminating, 0, 0, 1),
        (StateName::Terminated, 0, 0, 1),
    ] {
        let runner = in_state(state, false);
        let member = member(&runner);
        let seen = assess(&claim(1), &[MemberSeen { member: &member, runner: Some(&runner) }]);
        assert_eq!((seen.running, seen.starting, seen.lost.len()), (running, starting, lost), "{state}");
    }
}

#[test]
fn a_runner_of_another_claim_or_epoch_or_about_to_leave_is_lost() {
    let mut other = in_state(StateName::Running, false);
    let member = member(&other);
    let lost =
        |runner: Option<&Runner>| assess(&claim(1), &[MemberSeen { member: &member, runner }]).lost.len();
    assert_eq!(lost(None), 1);
    assert_eq!(lost(Some(&other)), 0);
    other.epoch = Epoch(other.epoch.0 + 1);
    assert_eq!(lost(Some(&other)), 1, "an epoch later it is another life");
    let mut foreign = in_state(StateName::Running, false);
    let RunnerState::Running { hold, .. } = &mut foreign.state else { unreachable!("it was made so") };
    hold.holder = (&claim_id("b")).into();
    assert_eq!(lost(Some(&foreign)), 1);
    let mut leaving = in_state(StateName::Running, false);
    leaving.state = RunnerState::Running { hold: samples::hold(), leaving: true };
    assert_eq!(lost(Some(&leaving)), 1);
}

#[test]
fn a_runner_that_leaves_and_is_there_all_the_same_ends_with_its_claim() {
    let (open, hold) = (claim(1), samples::hold());
    assert_eq!(left_over(&hold, Some(&open)), None, "its holder may still use it");
    for ended in [None, Some(open.released("done", NOW)), Some(open.failed("too long", NOW))] {
        assert!(matches!(left_over(&hold, ended.as_ref()), Some(RunnerEvent::Release { .. })));
    }
    let leaving = RunnerState::Running { hold: hold.clone(), leaving: true };
    assert_eq!(leaving.leaving(), Some(&hold));
    assert_eq!(
        StateName::ALL.map(|state| in_state(state, false).state.leaving().cloned()),
        [const { None }; 9]
    );
}

#[test]
fn a_claim_is_ready_when_all_run_and_ends_at_its_thresholds() {
    let pending = claim(2);
    let late = NOW.after(Duration::from_secs(900));
    let all = Assessment { running: 2, ..Assessment::default() };
    let one = Assessment { running: 1, starting: 1, ..Assessment::default() };
    assert_eq!(progress(&pending, &one, NOW), Progress::Waits);
    let Progress::Ready(ready) = progress(&pending, &all, NOW) else { panic!("it should be ready") };
    assert_eq!(ready.threshold, Some(Threshold(NOW.after(Duration::from_secs(1800)))));
    let Progress::Over(failed) = progress(&pending, &one, late) else { panic!("it should have failed") };
    assert!(matches!(failed.state, ClaimState::Failed { .. }));
    assert_eq!(progress(&ready, &one, late), Progress::Waits);
    let over = NOW.after(Duration::from_secs(1800));
    let Progress::Over(ended) = progress(&ready, &all, over) else { panic!("its time should be over") };
    assert_eq!(ended.state, ClaimState::Released { at: over, why: "its time was over".to_owned() });
    assert_eq!(progress(&ended, &all, over), Progress::Waits);
}

#[test]
fn an_ended_claim_settles_only_if_it_has_runners_and_is_never_short() {
    let empty = claim(2).released("done", NOW);
    assert!(!empty.settling);
    let runner = in_state(StateName::Running, false);
    let held = claim(2).gaining([member(&runner)]).failed("no", NOW);
    assert!(held.settling && held.short() == 0 && !held.waiting());
    assert!(!held.settled().settling);
}

#[test]
fn why_says_how_far_it_is_and_what_is_missing() {
    let mut pending = claim(3);
    let seen = Assessment { running: 1, starting: 1, ..Assessment::default() };
    let runner = in_state(StateName::Running, false);
    pending.members = vec![member(&runner); 2];
    assert_eq!(why(&pending, &seen), "1 of 3 ready; 1 on the way; looking for 1 more");
    pending.waits_for = Some("pool small is at its maximum".to_owned());
    assert_eq!(why(&pending, &seen), "1 of 3 ready; 1 on the way; pool small is at its maximum");
    assert_eq!(why(&pending.failed("no capacity", NOW), &seen), "no capacity");
}

#[test]
fn a_claim_that_loses_more_runners_than_it_asked_for_backs_off_and_says_why() {
    let runner = in_state(StateName::Terminated, false);
    let lost = [(member(&runner), "it could not register: exit code 3".to_owned())];
    let mut losing = claim(2);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        losing = losing.losing(&lost, NOW);
        pauses.push(losing.launch_not_before.map(|at| at.since(NOW).as_secs()));
    }
    assert_eq!(pauses[..5], [None, None, Some(5), Some(10), Some(20)], "the first are replaced at once");
    assert_eq!(pauses[8..], [Some(320); 4], "and it never waits longer than this");
    assert_eq!(
        why(&losing, &Assessment::default()),
        "0 of 2 ready; r-1 was lost: it could not register: exit code 3"
    );
}
