//! Tokens: who is let in, as whom, and what the others are told.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

mod seen;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::get as on_get;
use motorpool_control::Caller;
use motorpool_domain::Owner;
use motorpool_http::Tokens;
use motorpool_http::auth::{AgentOrCaller, AgentToken, Authenticated, Operator, sha256};
use motorpool_wire::error::ErrorCode::{Forbidden, Unauthorized};
use seen::{get, get_with, send};
use std::collections::BTreeMap;
use std::sync::Arc;

fn tokens() -> Tokens {
    let team = |name: &str, token: &str| (Owner::parse(name).unwrap(), sha256(token));
    Tokens {
        admin_sha256: sha256("mp_admin_1"),
        teams: vec![team("red", "mp_team_r"), team("blue", "mp_team_b")],
        at_once: BTreeMap::new(),
    }
}

fn router() -> Router {
    Router::new()
        .route("/known", on_get(async |Authenticated(caller): Authenticated| caller.owner().to_string()))
        .route("/operator", on_get(async |Operator(caller): Operator| caller.owner().to_string()))
        .route("/agent", on_get(async |AgentToken(token): AgentToken| token))
        .route("/either", on_get(either))
        .with_state(Arc::new(tokens()))
}

async fn either(who: AgentOrCaller) -> String {
    match who {
        AgentOrCaller::Agent(AgentToken(token)) => format!("perhaps an agent with {token}"),
        AgentOrCaller::Caller(caller) => caller.owner().to_string(),
    }
}

#[test]
fn each_token_is_its_owners() {
    let tokens = tokens();
    assert_eq!(tokens.caller("mp_admin_1"), Some(Caller::Operator));
    assert_eq!(tokens.caller("mp_team_r"), Some(Caller::Team(Owner::parse("red").unwrap())));
    assert_eq!(tokens.caller("mp_team_b"), Some(Caller::Team(Owner::parse("blue").unwrap())));
    for unknown in ["", "mp_admin_", "mp_admin_11", "MP_ADMIN_1", "mp_team_g", " mp_admin_1"] {
        assert_eq!(tokens.caller(unknown), None, "{unknown}");
    }
}

#[tokio::test]
async fn a_known_token_is_let_in() {
    let router = router();
    assert_eq!(send(&router, get_with("/known", "Bearer mp_admin_1")).await.text, "operator");
    assert_eq!(send(&router, get_with("/known", "bearer mp_team_b")).await.text, "blue");
    assert_eq!(send(&router, get_with("/operator", "Bearer mp_admin_1")).await.text, "operator");
}

#[tokio::test]
async fn without_a_known_token_nobody_is_let_in() {
    let router = router();
    for path in ["/known", "/operator"] {
        let seen = send(&router, get(path)).await;
        let error = seen.refused(401, Unauthorized);
        assert!(error.hint.contains("Authorization: Bearer"), "{error:?}");
        assert_eq!(seen.header("www-authenticate"), Some("Bearer realm=\"motorpool\""));
        for bad in
            ["Bearer", "Bearer ", "Bearer nobodys", "Basic mp_admin_1", "mp_admin_1", "Bearer mp_admin_1 x"]
        {
            let error = send(&router, get_with(path, bad)).await.refused(401, Unauthorized);
            assert!(!error.message.contains("nobodys") && !error.hint.contains("nobodys"), "{error:?}");
        }
    }
    let twice = Request::get("/known")
        .header("authorization", "Bearer mp_admin_1")
        .header("authorization", "Bearer mp_team_r")
        .body(Body::empty())
        .unwrap();
    send(&router, twice).await.refused(401, Unauthorized);
}

#[tokio::test]
async fn refuse_8_a_runners_token_opens_agent_routes_only() {
    let router = router();
    for token in ["mp_runner_abc", "mp_site_abc"] {
        for path in ["/known", "/operator"] {
            let error =
                send(&router, get_with(path, &format!("Bearer {token}"))).await.refused(403, Forbidden);
            assert!(error.hint.contains("agent routes only"), "{error:?}");
            assert!(!error.message.contains(token), "{error:?}");
        }
        assert_eq!(send(&router, get_with("/agent", &format!("Bearer {token}"))).await.text, token);
    }
    send(&router, get("/agent")).await.refused(401, Unauthorized);
}

#[tokio::test]
async fn what_is_a_runners_own_may_be_asked_of_by_its_agent_or_a_caller() {
    let router = router();
    for (token, told) in [
        ("mp_admin_1", "operator"),
        ("mp_team_r", "red"),
        ("mp_runner_abc", "perhaps an agent with mp_runner_abc"),
        ("nobodys", "perhaps an agent with nobodys"),
    ] {
        assert_eq!(send(&router, get_with("/either", &format!("Bearer {token}"))).await.text, told);
    }
    send(&router, get("/either")).await.refused(401, Unauthorized);
    send(&router, get_with("/either", "Basic mp_admin_1")).await.refused(401, Unauthorized);
}

#[tokio::test]
async fn a_team_is_not_the_operator() {
    send(&router(), get_with("/operator", "Bearer mp_team_r")).await.refused(403, Forbidden);
}

#[test]
fn refuse_17_neither_tokens_nor_hashes_are_shown() {
    let shown = format!("{:?} {:?}", tokens(), AgentToken("mp_runner_abc".to_owned()));
    assert!(shown.contains("red") && !shown.contains("mp_runner_abc"), "{shown}");
    assert!(!shown.contains("admin_sha256"), "{shown}");
}
