//! The limits: what is beyond them is refused at once, and what is under them goes on.

mod seen;

use axum::Router;
use axum::routing::get as on_get;
use motorpool_http::{HttpLimits, Lane};
use motorpool_wire::error::ErrorCode::{Internal, TooManyRequests};
use seen::{get, send};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

#[tokio::test]
async fn refuse_18_a_flood_is_refused_at_once_and_only_while_it_lasts() {
    let (inside, leave) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let handler = {
        let (inside, leave) = (Arc::clone(&inside), Arc::clone(&leave));
        async move || {
            inside.add_permits(1);
            leave.acquire().await.unwrap().forget();
            "done"
        }
    };
    let lane = Lane::open(2, &HttpLimits::default()).lasting(Duration::from_secs(600));
    let router = Router::new().route("/", on_get(handler)).layer(lane);

    let held: Vec<_> = (0..2)
        .map(|_| {
            let router = router.clone();
            tokio::spawn(async move { send(&router, get("/")).await })
        })
        .collect();
    inside.acquire_many(2).await.unwrap().forget();

    for _ in 0..50 {
        let seen = send(&router, get("/")).await;
        seen.refused(429, TooManyRequests);
        assert_eq!(seen.header("retry-after"), Some("1"));
    }

    leave.add_permits(3);
    for held in held {
        assert_eq!(held.await.unwrap().text, "done");
    }
    assert_eq!(send(&router, get("/")).await.text, "done");
}

#[tokio::test]
async fn a_request_that_hangs_is_given_up_and_gives_its_place_back() {
    let lane = Lane::open(1, &HttpLimits::default()).lasting(Duration::from_millis(5));
    let router = Router::new().route("/", on_get(std::future::pending::<()>)).layer(lane);
    for _ in 0..2 {
        send(&router, get("/")).await.refused(500, Internal);
    }
}

#[tokio::test]
async fn lanes_that_share_places_count_together() {
    let lane = Lane::open(0, &HttpLimits::default());
    let router =
        Router::new().route("/", on_get(async || "done")).layer(lane.lasting(Duration::from_secs(1)));
    send(&router, get("/")).await.refused(429, TooManyRequests);
}

#[test]
fn a_sync_may_bring_more_than_others() {
    let limits = HttpLimits::default();
    assert_eq!((limits.body_bytes, limits.sync_body_bytes), (65_536, 262_144));
}
