//! The machine's rules about deadlines, ends and contact, one table or story each.

use std::time::Duration;

use motorpool_wire::agent::SyncAnswer;

use super::tests::*;
use super::*;

#[test]
fn inv_19_deadlines_count_from_the_sending_and_work_is_killed_at_the_threshold() {
    let mut story = Story::begun();
    let sent_at = at(story.now_ms);
    story.wait(5_000);
    let effects =
        story.step(Input::SyncAnswered { sent_at, answer: answer(Some(register(None, Some("run")))) });
    assert_eq!(started_run(&effects).unwrap().fence_at, Some(at(601_000)));
    story.step(Input::SyncFailed(SyncFailure::Unreachable));
    story.now_ms = 600_999;
    assert!(!has(&story.timer(), &KILL_RUN));
    story.now_ms = 601_000;
    let effects = story.timer();
    assert!(has(&effects, &KILL_RUN), "{effects:?}");
    story.run_over();
    assert_eq!(story.registered(), None);
}

#[test]
fn work_is_killed_at_the_threshold_though_the_control_plane_is_there() {
    let mut story = Story::begun();
    story.ordered(prepare());
    story.wait(1_000);
    let effects = story.answered(SyncAnswer { threshold_in_ms: Some(0), ..answer(None) });
    assert!(has(&effects, &KILL_TASK), "{effects:?}");
    story.ended("1-prepare-1", failed("fenced"));
    let late = SyncAnswer { threshold_in_ms: Some(0), ..answer(Some(cleanup(None))) };
    assert!(started(&story.answered(late)).is_none(), "no work begins beyond the threshold");
}

#[test]
fn fault_05_after_a_long_pause_any_input_finds_the_deadlines_overdue() {
    let late: [fn(&mut Story) -> Vec<Effect>; 3] = [
        |story| story.timer(),
        |story| story.step(Input::SyncFailed(SyncFailure::Unreachable)),
        |story| {
            let sent_at = at(story.now_ms - 650_000);
            story.step(Input::SyncAnswered { sent_at, answer: answer(Some(prepare())) })
        },
    ];
    for input in late {
        let mut story = Story::running();
        story.wait(650_000);
        let effects = input(&mut story);
        assert!(has(&effects, &KILL_RUN) && started(&effects).is_none(), "{effects:?}");
    }
}

#[test]
fn every_answer_renews_the_fence_of_what_runs() {
    let mut story = Story::begun();
    let renewed = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::RenewFence(_)));
    assert!(!renewed(&story.answered(answer(None))), "nothing runs");
    story.ordered(register(None, Some("run")));
    story.wait(10_000);
    let effects = story.answered(answer(None));
    assert!(has(&effects, &Effect::RenewFence(at(611_000))), "{effects:?}");
    let effects =
        story.answered(SyncAnswer { threshold_in_ms: None, fence_in_ms: Some(100_000), ..answer(None) });
    assert!(has(&effects, &Effect::RenewFence(at(111_000))), "{effects:?}");
    let effects = story.answered(SyncAnswer { threshold_in_ms: None, fence_in_ms: None, ..answer(None) });
    assert!(has(&effects, &Effect::RenewFence(at(u64::MAX))), "{effects:?}");
}

#[test]
fn inv_20_at_the_fence_the_host_ends_once_its_work_is_gone() {
    let mut story = Story::running();
    story.step(Input::SyncFailed(SyncFailure::Unreachable));
    story.now_ms = 701_000;
    let effects = story.timer();
    assert!(has(&effects, &KILL_RUN));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::EndHost { .. } | Effect::Sync(..))));
    let effects = story.run_over();
    assert!(effects.iter().any(|effect| matches!(effect, Effect::EndHost { .. })), "{effects:?}");
    assert_eq!(story.timer(), []);
}

#[test]
fn inv_20_at_the_fence_of_a_kept_machine_its_work_ends_and_the_agent_goes_on_trying() {
    let mut story = Story::begun();
    story.answered(SyncAnswer { kept: true, ..answer(Some(register(None, Some("run")))) });
    story.step(Input::SyncFailed(SyncFailure::Unreachable));
    story.now_ms = 701_000;
    let mut effects = story.timer();
    assert!(has(&effects, &KILL_RUN) && sync_of(&effects).is_some(), "{effects:?}");
    story.run_over();
    for _ in 0..50 {
        effects = story.step(Input::SyncFailed(SyncFailure::Unreachable));
        let timer_ms = timer_of(&effects).unwrap();
        assert!(timer_ms > story.now_ms && timer_ms <= story.now_ms + 30_000, "{effects:?}");
        story.now_ms = timer_ms;
        assert!(sync_of(&story.timer()).is_some());
    }
    let effects = story.answered(SyncAnswer { kept: true, ..answer(Some(cleanup(None))) });
    assert!(started(&effects).is_some(), "contact is back");
}

#[test]
fn without_any_answer_the_host_ends_at_the_time_for_first_contact() {
    let mut story = Story::begun();
    let effects = story.step(Input::SyncFailed(SyncFailure::Unauthorized));
    assert!(timer_of(&effects).unwrap() <= story.now_ms + 500);
    story.now_ms = FIRST_CONTACT_MS;
    let effects = story.timer();
    assert!(matches!(effects[..], [Effect::EndHost { .. }]), "{effects:?}");
}

#[test]
fn deadlines_outlive_the_agents_process_but_not_the_boot() {
    let mut story = Story::running();
    story.answered(answer(None));
    let memory = story.machine.memory.clone();
    let restarted = memory.clone().after_restart(true);
    assert_eq!((&restarted.registered, restarted.results.len()), (&None, 0), "its program is gone");
    let mut machine = Machine::new(settings(7), restarted, at(701_000));
    let effects = machine.step(Input::TimerFired, at(701_000));
    assert!(matches!(effects[..], [Effect::EndHost { .. }]), "{effects:?}");
    assert_eq!(memory.after_restart(false).deadlines, None);
}

#[test]
fn fault_08_end_and_gone_end_the_host_or_the_agent_of_a_kept_machine() {
    for kept in [false, true] {
        for gone in [false, true] {
            let mut story = Story::begun();
            story.answered(SyncAnswer { kept, ..answer(Some(register(None, Some("run")))) });
            let effects = if gone {
                story.step(Input::SyncFailed(SyncFailure::Gone { message: "over".into() }))
            } else {
                story.answered(SyncAnswer { kept, end: true, ..answer(None) })
            };
            let grace = if kept { GRACE } else { Duration::ZERO };
            assert!(has(&effects, &Effect::StopRun { grace }), "{effects:?}");
            let effects = story.run_over();
            let host = effects.iter().any(|effect| matches!(effect, Effect::EndHost { .. }));
            let agent = effects.iter().any(|effect| matches!(effect, Effect::EndAgent { .. }));
            assert_eq!((host, agent), (!kept, kept), "gone {gone}: {effects:?}");
        }
    }
}

#[test]
fn a_stop_gives_grace_and_a_second_one_kills() {
    let mut story = Story::begun();
    story.ordered(prepare());
    assert!(has(&story.step(Input::StopRequested), &Effect::StopTask { grace: GRACE }));
    assert!(has(&story.step(Input::StopRequested), &KILL_TASK));
    let effects = story.ended("1-prepare-1", failed("stopped"));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::EndAgent { .. })), "{effects:?}");
    assert_eq!(story.results(), Vec::<&str>::new(), "the next agent does it again");
}

#[test]
fn a_stop_with_nothing_to_stop_ends_at_once() {
    assert!(matches!(Story::begun().step(Input::StopRequested)[..], [Effect::EndAgent { .. }]));
}

#[test]
fn a_server_that_answers_at_once_is_asked_each_interval_and_one_that_holds_always_has_a_poll() {
    let mut story = Story::begun();
    let effects = story.answered(answer(None));
    let sent_ms = timer_of(&effects).unwrap();
    assert_eq!(sent_ms, story.now_ms + 100, "the first answer is news");
    story.now_ms = sent_ms;
    assert_eq!(sync_of(&story.timer()).unwrap().wait_ms, 15_000);
    let next_ms = timer_of(&story.answered(answer(None))).unwrap();
    assert!((13_500..=16_500).contains(&(next_ms - sent_ms)), "{next_ms}");
    story.now_ms = next_ms;
    story.timer();
    story.wait(15_000);
    let effects = story.step(Input::SyncAnswered { sent_at: at(next_ms), answer: answer(None) });
    assert!(sync_of(&effects).is_some(), "{effects:?}");
}

#[test]
fn heartbeats_go_on_while_a_task_is_long() {
    let mut story = Story::begun();
    let mut effects = story.ordered(prepare());
    for _ in 0..20 {
        let timer_ms = timer_of(&effects).unwrap();
        assert!(timer_ms - story.now_ms <= 16_500);
        story.now_ms = timer_ms;
        assert_eq!(sync_of(&story.timer()).unwrap().busy, Some(prepare().id));
        effects = story.ordered(prepare());
    }
}

#[test]
fn failures_back_off_up_to_half_a_minute_and_a_refused_token_of_a_kept_machine_longer() {
    let mut story = Story::begun();
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let timer_ms = timer_of(&story.step(Input::SyncFailed(SyncFailure::Unreachable))).unwrap();
        pauses.push(timer_ms - story.now_ms);
        story.now_ms = timer_ms;
        story.timer();
    }
    assert!((250..=500).contains(&pauses[0]), "{pauses:?}");
    assert!((15_000..=30_000).contains(&pauses[11]), "{pauses:?}");
    let mut story = Story::begun();
    story.answered(SyncAnswer { kept: true, ..answer(None) });
    let timer_ms = timer_of(&story.step(Input::SyncFailed(SyncFailure::Unauthorized))).unwrap();
    assert!(timer_ms - story.now_ms > 50_000);
}

#[test]
fn a_task_that_ends_in_an_outage_does_not_shorten_the_backoff() {
    let mut story = Story::begun();
    story.ordered(prepare());
    story.step(Input::SyncFailed(SyncFailure::Unreachable));
    let effects = story.done("1-prepare-1");
    assert!(sync_of(&effects).is_none(), "{effects:?}");
}

#[test]
fn small_moves_of_the_deadlines_are_not_written_to_disk() {
    let mut story = Story::begun();
    let saves = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::SaveState(_)));
    assert!(saves(&story.answered(answer(None))));
    story.wait(4_000);
    assert!(!saves(&story.answered(answer(None))));
    story.wait(4_000);
    assert!(saves(&story.answered(answer(None))));
}
