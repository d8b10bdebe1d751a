//! The notifier: no change is missed, everybody who waits is woken, and nothing stays behind.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use motorpool_control::ports::doorbell::Doorbell;
use motorpool_domain::record::Key;
use motorpool_domain::{ClaimId, RunnerId};
use motorpool_http::Notifier;
use motorpool_http::notify::Woken;
use std::sync::Arc;
use std::time::Duration;

const NEVER: Duration = Duration::from_secs(600);

fn claim(name: &str) -> Key {
    Key::from(&ClaimId::parse(name).unwrap())
}

#[tokio::test]
async fn a_change_before_the_wait_wakes_once() {
    let notifier = Arc::new(Notifier::default());
    let mut waiter = notifier.waiter(claim("c-1"));
    notifier.ring(claim("c-1"));
    notifier.ring(claim("c-1"));
    assert_eq!(waiter.woken(NEVER).await, Woken::Changed);
    assert_eq!(waiter.woken(Duration::ZERO).await, Woken::TimedOut);
}

#[tokio::test]
async fn other_records_wake_nobody_here() {
    let notifier = Arc::new(Notifier::default());
    let mut waiter = notifier.waiter(claim("c-1"));
    notifier.ring(claim("c-2"));
    notifier.ring(Key::from(&RunnerId::parse("c-1").unwrap()));
    assert_eq!(waiter.woken(Duration::ZERO).await, Woken::TimedOut);
}

#[tokio::test]
async fn everybody_who_waits_is_woken_and_memory_is_given_back() {
    let notifier = Arc::new(Notifier::default());
    let waiting: Vec<_> = (0..200)
        .map(|number| {
            let mut waiter = notifier.waiter(claim(&format!("c-{}", number % 10)));
            tokio::spawn(async move { waiter.woken(NEVER).await })
        })
        .collect();
    assert_eq!(notifier.waited_for(), 10);
    for number in 0..10 {
        notifier.ring(claim(&format!("c-{number}")));
    }
    for woken in waiting {
        assert_eq!(woken.await.unwrap(), Woken::Changed);
    }
    assert_eq!(notifier.waited_for(), 0);
}

#[tokio::test]
async fn a_change_that_nobody_waits_for_is_forgotten() {
    let notifier = Arc::new(Notifier::default());
    notifier.ring(claim("c-1"));
    assert_eq!(notifier.waited_for(), 0);
    assert_eq!(notifier.waiter(claim("c-1")).woken(Duration::ZERO).await, Woken::TimedOut);
}

#[tokio::test]
async fn who_gives_up_leaves_the_others_waiting() {
    let notifier = Arc::new(Notifier::default());
    let mut stays = notifier.waiter(claim("c-1"));
    drop(notifier.waiter(claim("c-1")));
    notifier.ring(claim("c-1"));
    assert_eq!(stays.woken(NEVER).await, Woken::Changed);
}

#[tokio::test]
async fn closing_wakes_those_who_wait_and_those_who_come_later() {
    let notifier = Arc::new(Notifier::default());
    let mut waiter = notifier.waiter(claim("c-1"));
    let waiting = tokio::spawn(async move { waiter.woken(NEVER).await });
    notifier.close();
    assert_eq!(waiting.await.unwrap(), Woken::Closed);
    assert_eq!(notifier.waiter(claim("c-2")).woken(NEVER).await, Woken::Closed);
}
