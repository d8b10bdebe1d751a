//! The machine's rules about runner programs, their registrations and their ends, and about what the provider announces.

use motorpool_domain::Epoch;
use motorpool_domain::ci::CiSystem;
use motorpool_domain::runner::{Notice, TaskOutcome};
use motorpool_wire::agent::{RegistrationAnswer, SyncAnswer, SyncRequest, TaskKind, TaskOrder};

use super::tests::*;
use super::*;

fn given(system: CiSystem) -> RegistrationAnswer {
    let (name, secret) = ("mp-ab12cd-r-1.1.1".to_owned(), "canary".to_owned());
    RegistrationAnswer { system, name, url: None, secret }
}

fn fetch_of(effects: &[Effect]) -> Option<&Fetch> {
    effects
        .iter()
        .find_map(|effect| if let Effect::FetchRegistration(fetch) = effect { Some(fetch) } else { None })
}

fn fetch(epoch: u64, count: u32) -> Fetch {
    Fetch { label: label(), epoch: Epoch(epoch), count }
}

fn github() -> TaskOrder {
    register_ci(CiSystem::GitHub)
}

/// At asking for its first registration.
fn fetching() -> Story {
    let mut story = Story::begun();
    let effects = story.ordered(github());
    assert_eq!(fetch_of(&effects), Some(&fetch(1, 1)));
    story
}

fn answer_fetch(story: &mut Story, fetch: Fetch) -> Vec<Effect> {
    story.step(Input::Registered { fetch, answer: given(CiSystem::GitHub) })
}

fn fail_fetch(story: &mut Story, failure: RegistrationFailure) -> Vec<Effect> {
    story.step(Input::RegistrationFailed { fetch: fetch(1, 1), failure })
}

/// How long it does not ask again, and how often it syncs meanwhile. Each sync is told that nothing has changed.
fn until_asked_again(story: &mut Story, told_s: Option<u64>) -> (u64, usize) {
    let (failed_ms, mut syncs) = (story.now_ms, 0);
    let wait = told_s.map(Duration::from_secs);
    let mut effects = fail_fetch(story, RegistrationFailure::Later { wait });
    assert!(fetch_of(&effects).is_none(), "not at once");
    while fetch_of(&effects).is_none() {
        effects = if sync_of(&effects).is_some() {
            syncs += 1;
            story.ordered(github())
        } else {
            on_to_timer(story)
        };
    }
    assert_eq!(fetch_of(&effects), Some(&fetch(1, 1)));
    (story.now_ms - failed_ms, syncs)
}

fn result<'a>(request: &'a SyncRequest, id: &str) -> Option<&'a TaskOutcome> {
    request.results.iter().find(|result| result.task.as_str() == id).map(|result| &result.outcome)
}

/// Steps the timer on until it syncs.
fn next_sync(story: &mut Story, mut effects: Vec<Effect>) -> SyncRequest {
    loop {
        if let Some(request) = sync_of(&effects) {
            return request.clone();
        }
        effects = on_to_timer(story);
    }
}

fn on_to_timer(story: &mut Story) -> Vec<Effect> {
    story.now_ms = story.machine.timer.unwrap().boot_ms();
    story.timer()
}

#[test]
fn registering_with_a_ci_system_runs_the_script_fetches_and_begins_the_program() {
    let mut story = Story::begun();
    let (script, run) = (Some("r".to_owned()), Some("own".to_owned()));
    let kind = TaskKind::Register { label: label(), script, run, ci: Some(CiSystem::GitLab) };
    let effects = story.ordered(order("1-register-1", kind));
    assert!(started(&effects).is_some() && fetch_of(&effects).is_none(), "first the script: {effects:?}");
    let effects = story.done("1-register-1");
    assert_eq!(fetch_of(&effects), Some(&fetch(1, 1)));
    assert_eq!((started_run(&effects), story.registered()), (None, None));
    story.wait(15_000);
    assert_eq!(sync_of(&story.timer()).unwrap().busy, Some(github().id), "it is at it still");
    let effects = story.step(Input::Registered { fetch: fetch(1, 1), answer: given(CiSystem::GitLab) });
    let start = started_run(&effects).unwrap();
    assert_eq!((&start.program, &start.registration), (&Some("own".into()), &Some(given(CiSystem::GitLab))));
    assert_eq!(sync_of(&effects).unwrap().registered, Some(label()));
    assert_eq!(result(sync_of(&effects).unwrap(), "1-register-1"), Some(&TaskOutcome::Done));
}

#[test]
fn each_program_has_a_registration_of_its_own_also_after_a_restart_and_anew_in_each_epoch() {
    let mut story = fetching();
    answer_fetch(&mut story, fetch(1, 1));
    for count in 2..5 {
        story.wait(60_000);
        let effects = story.run_over();
        assert_eq!(sync_of(&effects).unwrap().registered, None);
        assert_eq!(fetch_of(&story.ordered(github())), Some(&fetch(1, count)));
        let effects = answer_fetch(&mut story, fetch(1, count));
        assert!(started_run(&effects).is_some());
        assert!(
            effects
                .iter()
                .any(|effect| matches!(effect, Effect::SaveState(saved) if saved.programs == count))
        );
    }
    let memory = story.machine.memory.clone().after_restart(true);
    let mut story = Story::begun_with(memory);
    assert_eq!(fetch_of(&story.ordered(github())), Some(&fetch(1, 5)));
    let again = TaskOrder { id: order("2-register-1", github().kind).id, ..github() };
    let effects = story.answered(SyncAnswer { epoch: Epoch(2), ..answer(Some(again)) });
    assert_eq!(fetch_of(&effects), Some(&fetch(2, 1)));
}

#[test]
fn what_may_pass_is_tried_again_with_the_same_count_and_growing_pauses() {
    let mut story = fetching();
    let pauses: Vec<u64> = (0..8).map(|_| until_asked_again(&mut story, None).0).collect();
    assert!((250..=500).contains(&pauses[0]) && pauses[7] >= 15_000, "{pauses:?}");
    assert!(started_run(&answer_fetch(&mut story, fetch(1, 1))).is_some());
}

#[test]
fn who_is_told_how_long_to_wait_asks_no_sooner_and_syncs_meanwhile() {
    for (told_s, least_ms) in
        [(1, 1_000), (62, 62_000), (600, 600_000), (3_600, 600_000), (u64::MAX, 600_000)]
    {
        let mut story = fetching();
        let (pause_ms, syncs) = until_asked_again(&mut story, Some(told_s));
        let most_ms = least_ms + least_ms / 10 + 500;
        assert!((least_ms..=most_ms).contains(&pause_ms), "told {told_s} s, it waited {pause_ms} ms");
        assert!(syncs as u64 >= least_ms / 17_000, "told {told_s} s, it synced {syncs} times");
        assert!(started_run(&answer_fetch(&mut story, fetch(1, 1))).is_some());
    }
    let mut story = fetching();
    let pauses: Vec<u64> = (0..8).map(|_| until_asked_again(&mut story, Some(1)).0).collect();
    assert!(pauses[7] >= 16_000, "told so again and again, it asks less often: {pauses:?}");
}

#[test]
fn many_who_are_told_the_same_wait_do_not_come_back_in_the_same_second() {
    let mut in_second = std::collections::BTreeMap::new();
    for seed in 0..100 {
        let machine = Machine::new(settings(seed), Memory::fresh(Epoch(1)), at(1_000));
        let mut story = Story { machine, now_ms: 1_000 };
        story.timer();
        story.ordered(github());
        *in_second.entry(until_asked_again(&mut story, Some(60)).0 / 1_000).or_insert(0) += 1;
    }
    assert!(in_second.values().all(|came| *came <= 30), "{in_second:?}");
}

#[test]
fn what_is_outdated_is_for_the_next_sync_to_say() {
    let mut story = fetching();
    let effects = fail_fetch(&mut story, RegistrationFailure::Outdated);
    assert!(sync_of(&effects).is_some() && fetch_of(&effects).is_none(), "{effects:?}");
    let again_ms = timer_of(&effects).unwrap();
    assert!(again_ms > story.now_ms);
    assert!(fetch_of(&story.ordered(github())).is_none(), "it is still wanted, but not tried again at once");
    story.now_ms = again_ms;
    assert_eq!(
        fetch_of(&story.timer()),
        Some(&fetch(1, 2)),
        "the first may have been handed out to somebody else"
    );
}

#[test]
fn a_refused_registration_fails_the_task_with_the_servers_words() {
    let mut story = fetching();
    let why = "the group is full".to_owned();
    let effects = fail_fetch(&mut story, RegistrationFailure::Refused { why });
    let request = sync_of(&effects).unwrap();
    assert_eq!((&request.busy, &request.registered), (&None, &None));
    let expected = failed("its registration was refused: the group is full");
    assert_eq!(result(request, "1-register-1"), Some(&expected));
    assert!(fetch_of(&story.ordered(github())).is_none(), "not again in this epoch");
}

#[test]
fn a_fetch_that_nobody_wants_any_more_is_dropped_and_a_late_answer_begins_nothing() {
    let dropped: [fn(&mut Story) -> Vec<Effect>; 4] = [
        |story| story.answered(answer(None)),
        |story| story.ordered(cleanup(None)),
        |story| story.answered(SyncAnswer { epoch: Epoch(2), ..answer(None) }),
        |story| {
            story.now_ms = 601_000;
            story.timer()
        },
    ];
    for (nth, drops) in dropped.into_iter().enumerate() {
        let mut story = fetching();
        story.wait(1_000);
        let effects = drops(&mut story);
        let busy = next_sync(&mut story, effects).busy;
        assert_ne!(busy, Some(github().id), "case {nth}");
        assert!(started_run(&answer_fetch(&mut story, fetch(1, 1))).is_none(), "case {nth}");
    }
}

#[test]
fn a_strangers_answer_changes_nothing() {
    let mut story = fetching();
    for other in [fetch(1, 2), fetch(2, 1)] {
        assert!(started_run(&answer_fetch(&mut story, other.clone())).is_none());
        let failure = RegistrationFailure::Refused { why: "no".into() };
        story.step(Input::RegistrationFailed { fetch: other, failure });
    }
    assert!(started_run(&answer_fetch(&mut story, fetch(1, 1))).is_some());
    assert!(started_run(&answer_fetch(&mut story, fetch(1, 1))).is_none(), "once");
}

#[test]
fn an_end_does_not_wait_for_a_registration() {
    let effects = fetching().step(Input::StopRequested);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::EndAgent { .. })), "{effects:?}");
    let effects = fetching().answered(SyncAnswer { end: true, ..answer(Some(github())) });
    assert!(effects.iter().any(|effect| matches!(effect, Effect::EndHost { .. })), "{effects:?}");
}

#[test]
fn a_program_that_fails_three_times_in_a_row_fails_its_task_with_its_last_words() {
    let mut story = Story::running();
    for nth in 1..=3 {
        story.wait(100);
        let effects = story.run_ends(false, "it ended with exit code 7: no such tool");
        let request = next_sync(&mut story, effects);
        assert_eq!(request.registered, None);
        match result(&request, "1-register-1") {
            None => assert!(nth < 3),
            Some(TaskOutcome::Failed { why }) => {
                assert_eq!(nth, 3);
                assert!(why.ends_with("the last time it ended with exit code 7: no such tool"), "{why}");
            }
            Some(TaskOutcome::Done) => panic!("it is not registered"),
        }
        assert_eq!(started_run(&story.ordered(register(None, Some("run")))).is_some(), nth < 3);
    }
    let kind = register(None, Some("run")).kind;
    let next = SyncAnswer { epoch: Epoch(2), ..answer(Some(order("2-register-1", kind))) };
    assert!(started_run(&story.answered(next)).is_some(), "the next epoch tries anew");
}

/// Whether a third end like this, right after two failures, fails the task.
fn is_the_last(ci: Option<CiSystem>, lived_ms: u64, well: bool) -> bool {
    let mut story = Story::begun();
    let mut count = 0;
    for (lived_ms, well) in [(10, false), (10, false), (lived_ms, well)] {
        match ci {
            Some(system) => {
                count += 1;
                story.ordered(register_ci(system));
                story.step(Input::Registered { fetch: fetch(1, count), answer: given(system) });
            }
            None => {
                story.ordered(register(None, Some("run")));
            }
        }
        story.wait(lived_ms);
        let effects = story.run_ends(well, "it ended");
        next_sync(&mut story, effects);
    }
    story.results() == ["1-register-1"]
}

#[test]
fn what_counts_as_a_program_that_did_nothing() {
    let (none, github, gitlab) = (None, Some(CiSystem::GitHub), Some(CiSystem::GitLab));
    for (ci, lived_ms, well, expected) in [
        (none, 999, true, true),
        (none, 1_000, true, false),
        (none, 9_999, false, true),
        (none, 10_000, false, false),
        (gitlab, 999, true, true),
        (gitlab, 1_000, true, false),
        (gitlab, 9_999, false, true),
        (github, 4_999, true, true),
        (github, 5_000, true, false),
        (github, 9_999, false, true),
        (github, 10_000, false, false),
    ] {
        assert_eq!(is_the_last(ci, lived_ms, well), expected, "{ci:?} lived {lived_ms} ms, well {well}");
    }
}

#[test]
fn a_job_done_in_between_forgives_the_failures_before_it() {
    let mut story = Story::running();
    for lived_ms in [10, 10, 60_000, 10, 10] {
        story.wait(lived_ms);
        let effects = story.run_ends(lived_ms > 10, "it ended");
        next_sync(&mut story, effects);
        assert!(started_run(&story.ordered(register(None, Some("run")))).is_some());
    }
}

#[test]
fn refuse_17_the_secret_is_shown_by_nothing_and_not_remembered() {
    let mut story = fetching();
    let input = Input::Registered { fetch: fetch(1, 1), answer: given(CiSystem::GitHub) };
    assert!(!format!("{input:?}").contains("canary"));
    let effects = story.step(input);
    assert!(started_run(&effects).is_some());
    assert!(!format!("{effects:?} {:?}", story.machine).contains("canary"));
    assert!(!serde_json::to_string(&story.machine.memory).unwrap().contains("canary"));
}

#[test]
fn fault_12_a_notice_is_told_at_once_and_in_every_sync_from_then_on() {
    use Notice::{Interruption, Rebalance};
    for (noticed, told) in [
        (vec![Rebalance], vec![Some(Rebalance)]),
        (vec![Interruption], vec![Some(Interruption)]),
        (vec![Rebalance, Rebalance], vec![Some(Rebalance), None]),
        (vec![Rebalance, Interruption], vec![Some(Rebalance), Some(Interruption)]),
        (vec![Interruption, Rebalance], vec![Some(Interruption), None]),
    ] {
        let mut story = Story::begun();
        let told_at_once: Vec<Option<Notice>> = noticed
            .iter()
            .map(|notice| sync_of(&story.step(Input::Noticed(*notice))).and_then(|request| request.notice))
            .collect();
        assert_eq!(told_at_once, told, "{noticed:?}, though a poll is under way");
        let effects = story.answered(answer(None));
        let worst = if noticed.contains(&Interruption) { Interruption } else { Rebalance };
        assert_eq!(next_sync(&mut story, effects).notice, Some(worst), "{noticed:?}");
    }
}

#[test]
fn fault_12_a_notice_in_an_outage_waits_for_the_backoff() {
    let mut story = Story::begun();
    let effects = story.step(Input::SyncFailed(SyncFailure::Unreachable));
    let again_ms = timer_of(&effects).unwrap();
    assert!(sync_of(&story.step(Input::Noticed(Notice::Interruption))).is_none());
    story.now_ms = again_ms;
    assert_eq!(sync_of(&story.timer()).unwrap().notice, Some(Notice::Interruption));
}

#[test]
fn the_programs_version_is_told_when_it_is_known_and_hurries_nobody() {
    let mut story = Story::begun();
    let effects = story.step(Input::ProgramFound { version: "2.330.0".into() });
    assert!(sync_of(&effects).is_none(), "{effects:?}");
    let effects = story.answered(answer(None));
    assert_eq!(next_sync(&mut story, effects).program_version.as_deref(), Some("2.330.0"));
    story.step(Input::ProgramFound { version: "2.331.0".into() });
    let effects = story.answered(answer(None));
    assert_eq!(next_sync(&mut story, effects).program_version.as_deref(), Some("2.331.0"));
}
