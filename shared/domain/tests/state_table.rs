//! Walks every state × event, and holds the table in ARCHITECTURE.md to what the code decides.
//! `UPDATE=1 cargo test -p motorpool-domain --test state_table` writes it anew.

mod samples;

use motorpool_domain::pool::Clean;
use motorpool_domain::runner::{Decision, Refusal, Runner, RunnerEvent, StateName, decide};
use samples::{NOW, credential, events, in_state, in_state_for, intent, moment_of, rules, rules_for};
use std::time::Duration;

const BEGIN: &str = "<!-- state table: rendered from the code -->\n";
const END: &str = "<!-- end of state table -->";

#[test]
fn the_state_table_in_the_architecture_page_is_what_the_code_decides() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (head, rest) = page.split_once(BEGIN).expect("the page has a place for the table");
    let (shown, tail) = rest.split_once(END).expect("the table's place has an end");
    let table = render();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, format!("{head}{BEGIN}{table}{END}{tail}")).unwrap();
        return;
    }
    assert_eq!(shown, table, "run again with UPDATE=1, and read the difference");
}

#[test]
fn inv_01_no_event_lowers_epoch_or_rank_in_any_state() {
    for state in StateName::ALL {
        for kept in [false, true] {
            for (name, event) in events() {
                let before = in_state(state, kept);
                let Decision::Change(change) =
                    decide(&before, &event, &rules_for(&event, Clean::Cleanup), moment_of(&event))
                else {
                    continue;
                };
                let (from, to) =
                    ((before.epoch, state.rank()), (change.after.epoch, change.after.state.name().rank()));
                assert!(from <= to, "{state} × {name}: {from:?} to {to:?}");
                assert_eq!(change.after.rev, before.rev + 1, "{state} × {name} counts as one write");
            }
        }
    }
}

#[test]
fn inv_01_terminated_absorbs_every_event() {
    for (name, event) in events() {
        let before = in_state(StateName::Terminated, false);
        let decision = decide(&before, &event, &rules_for(&event, Clean::Cleanup), moment_of(&event));
        assert!(!matches!(decision, Decision::Change(_)), "{name}");
    }
}

#[test]
fn what_moves_a_runner_forward_is_refused_once_its_time_is_over() {
    let late = NOW.after(Duration::from_secs(61));
    for (state, event) in [
        (StateName::Created, RunnerEvent::Ready { until: None }),
        (StateName::Idle, RunnerEvent::Taken { hold: samples::hold() }),
        (StateName::Claimed, RunnerEvent::Registered { until: None }),
        (StateName::Running, RunnerEvent::Release { why: String::new() }),
        (StateName::Releasing, RunnerEvent::Deregistered),
    ] {
        let decision = decide(&in_state(state, false), &event, &rules(Clean::Cleanup), late);
        assert_eq!(decision, Decision::Refuse(Refusal::Expired), "{state}");
    }
}

#[test]
fn inv_14_refresh_does_nothing_to_a_runner_whose_threshold_lies_ahead() {
    for state in StateName::ALL {
        for kept in [false, true] {
            let event = RunnerEvent::ThresholdPassed { needed: false };
            let decision = decide(&in_state(state, kept), &event, &rules(Clean::Cleanup), NOW);
            assert_eq!(decision, Decision::Stay, "{state}");
        }
    }
}

#[test]
fn inv_13_a_kept_machine_that_joins_is_cleaned_before_it_is_idle() {
    let ready = |kept| match decide(
        &intent(kept),
        &RunnerEvent::Ready { until: None },
        &rules(Clean::Cleanup),
        NOW,
    ) {
        Decision::Change(change) => change.after.state.name(),
        other @ (Decision::Stay | Decision::Refuse(_)) => panic!("{other:?}"),
    };
    assert_eq!(ready(false), StateName::Idle, "a machine that we launched is new");
    assert_eq!(ready(true), StateName::Resetting, "of one that an operator brings, nobody knows");
}

#[test]
fn inv_13_a_machine_that_its_holder_may_have_used_before_it_was_ready_is_not_new() {
    let held = in_state(StateName::Created, false);
    let joined = Runner { credential: Some(credential()), ..held.clone() };
    // An operator has its agent join anew.
    let had_joined = Runner { boot_id: Some("boot-1".to_owned()), ..held };
    for (held, clean, next) in [
        (&joined, Clean::Cleanup, StateName::Resetting),
        (&joined, Clean::Replace, StateName::Terminating),
        (&had_joined, Clean::Cleanup, StateName::Resetting),
    ] {
        let mut runner = held.clone();
        for event in [RunnerEvent::Release { why: String::new() }, RunnerEvent::Ready { until: None }] {
            let Decision::Change(change) = decide(&runner, &event, &rules(clean), NOW) else {
                panic!("{event:?}")
            };
            runner = change.after;
        }
        assert_eq!(runner.state.name(), next);
    }
}

fn render() -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let head = ["event".to_owned()].into_iter().chain(StateName::ALL.map(|state| state.to_string()));
    let rule = vec!["---".to_owned(); StateName::ALL.len() + 1];
    let mut table = row(head.collect()) + &row(rule);
    for (name, event) in events() {
        let cells = StateName::ALL.map(|state| {
            let (replaced, kept) = (cell(state, false, &event), cell(state, true, &event));
            if replaced == kept { replaced } else { format!("{replaced}; kept: {kept}") }
        });
        table += &row([name.to_owned()].into_iter().chain(cells).collect());
    }
    table
}

fn cell(state: StateName, kept: bool, event: &RunnerEvent) -> String {
    let before = in_state_for(event, state, kept);
    match decide(&before, event, &rules_for(event, Clean::Cleanup), moment_of(event)) {
        Decision::Stay => "·".to_owned(),
        Decision::Refuse(_) => "✗".to_owned(),
        Decision::Change(change) if change.after.state.name() == state => "noted".to_owned(),
        Decision::Change(change) => format!("**{}**", change.after.state.name()),
    }
}
