//! What a team's limits and a pool's teams come to over the whole router.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on ends here")]

mod seen;
mod site;

use motorpool_domain::Owner;
use motorpool_domain::claim::TeamLimits;
use motorpool_wire::error::ErrorCode::{Forbidden, InvalidRequest, TooManyRequests};
use serde_json::{Value, json};
use site::{Site, TEAM, site_with_teams};
use std::collections::BTreeMap;

fn red(limits: TeamLimits) -> Site {
    let blue = (Owner::parse("blue").unwrap(), TeamLimits::default());
    site_with_teams(BTreeMap::from([(Owner::parse("red").unwrap(), limits), blue]))
}

fn ask(workflow: &str) -> Value {
    json!({"workflow": workflow, "pool": "macs"})
}

#[tokio::test]
async fn refuse_24_one_open_claim_more_than_a_team_may_have_is_a_429_that_says_so() {
    let site = red(TeamLimits { max_open_claims: 1, ..TeamLimits::default() }).with_a_machine().await;
    site.ask("POST", "/api/v1/provision", TEAM, &ask("gh-1")).await.json(202);
    let refused = site.ask("POST", "/api/v1/provision", TEAM, &ask("gh-2")).await;
    let said = "team red has 1 of its 1 open claims (max_open_claims)";
    let error = refused.refused(429, TooManyRequests);
    assert!(error.message.contains(said), "{error:?}");
    site.as_admin("POST", "/api/v1/provision", &ask("gh-2")).await.json(202);
}

#[tokio::test]
async fn refuse_24_why_says_which_limit_of_its_team_a_claim_waits_for() {
    let site = red(TeamLimits { max_slots: Some(1), ..TeamLimits::default() }).with_a_machine().await;
    site.work().await;
    site.ask("POST", "/api/v1/provision", TEAM, &ask("gh-1")).await.json(202);
    let waits = site.ask("POST", "/api/v1/provision", TEAM, &ask("gh-2")).await.json(202);
    let path = format!("/api/v1/claims/{}/why", waits["claim"].as_str().unwrap());
    let why = site.ask("GET", &path, TEAM, &Value::Null).await.json(200);
    assert!(why["why"].as_str().unwrap().contains("team red uses 1 of its 1 slots"), "{why}");
    let refused = site.ask("POST", "/api/v1/claim", TEAM, &ask("gh-3")).await;
    let error = refused.refused(429, TooManyRequests);
    assert!(error.message.contains("team red uses 1 of its 1 slots"), "{error:?}");
}

#[tokio::test]
async fn refuse_09_a_pool_of_another_team_is_neither_used_nor_seen() {
    let site = red(TeamLimits::default());
    let pool = |teams: Value| json!({"backend": "bare_metal", "clean": "keep", "teams": teams});
    let unknown = site.as_admin("PUT", "/api/v1/pools/macs", &pool(json!(["green"]))).await;
    let error = unknown.refused(400, InvalidRequest);
    assert!(error.message.contains("there is no team green"), "{error:?}");
    site.as_admin("PUT", "/api/v1/pools/macs", &pool(json!([]))).await.refused(400, InvalidRequest);
    let shown = site.as_admin("PUT", "/api/v1/pools/macs", &pool(json!(["blue"]))).await.json(200);
    assert_eq!(shown["teams"], json!(["blue"]));
    for (method, path, body) in [
        ("POST", "/api/v1/provision", ask("gh-1")),
        ("POST", "/api/v1/claim", ask("gh-1")),
        ("GET", "/api/v1/pools/macs", Value::Null),
    ] {
        site.ask(method, path, TEAM, &body).await.refused(403, Forbidden);
    }
    let listed = site.ask("GET", "/api/v1/pools", TEAM, &Value::Null).await.json(200);
    assert_eq!(listed["pools"], json!([]));
    site.as_admin("PUT", "/api/v1/pools/macs", &pool(json!(["blue", "red"]))).await.json(200);
    site.ask("POST", "/api/v1/provision", TEAM, &ask("gh-1")).await.json(202);
    let seen = site.ask("GET", "/api/v1/pools/macs", TEAM, &Value::Null).await.json(200);
    assert_eq!(seen.get("teams"), None, "which other teams there are is the operator's to know");
}
