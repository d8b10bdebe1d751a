//! How long a claim's runners have: the claim's own time once it is ready, and none of it before.

mod samples;

use motorpool_domain::claim::{Ask, Claim, ClaimState};
use motorpool_domain::{Threshold, Timestamp};
use samples::{NOW, claim};
use std::time::Duration;

const HEARD_WITHIN: Duration = Duration::from_secs(45);

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

fn at(minute: u64) -> Timestamp {
    NOW.after(minutes(minute))
}

/// Opened at minute 0.
fn pending(wait: u64, max_runtime: u64) -> Claim {
    let sample = claim(2);
    let ask = Ask { max_runtime: minutes(max_runtime), ..sample.ask };
    Claim::open(sample.id, sample.key, ask, minutes(wait), NOW)
}

#[test]
fn a_pending_claims_member_never_comes_to_its_end_before_the_wait_does() {
    let claim = pending(60, 5);
    let mut member = Threshold(at(5));
    for minute in 0..60 {
        assert!(!member.passed(at(minute)), "it is cut off in minute {minute}");
        if let Some(later) = claim.put_off(member, HEARD_WITHIN, at(minute)) {
            assert!(later > member, "inv_18: it moved back");
            assert!(later <= Threshold(at(minute + 5)), "it is later than the claim's own would be");
            member = later;
        }
    }
    assert!(!member.passed(at(61)), "nobody can let go of it any more");
    assert_eq!(claim.put_off(member, HEARD_WITHIN, at(60)), None, "its wait is over");
}

#[test]
fn where_the_wait_is_shorter_nothing_is_put_off() {
    let claim = pending(15, 30);
    for minute in 0..15 {
        assert_eq!(claim.put_off(Threshold(at(30)), HEARD_WITHIN, at(minute)), None, "minute {minute}");
    }
}

#[test]
fn a_ready_claims_members_have_its_own_time_and_an_ended_ones_none() {
    let ready = Claim {
        state: ClaimState::Ready { since: at(2) },
        threshold: Some(Threshold(at(7))),
        ..pending(60, 5)
    };
    assert_eq!(ready.put_off(Threshold(at(5)), HEARD_WITHIN, at(2)), Some(Threshold(at(7))));
    assert_eq!(ready.put_off(Threshold(at(7)), HEARD_WITHIN, at(2)), None);
    assert_eq!(ready.put_off(Threshold(at(8)), HEARD_WITHIN, at(2)), None, "inv_18: never back");
    let ended = ready.released("done", at(3));
    assert_eq!(ended.put_off(Threshold(at(5)), HEARD_WITHIN, at(3)), None);
}
