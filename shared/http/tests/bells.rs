//! The bells: no ring is lost, everybody who listens is woken, and nothing stays behind.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use motorpool_control::ports::doorbell::Doorbell;
use motorpool_domain::record::Key;
use motorpool_domain::{ClaimId, RunnerId};
use motorpool_http::Bells;
use motorpool_http::bells::Woken;
use std::sync::Arc;
use std::time::Duration;

const NEVER: Duration = Duration::from_secs(600);

fn claim(name: &str) -> Key {
    Key::from(&ClaimId::parse(name).unwrap())
}

#[tokio::test]
async fn a_ring_between_listening_and_waiting_is_heard_once() {
    let bells = Arc::new(Bells::default());
    let mut listening = bells.listen(claim("c-1"));
    bells.ring(claim("c-1"));
    bells.ring(claim("c-1"));
    assert_eq!(listening.rung(NEVER).await, Woken::CapacityOption);
    assert_eq!(listening.rung(Duration::ZERO).await, Woken::Silent);
}

#[tokio::test]
async fn other_bells_are_not_heard() {
    let bells = Arc::new(Bells::default());
    let mut listening = bells.listen(claim("c-1"));
    bells.ring(claim("c-2"));
    bells.ring(Key::from(&RunnerId::parse("c-1").unwrap()));
    assert_eq!(listening.rung(Duration::ZERO).await, Woken::Silent);
}

#[tokio::test]
async fn everybody_who_listens_is_woken_and_memory_is_given_back() {
    let bells = Arc::new(Bells::default());
    let waiting: Vec<_> = (0..200)
        .map(|place| {
            let mut listening = bells.listen(claim(&format!("c-{}", place % 10)));
            tokio::spawn(async move { listening.rung(NEVER).await })
        })
        .collect();
    assert_eq!(bells.listened_to(), 10);
    for place in 0..10 {
        bells.ring(claim(&format!("c-{place}")));
    }
    for waiter in waiting {
        assert_eq!(waiter.await.unwrap(), Woken::CapacityOption);
    }
    assert_eq!(bells.listened_to(), 0);
}

#[tokio::test]
async fn a_ring_that_nobody_waits_for_is_forgotten() {
    let bells = Arc::new(Bells::default());
    bells.ring(claim("c-1"));
    assert_eq!(bells.listened_to(), 0);
    assert_eq!(bells.listen(claim("c-1")).rung(Duration::ZERO).await, Woken::Silent);
}

#[tokio::test]
async fn who_gives_up_leaves_the_others_listening() {
    let bells = Arc::new(Bells::default());
    let mut stays = bells.listen(claim("c-1"));
    drop(bells.listen(claim("c-1")));
    bells.ring(claim("c-1"));
    assert_eq!(stays.rung(NEVER).await, Woken::CapacityOption);
}

#[tokio::test]
async fn closing_wakes_those_who_wait_and_those_who_come_later() {
    let bells = Arc::new(Bells::default());
    let mut listening = bells.listen(claim("c-1"));
    let waiting = tokio::spawn(async move { listening.rung(NEVER).await });
    bells.close();
    assert_eq!(waiting.await.unwrap(), Woken::Closed);
    assert_eq!(bells.listen(claim("c-2")).rung(NEVER).await, Woken::Closed);
}
