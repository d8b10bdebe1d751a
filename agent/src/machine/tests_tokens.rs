//! The machine's rules about its tokens: when it makes another, which of two it comes with, and when it forgets the old one.

use motorpool_domain::runner::StateName;
use motorpool_wire::agent::{SyncAnswer, SyncRequest, TaskOrder};

use super::tests::{Story, answer, at, cleanup, deregister, has, settings, sync_of};
use super::*;

fn resetting(task: Option<TaskOrder>) -> SyncAnswer {
    SyncAnswer { state: StateName::Resetting, token_due: true, kept: true, ..answer(task) }
}

fn taken() -> SyncAnswer {
    SyncAnswer { state: StateName::Idle, token_taken: true, kept: true, ..answer(None) }
}

fn made() -> Input {
    Input::TokenMade { sha256: "next".to_owned() }
}

/// Which token the sync in these effects comes with, and which it names.
fn sent(effects: &[Effect]) -> Option<(Token, Option<&str>)> {
    effects.iter().find_map(|effect| {
        let Effect::Sync(SyncRequest { next_token_sha256, .. }, token) = effect else { return None };
        Some((*token, next_token_sha256.as_deref()))
    })
}

/// Whatever it takes until it syncs again.
fn next_sync(story: &mut Story, mut effects: Vec<Effect>) -> Vec<Effect> {
    while sync_of(&effects).is_none() {
        story.wait(1_000);
        effects = story.timer();
    }
    effects
}

/// Clean, and with another token on its disk that it has just named.
fn named() -> Story {
    let mut story = Story::begun();
    story.answered(resetting(Some(cleanup(Some("c")))));
    let effects = story.done("1-cleanup-1");
    assert!(has(&effects, &Effect::MakeToken), "{effects:?}");
    let effects = story.step(made());
    let effects = next_sync(&mut story, effects);
    assert_eq!(sent(&effects), Some((Token::Present, Some("next"))));
    assert_eq!(sync_of(&effects).unwrap().results.len(), 1, "with the proof that it is clean");
    story
}

#[test]
fn refuse_22_another_token_is_made_when_the_clean_task_is_done_and_not_before() {
    let mut story = Story::running();
    let effects = story.answered(resetting(Some(deregister(None))));
    assert!(!has(&effects, &Effect::MakeToken), "its program still runs");
    let effects = story.run_over();
    assert!(!has(&effects, &Effect::MakeToken), "it is not clean yet");
    let effects = story.answered(resetting(Some(cleanup(Some("c")))));
    assert!(!has(&effects, &Effect::MakeToken), "the clean task runs");
    let effects = story.done("1-cleanup-1");
    assert!(has(&effects, &Effect::MakeToken), "{effects:?}");
    let effects = story.timer();
    assert!(!has(&effects, &Effect::MakeToken), "one is being made");
}

#[test]
fn where_nothing_is_to_be_cleaned_it_is_made_once_no_work_is_left() {
    let mut story = Story::begun();
    assert!(has(&story.answered(resetting(None)), &Effect::MakeToken));
    let mut older = Story::begun();
    let effects = older.answered(SyncAnswer { token_due: false, ..resetting(None) });
    assert!(!has(&effects, &Effect::MakeToken), "a control plane of the version before asks for none");
}

#[test]
fn a_token_that_is_taken_is_adopted_and_the_old_one_forgotten() {
    let mut story = named();
    let effects = story.answered(taken());
    assert!(has(&effects, &Effect::AdoptToken), "{effects:?}");
    let effects = next_sync(&mut story, effects);
    assert_eq!(sent(&effects), Some((Token::Present, None)));
}

#[test]
fn after_a_lost_answer_the_next_token_is_tried_first_and_the_old_one_once_it_is_refused() {
    let mut story = named();
    let effects = story.step(Input::SyncFailed(SyncFailure::Unreachable));
    let effects = next_sync(&mut story, effects);
    assert_eq!(sent(&effects), Some((Token::Next, None)));
    let effects = story.step(Input::SyncFailed(SyncFailure::Unauthorized));
    assert_eq!(sent(&effects), Some((Token::Present, Some("next"))), "at once: it was not taken");
    let effects = story.step(Input::SyncFailed(SyncFailure::Unauthorized));
    assert_eq!(sent(&effects), None, "neither is good: a person must act");
    let effects = next_sync(&mut story, effects);
    assert_eq!(sent(&effects), Some((Token::Next, None)), "what named it may have come late");
    let effects = story.answered(resetting(Some(cleanup(Some("c")))));
    assert!(has(&effects, &Effect::AdoptToken), "it is good, so it was taken");
}

#[test]
fn a_request_that_gives_way_to_another_may_have_been_taken() {
    let mut story = named();
    let effects = story.step(Input::Noticed(Notice::Rebalance));
    assert_eq!(sent(&effects), Some((Token::Next, None)));
}

#[test]
fn an_answer_that_did_not_take_it_leaves_the_old_token_good_and_the_next_one_named() {
    let mut story = named();
    let effects = story.answered(resetting(Some(cleanup(Some("c")))));
    assert!(!has(&effects, &Effect::AdoptToken));
    let effects = next_sync(&mut story, effects);
    assert_eq!(sent(&effects), Some((Token::Present, Some("next"))));
}

#[test]
fn fault_03_an_agent_that_starts_anew_with_two_tokens_tries_the_next_one_first() {
    let two = Settings { next_token: Some("next".to_owned()), ..settings(7) };
    let mut story = Story {
        machine: Machine::new(two, Memory::fresh(motorpool_domain::Epoch(1)), at(1_000)),
        now_ms: 1_000,
    };
    let effects = story.timer();
    assert_eq!(sent(&effects), Some((Token::Next, None)));
    let effects = story.step(Input::SyncFailed(SyncFailure::Unauthorized));
    assert_eq!(sent(&effects), Some((Token::Present, Some("next"))), "nobody had heard of it");
    assert!(has(&story.answered(taken()), &Effect::AdoptToken));
}

#[test]
fn fault_24_a_token_that_could_not_be_written_is_not_named_and_made_again_later() {
    let mut story = Story::begun();
    story.answered(resetting(None));
    let effects = story.step(Input::TokenNotMade);
    assert!(!has(&effects, &Effect::MakeToken), "at once, it would fail again");
    let effects = next_sync(&mut story, effects);
    assert_eq!(sent(&effects), Some((Token::Present, None)));
    assert!(has(&story.answered(resetting(None)), &Effect::MakeToken));
}
