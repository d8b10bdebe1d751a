//! Who gets a place, when, and at whose cost: a caller is known before its body is read, its body is there before it takes a place, and the
//! places are its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on ends here"
)]

mod seen;
mod site;

use axum::body::{Body, Bytes};
use axum::http::Request;
use futures_util::stream;
use motorpool_control::ports::backend::{Backends, OwnedMachines};
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::token_sha256;
use motorpool_domain::pool::BackendKind;
use motorpool_http::HttpLimits;
use motorpool_ledger::MemoryLedger;
use motorpool_queues::InProcessQueue;
use motorpool_wire::error::ErrorCode::{InvalidRequest, TooManyRequests, Unauthorized};
use seen::{Seen, call, get, send};
use serde_json::{Value, json};
use site::{ADMIN, OTHER_TEAM, RUNNER, Site, TEAM, site, site_on};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

const NEVER: Duration = Duration::from_secs(600);
/// Only something that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(60);
const PROVISION: &str = "/api/v1/provision";
const SYNC: &str = "/api/v1/agent/sync";

/// Where nothing takes too long.
fn patient() -> HttpLimits {
    HttpLimits { body: NEVER, request: NEVER, ..HttpLimits::default() }
}

/// A request with a body of which nothing comes; `reached` counts those that somebody waits for.
fn slow(path: &str, token: Option<&str>, reached: &Arc<Semaphore>) -> Request<Body> {
    let (reached, mut said) = (Arc::clone(reached), false);
    let nothing = stream::poll_fn(move |_| {
        if !std::mem::replace(&mut said, true) {
            reached.add_permits(1);
        }
        Poll::<Option<Result<Bytes, Infallible>>>::Pending
    });
    call("POST", path, token, Body::from_stream(nothing))
}

fn held(site: &Arc<Site>, request: Request<Body>) -> JoinHandle<Seen> {
    let site = Arc::clone(site);
    tokio::spawn(async move { send(&site.router, request).await })
}

fn report(wait_ms: u64) -> Value {
    json!({"runner": "mac-01", "epoch": 1, "boot_id": "b", "protocol": 3, "agent_version": "1", "wait_ms": wait_ms})
}

async fn provisions(site: &Site, token: &str, workflow: &str) -> Seen {
    site.ask("POST", PROVISION, token, &json!({"workflow": workflow, "pool": "macs"})).await
}

#[tokio::test]
async fn refuse_18_a_body_that_does_not_come_is_answered_with_408() {
    let site = site(HttpLimits { body: Duration::from_millis(10), ..patient() }).with_a_machine().await;
    let reached = Arc::new(Semaphore::new(0));
    for (path, token) in [(PROVISION, Some(TEAM)), (SYNC, Some(RUNNER)), ("/api/v1/agent/bootstrap", None)] {
        let answer = tokio::time::timeout(PATIENCE, send(&site.router, slow(path, token, &reached)));
        let error = answer.await.expect("it is waited for").refused(408, InvalidRequest);
        assert!(error.message.contains("did not come in time"), "{error:?}");
    }
    assert_eq!(reached.available_permits(), 3);
    // A route that takes no body waits for none.
    let (parts, body) = slow("/api/v1/pools", Some(TEAM), &reached).into_parts();
    let mut request = Request::from_parts(parts, body);
    *request.method_mut() = "GET".parse().unwrap();
    send(&site.router, request).await.json(200);
}

#[tokio::test]
async fn refuse_24_slow_bodies_of_one_team_take_nobodys_place() {
    let limits = HttpLimits { bodies_at_once: 8, ..patient() };
    let site = Arc::new(site(limits).with_a_machine().await);
    let reached = Arc::new(Semaphore::new(0));
    let slow_ones: Vec<_> = (0..8).map(|_| held(&site, slow(PROVISION, Some(TEAM), &reached))).collect();
    reached.acquire_many(8).await.unwrap().forget();
    // Further bodies of that team are not read; all else of it goes on, and so does everybody else.
    provisions(&site, TEAM, "red").await.refused(429, TooManyRequests);
    site.ask("GET", "/api/v1/pools", TEAM, &Value::Null).await.json(200);
    provisions(&site, OTHER_TEAM, "blue").await.json(202);
    provisions(&site, ADMIN, "operator").await.json(202);
    site.ask("POST", SYNC, RUNNER, &report(0)).await.json(200);
    assert!(slow_ones.iter().all(|slow| !slow.is_finished()));
    slow_ones.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn refuse_24_without_a_token_nothing_is_read_and_nothing_taken() {
    let site = site(HttpLimits { strangers_a_second: u32::MAX, ..patient() });
    let reached = Arc::new(Semaphore::new(0));
    for token in [None, Some("nobodys")] {
        for path in [PROVISION, "/api/v1/release", "/api/v1/runners", "/api/v1/refresh"] {
            send(&site.router, slow(path, token, &reached)).await.refused(401, Unauthorized);
        }
    }
    send(&site.router, slow(SYNC, None, &reached)).await.refused(401, Unauthorized);
    assert_eq!(reached.available_permits(), 0, "a body was waited for");
    // Nor where there is no place at all.
    let full = site_without_places();
    send(&full.router, call("POST", PROVISION, Some("nobodys"), "{}")).await.refused(401, Unauthorized);
}

fn site_without_places() -> Site {
    site(HttpLimits { api_at_once: 0, team_at_once: 0, bodies_at_once: 0, ..patient() })
}

#[tokio::test]
async fn refuse_24_one_teams_waits_are_its_own() {
    let site = Arc::new(site(HttpLimits { waits_at_once: 2, ..patient() }).with_a_machine().await);
    // More than the pool can give, so that it stays pending.
    let ask = json!({"workflow": "red", "pool": "macs", "count": 2});
    let claim = site.ask("POST", PROVISION, TEAM, &ask).await.json(202);
    let path = format!("/api/v1/claims/{}", claim["claim"].as_str().unwrap());
    let wait = format!("{path}?wait=60");
    let waiting: Vec<_> = (0..2).map(|_| held(&site, call("GET", &wait, Some(TEAM), ""))).collect();
    while site.ask("GET", &path, TEAM, &Value::Null).await.status != 429 {
        tokio::task::yield_now().await;
    }
    let other = provisions(&site, OTHER_TEAM, "blue").await.json(202);
    let path = format!("/api/v1/claims/{}", other["claim"].as_str().unwrap());
    site.ask("GET", &path, OTHER_TEAM, &Value::Null).await.json(200);
    site.notifier.close();
    for waiting in waiting {
        waiting.await.unwrap().json(200);
    }
}

#[tokio::test]
async fn refuse_24_a_team_has_as_many_places_as_is_said_of_it() {
    let site = site::site_where(patient(), &[("red", 0)]).with_a_machine().await;
    provisions(&site, TEAM, "red").await.refused(429, TooManyRequests);
    provisions(&site, OTHER_TEAM, "blue").await.json(202);
}

#[tokio::test]
async fn refuse_24_invented_agent_tokens_take_no_place_of_an_agent() {
    let site = Arc::new(site(HttpLimits { newcomers_at_once: 1, ..patient() }).with_a_machine().await);
    site.ask("POST", SYNC, RUNNER, &report(0)).await.json(200);
    let reached = Arc::new(Semaphore::new(0));
    let invented = held(&site, slow(SYNC, Some("mp_runner_invented"), &reached));
    reached.acquire().await.unwrap().forget();
    let another = send(&site.router, call("POST", SYNC, Some("mp_runner_another"), report(0).to_string()));
    another.await.refused(429, TooManyRequests);
    site.ask("POST", SYNC, RUNNER, &report(0)).await.json(200);
    invented.abort();
}

/// An agent changes its token with each reset, and is the same agent.
#[tokio::test]
async fn refuse_24_an_agent_with_its_next_token_is_no_newcomer() {
    const NEXT: &str = "mp_runner_next";
    let site = Arc::new(site(HttpLimits { newcomers_at_once: 1, ..patient() }).with_a_machine().await);
    let mut names = report(0);
    names["session"] = json!("s1");
    names["next_token_sha256"] = json!(token_sha256(NEXT));
    assert_eq!(site.ask("POST", SYNC, RUNNER, &names).await.json(200)["token_taken"], true);
    let reached = Arc::new(Semaphore::new(0));
    let invented = held(&site, slow(SYNC, Some("mp_runner_invented"), &reached));
    reached.acquire().await.unwrap().forget();
    site.ask("POST", SYNC, NEXT, &report(0)).await.json(200);
    invented.abort();
}

/// The long poll of an agent that is new here keeps no other newcomer out: its token is found good before it waits.
#[tokio::test]
async fn refuse_24_an_agent_is_new_only_until_it_is_known() {
    let ledger: Arc<dyn Ledger> = Arc::new(MemoryLedger::new());
    let on_ledger = |limits| {
        let backends = Backends::default().with(BackendKind::BareMetal, Arc::new(OwnedMachines));
        site_on(Arc::clone(&ledger), Arc::new(InProcessQueue::default()), backends, limits)
    };
    let epoch = on_ledger(patient()).with_a_machine().await.work().await["epoch"].clone();
    // A control plane that has seen nobody yet.
    let site = Arc::new(on_ledger(HttpLimits { newcomers_at_once: 1, ..patient() }));
    let mut waits = report(60_000);
    waits["epoch"] = epoch;
    let waiting = held(&site, call("POST", SYNC, Some(RUNNER), waits.to_string()));
    let next = async {
        while site.notifier.waited_for() == 0 {
            assert!(!waiting.is_finished(), "it did not wait");
            tokio::task::yield_now().await;
        }
        loop {
            let next = site.ask("POST", SYNC, "mp_runner_new", &report(0)).await;
            if next.status != 429 {
                return next;
            }
        }
    };
    let next = tokio::time::timeout(PATIENCE, next).await.expect("it keeps the place of newcomers");
    next.refused(401, Unauthorized);
    assert!(!waiting.is_finished(), "it did not wait");
    site.notifier.close();
    waiting.await.unwrap().json(200);
}

#[tokio::test]
async fn refuse_24_one_agents_flood_is_its_own() {
    let site = Arc::new(site(HttpLimits { agent_at_once: 1, ..patient() }).with_a_machine().await);
    let epoch = site.work().await["epoch"].clone();
    let mut waits = report(60_000);
    waits["epoch"] = epoch;
    let waiting = held(&site, call("POST", SYNC, Some(RUNNER), waits.to_string()));
    while site.notifier.waited_for() == 0 {
        assert!(!waiting.is_finished(), "it did not wait");
        tokio::task::yield_now().await;
    }
    site.ask("POST", SYNC, RUNNER, &report(0)).await.refused(429, TooManyRequests);
    site.ask("POST", SYNC, "mp_runner_other", &report(0)).await.refused(401, Unauthorized);
    site.notifier.close();
    waiting.await.unwrap().json(200);
    site.ask("POST", SYNC, RUNNER, &report(0)).await.json(200);
}

/// Answers to those who get nothing are kept back once there are too many; whoever gets something is not kept waiting.
#[tokio::test]
async fn refuse_24_a_flood_of_strangers_slows_itself_down() {
    let limits = HttpLimits { strangers_a_second: 0, pause: NEVER, pauses_at_once: 1, ..patient() };
    let site = Arc::new(site(limits));
    let mut kept = held(&site, call("POST", PROVISION, Some("nobodys"), "{}"));
    let answer = tokio::time::timeout(Duration::from_millis(50), &mut kept).await;
    assert!(answer.is_err(), "it was not kept back");
    // There is room for one: the next one goes out at once.
    send(&site.router, get("/health")).await.json(200);
    assert!(!kept.is_finished());
    site.as_admin("GET", "/api/v1/pools", &Value::Null).await.json(200);
    kept.abort();
}
