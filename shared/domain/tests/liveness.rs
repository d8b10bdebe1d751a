//! What a look at a runner's heartbeats sees, and when they are overdue.

mod samples;

use motorpool_domain::Timestamp;
use motorpool_domain::pool::{Clean, Limits};
use motorpool_domain::runner::{Look, Runner, StateName, look, next_look, overdue};
use samples::{NOW, in_state, rules};

const LONG_AGO: Timestamp = Timestamp::from_millis(0);

/// An idle runner that was heard when it became idle, and not since.
fn heard_once() -> Runner {
    Runner { seen_at: Some(NOW), ..in_state(StateName::Idle, false) }
}

fn after(heartbeats: u32) -> Timestamp {
    NOW.after(Limits::default().heartbeat * heartbeats)
}

#[test]
fn fault_20_who_is_not_silent_yet_can_be_overdue() {
    let (runner, limits) = (heard_once(), Limits::default());
    for (heartbeats, late, seen) in
        [(0, false, Look::Heard), (1, false, Look::Heard), (2, true, Look::Heard), (4, true, Look::Silent)]
    {
        let now = after(heartbeats);
        assert_eq!(overdue(&runner, &limits, LONG_AGO, now), Some(late), "{heartbeats}");
        assert_eq!(look(&runner, &limits, LONG_AGO, now), Some(seen), "{heartbeats}");
    }
}

#[test]
fn fault_20_nobody_is_overdue_for_what_could_not_arrive() {
    let (runner, limits) = (heard_once(), Limits::default());
    assert_eq!(overdue(&runner, &limits, after(100), after(101)), Some(false));
    assert_eq!(look(&runner, &limits, after(100), after(103)), Some(Look::Heard));
    assert_eq!(look(&runner, &limits, after(100), after(104)), Some(Look::Silent));
}

#[test]
fn who_was_never_heard_or_is_not_looked_at_is_not_counted() {
    let limits = Limits::default();
    let never = Runner { seen_at: None, ..heard_once() };
    assert_eq!(overdue(&never, &limits, LONG_AGO, after(9)), None);
    for state in [StateName::Quarantined, StateName::Terminating, StateName::Terminated] {
        let runner = Runner { seen_at: Some(NOW), ..in_state(state, true) };
        assert_eq!(overdue(&runner, &limits, LONG_AGO, after(9)), None, "{state}");
    }
}

#[test]
fn the_next_look_is_when_it_could_be_silent_first() {
    let (runner, rules) = (heard_once(), rules(Clean::Cleanup));
    assert_eq!(next_look(&runner, &rules, after(1)), Some(after(4)));
    assert_eq!(next_look(&runner, &rules, after(5)), Some(after(9)));
}
