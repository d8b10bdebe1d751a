//! Alerts: tables of one incident's life, and properties of what people hear of it.
#![expect(clippy::expect_used, reason = "what a test is made of is known to be right")]

use motorpool_domain::alert::{Alert, AlertMessage, AlertState, Incident, Phase, Telling, Told};
use motorpool_domain::record::{Key, Record};
use motorpool_domain::{PoolName, RunnerId, Timestamp};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn after(seconds: u64) -> Timestamp {
    NOW.after(Duration::from_secs(seconds))
}

fn quarantined() -> Incident {
    Incident::RunnerQuarantined { runner: RunnerId::parse("m-1").expect("an id") }
}

fn opened() -> Alert {
    Alert::opened(quarantined(), "its cleanup failed", NOW)
}

/// The alert after what is to be told was, at once.
fn told(alert: &Alert, now: Timestamp) -> Alert {
    let telling = alert.to_tell_at(now).expect("something to tell");
    alert.tried(now).heard(telling, now)
}

fn every_incident() -> Vec<Incident> {
    let runner = RunnerId::parse("m-1").expect("an id");
    vec![
        Incident::RunnerQuarantined { runner: runner.clone() },
        Incident::TokenMisused { runner: runner.clone() },
        Incident::LaunchSecretMisused { runner },
        Incident::LaunchRefused { pool: PoolName::parse("small").expect("a name") },
        Incident::DeadLetters { queue: "idle-small".to_owned() },
        Incident::StaleCheckpoint { checkpoint: "before-job-7".to_owned() },
        Incident::CiSystemAwaited { pool: PoolName::parse("small").expect("a name") },
        Incident::RefreshLate,
        Incident::MassSilence,
        Incident::LedgerUnreadable { kind: "runner".to_owned() },
    ]
}

#[test]
fn every_incident_has_a_name_a_key_and_sentences_of_its_own() {
    let all = every_incident();
    let each = |of: fn(&Incident) -> String| all.iter().map(of).collect::<BTreeSet<_>>().len();
    assert_eq!(each(|incident| incident.name().to_owned()), all.len());
    assert_eq!(each(|incident| Key::from(incident).to_string()), all.len());
    assert_eq!(each(ToString::to_string), all.len());
    assert_eq!(each(Incident::when_over), all.len());
    for incident in &all {
        assert!(incident.name().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{incident:?}");
    }
}

#[test]
fn an_incident_is_due_at_once_and_then_when_it_is_looked_at() {
    let alert = opened();
    assert_eq!(alert.due(), Some(NOW));
    assert_eq!(alert.kept_until(), None);
    let alert = told(&alert, NOW);
    assert_eq!((alert.told, alert.due()), (Told::Opened, Some(after(300))));
    let looked = alert.looked(after(300));
    assert_eq!((looked.due(), looked.state.is_open()), (Some(after(600)), true));
}

#[test]
fn raised_again_it_is_written_once_in_a_while_and_nobody_is_told() {
    let alert = told(&opened(), NOW);
    assert_eq!(alert.raised("again", after(1)), None);
    assert_eq!(alert.raised("again", after(599)), None);
    let again = alert.raised("again", after(600)).expect("a note");
    assert_eq!((again.raised, again.details.as_str(), again.to_tell()), (2, "again", None));
    assert_eq!(again.opened_at(), NOW);
    assert_eq!(again.raised("again", after(700)), None);
}

#[test]
fn over_it_is_told_once_and_kept_for_thirty_days() {
    let alert = told(&opened(), NOW).over(after(60)).expect("it was open");
    assert_eq!(alert.over(after(61)), None, "it is over already");
    assert_eq!(
        (alert.due(), alert.to_tell().map(|telling| telling.phase)),
        (Some(after(60)), Some(Phase::Over))
    );
    let alert = told(&alert, after(61));
    assert_eq!((alert.due(), alert.to_tell(), alert.told), (None, None, Told::Over));
    assert_eq!(alert.kept_until(), Some(after(60 + 30 * 24 * 3600)));
}

#[test]
fn what_comes_back_opens_anew() {
    let over = told(&told(&opened(), NOW).over(after(60)).expect("it was open"), after(60));
    let back = over.raised("back", after(61)).expect("it opens");
    assert_eq!(back.state, AlertState::Open { since: after(61), look_at: after(361) });
    assert_eq!((back.raised, back.due(), back.kept_until()), (1, Some(after(61)), None));
    let telling = back.to_tell().expect("something to tell");
    assert_eq!(telling, Telling { phase: Phase::Opened, opening: 2 });
    assert_ne!(
        AlertMessage::of(&back, telling, "i").id,
        AlertMessage::of(&opened(), Telling { phase: Phase::Opened, opening: 1 }, "i").id
    );
}

#[test]
fn what_comes_back_before_anybody_heard_that_it_was_over_goes_on() {
    let back = told(&opened(), NOW).over(after(5)).and_then(|over| over.raised("back", after(6)));
    assert_eq!(back.expect("it opens").to_tell(), None);
}

#[test]
fn who_heard_that_it_was_over_while_it_came_back_is_told_so() {
    let over = told(&opened(), NOW).over(after(5)).expect("it was open");
    let telling = over.to_tell_at(after(5)).expect("something to tell");
    let back = over.tried(after(5)).raised("back", after(6)).expect("it opens").heard(telling, after(7));
    assert_eq!(back.to_tell().map(|telling| telling.phase), Some(Phase::Opened));
}

#[test]
fn over_before_anybody_was_told_both_are_told_in_order() {
    let over = opened().tried(NOW).over(after(10)).expect("it was open");
    assert_eq!(over.to_tell_at(after(29)), None, "the receiver is given its time");
    assert_eq!(over.to_tell_at(after(30)).map(|telling| telling.phase), Some(Phase::Opened));
    let heard = told(&over, after(30));
    assert_eq!(heard.to_tell_at(after(30)).map(|telling| telling.phase), Some(Phase::Over));
}

#[test]
fn the_pause_before_another_try_doubles_up_to_an_hour() {
    let (mut alert, mut now, mut pauses) = (opened(), NOW, Vec::new());
    for _ in 0..10 {
        let tried = alert.tried(now);
        pauses.push(now.until(tried.next_try).as_secs());
        assert_eq!(tried.to_tell_at(now), None);
        now = tried.next_try;
        alert = tried;
    }
    assert_eq!(pauses, [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600]);
    assert_eq!(Alert { attempts: u32::MAX, ..alert }.tried(now).attempts, u32::MAX);
}

#[test]
fn quiet_is_counted_from_the_last_note_and_allows_for_what_is_not_noted() {
    let alert = opened();
    let span = Duration::from_secs(3600);
    assert!(!alert.is_quiet_for(span, after(3600)));
    assert!(!alert.is_quiet_for(span, after(3600 + 599)));
    assert!(alert.is_quiet_for(span, after(3600 + 600)));
}

#[test]
fn refuse_25_what_a_message_says_steers_no_terminal() {
    let alert = Alert::opened(quarantined(), "its cleanup failed: \u{1b}[2J\u{202e}", NOW);
    let message = AlertMessage::of(&alert, alert.to_tell().expect("something to tell"), "ab12cd");
    assert_eq!(
        message.text,
        "runner m-1 is quarantined: a person must look (its cleanup failed: ␛[2J\u{fffd})"
    );
    assert_eq!(message.id, "runner_quarantined/m-1/1700000000000.1/opened");
}

#[derive(Debug, Clone, Copy)]
enum Happens {
    Raised,
    Over,
    Looked,
    /// Somebody takes what is to be told, if anything is.
    Taken,
    /// What was taken reaches the people.
    Delivered,
    /// It does not.
    Lost,
    Passes(u64),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        3 => Just(Happens::Raised),
        3 => Just(Happens::Over),
        1 => Just(Happens::Looked),
        4 => Just(Happens::Taken),
        3 => Just(Happens::Delivered),
        1 => Just(Happens::Lost),
        3 => (0_u64..4_000).prop_map(Happens::Passes),
    ]
}

struct People {
    heard: Vec<Phase>,
    under_way: Option<Telling>,
}

impl People {
    fn take(&mut self, alert: &Alert, now: Timestamp) -> Option<Alert> {
        if self.under_way.is_some() {
            return None;
        }
        self.under_way = alert.to_tell_at(now);
        self.under_way.map(|_| alert.tried(now))
    }

    fn hear(&mut self, alert: &Alert, now: Timestamp) -> Option<Alert> {
        let telling = self.under_way.take()?;
        self.heard.push(telling.phase);
        Some(alert.heard(telling, now))
    }
}

proptest! {
    /// Whatever happens, people hear that it opened and that it is over in turn; and in the end what is true.
    #[test]
    fn people_hear_once_that_it_opened_and_once_that_it_is_over(story in prop::collection::vec(happens(), 0..60)) {
        let (mut alert, mut now) = (opened(), NOW);
        let mut people = People { heard: Vec::new(), under_way: None };
        for event in story {
            let next = match event {
                Happens::Raised => alert.raised("again", now),
                Happens::Over => alert.over(now),
                Happens::Looked => Some(alert.looked(now)),
                Happens::Taken => people.take(&alert, now),
                Happens::Delivered => people.hear(&alert, now),
                Happens::Lost => { people.under_way = None; None }
                Happens::Passes(seconds) => { now = now.after(Duration::from_secs(seconds)); None }
            };
            if let Some(next) = next {
                prop_assert_eq!(next.rev, alert.rev + 1, "every write is another version");
                prop_assert!(next.due().is_some() || next.kept_until().is_some(), "nothing is forgotten: {:?}", next);
                alert = next;
            }
        }
        if let Some(next) = people.hear(&alert, now) {
            alert = next;
        }
        while let Some(telling) = alert.to_tell() {
            now = now.max(alert.next_try);
            people.under_way = Some(telling);
            alert = people.hear(&alert, now).unwrap_or_else(|| panic!("it was under way"));
        }
        for (place, phase) in people.heard.iter().enumerate() {
            let expected = if place % 2 == 0 { Phase::Opened } else { Phase::Over };
            prop_assert_eq!(*phase, expected, "in turn: {:?}", people.heard);
        }
        let last = if alert.state.is_open() { Phase::Opened } else { Phase::Over };
        prop_assert_eq!(people.heard.last().copied(), Some(last), "{:?}", alert);
    }
}
