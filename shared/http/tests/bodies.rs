//! Bodies, ids and queries that are not right: the envelope says what to send instead.

mod seen;

use axum::Router;
use axum::body::Body as Raw;
use axum::extract::DefaultBodyLimit;
use axum::http::Request;
use axum::routing::{get as on_get, post as on_post};
use motorpool_domain::{ClaimId, PoolName, RunnerId};
use motorpool_http::extract::{Body, Id, QueryParams};
use motorpool_wire::agent::SyncRequest;
use motorpool_wire::api::{ProvisionRequest, RegisterRunnerRequest, ReleaseRequest};
use motorpool_wire::error::ErrorCode::InvalidRequest;
use seen::{get, post, send};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    pool: PoolName,
    limit: Option<u32>,
}

fn router() -> Router {
    Router::new()
        .route("/provision", on_post(async |Body(_): Body<ProvisionRequest>| "taken"))
        .route("/release", on_post(async |Body(_): Body<ReleaseRequest>| "taken"))
        .route("/runners", on_post(async |Body(_): Body<RegisterRunnerRequest>| "taken"))
        .route("/sync", on_post(async |Body(_): Body<SyncRequest>| "taken"))
        .route("/claims/{claim}", on_get(async |Id(claim): Id<ClaimId>| claim.to_string()))
        .route("/of/{runner}", on_get(async |Id(runner): Id<RunnerId>| runner.to_string()))
        .route(
            "/list",
            on_get(async |QueryParams(Query { pool, limit }): QueryParams<Query>| {
                format!("{pool} {limit:?}")
            }),
        )
        .layer(DefaultBodyLimit::max(1024))
}

#[tokio::test]
async fn a_right_body_is_taken() {
    let router = router();
    let seen = send(&router, post("/provision", r#"{"workflow":"gh-1","pool":"small","count":2}"#)).await;
    assert_eq!((seen.status.as_u16(), seen.text.as_str()), (200, "taken"));
    let request = Request::post("/provision")
        .header("content-type", "application/JSON; charset=utf-8")
        .body(Raw::from(r#" {"workflow":"gh-1","pool":"small"} "#))
        .unwrap();
    assert_eq!(send(&router, request).await.status, 200);
}

#[tokio::test]
async fn refuse_18_a_field_that_could_be_a_typo_is_named_with_those_that_there_are() {
    let body = r#"{"workflow":"gh-1","pool":"small","cuont":2}"#;
    let error = send(&router(), post("/provision", body)).await.refused(400, InvalidRequest);
    assert!(error.message.contains("unknown field `cuont`"), "{error:?}");
    assert!(error.message.contains("`count`") && error.message.contains("`workflow`"), "{error:?}");
    assert!(error.hint.contains("openapi.json"), "{error:?}");
}

#[tokio::test]
async fn refuse_18_a_wrong_type_is_named_with_its_place() {
    let router = router();
    let body = r#"{"workflow":"gh-1","pool":"small","count":"two"}"#;
    let error = send(&router, post("/provision", body)).await.refused(400, InvalidRequest);
    assert!(error.message.contains("at count") && error.message.contains("u32"), "{error:?}");

    for count in ["-1", "1.5", "4294967296", "null", "[]", "1e400"] {
        let body = format!(r#"{{"workflow":"gh-1","pool":"small","count":{count}}}"#);
        let error = send(&router, post("/provision", body)).await.refused(400, InvalidRequest);
        assert!(error.message.contains("count"), "{error:?}");
    }

    let error =
        send(&router, post("/provision", r#"{"workflow":"gh-1"}"#)).await.refused(400, InvalidRequest);
    assert!(error.message.contains("missing field `pool`"), "{error:?}");
    for body in ["[]", "null", "\"x\"", "7"] {
        send(&router, post("/provision", body)).await.refused(400, InvalidRequest);
    }
}

#[tokio::test]
async fn an_id_in_a_body_is_refused_with_its_rule() {
    let body = r#"{"workflow":"gh-1","pool":"Small; rm -rf"}"#;
    let error = send(&router(), post("/provision", body)).await.refused(400, InvalidRequest);
    assert!(
        error.message.contains("at pool") && error.message.contains("a pool's name must be"),
        "{error:?}"
    );
}

#[tokio::test]
async fn refuse_12_nobody_sets_what_is_not_his_to_set() {
    let router = router();
    let bodies = [
        ("/provision", r#"{"workflow":"w","pool":"p","#),
        ("/release", r#"{"workflow":"w","#),
        ("/runners", r#"{"runner_id":"mac-01","pool":"p","#),
    ];
    for (path, start) in bodies {
        for field in ["\"state\":\"idle\"", "\"token\":\"x\"", "\"token_sha256\":\"x\"", "\"kept\":true"] {
            let error =
                send(&router, post(path, format!("{start}{field}}}"))).await.refused(400, InvalidRequest);
            assert!(error.message.contains("unknown field"), "{path} {field}: {error:?}");
        }
    }
    for (path, start, field) in [
        ("/provision", bodies[0].1, "\"owner\":\"other\""),
        ("/provision", bodies[0].1, "\"epoch\":7"),
        ("/runners", bodies[2].1, "\"owner\":\"other\""),
        ("/runners", bodies[2].1, "\"epoch\":7"),
    ] {
        send(&router, post(path, format!("{start}{field}}}"))).await.refused(400, InvalidRequest);
    }
}

/// An agent of the next version may say more than this one knows: what is unknown is ignored, and so sets nothing.
#[test]
fn refuse_12_what_an_agent_says_beyond_the_protocol_sets_nothing() {
    let known = r#"{"runner":"mac-01","epoch":1,"boot_id":"b","protocol":3,"agent_version":"1""#;
    let plain: SyncRequest = serde_json::from_str(&format!("{known}}}")).unwrap();
    for field in ["\"state\":\"idle\"", "\"token\":\"x\"", "\"token_sha256\":\"x\"", "\"kept\":true"] {
        let more: SyncRequest = serde_json::from_str(&format!("{known},{field}}}")).unwrap();
        assert_eq!(more, plain, "{field}");
    }
}

#[tokio::test]
async fn refuse_18_malformed_bodies() {
    let router = router();
    for body in [
        "{",
        "{\"workflow\":",
        "workflow=gh-1",
        "{\"workflow\":\"gh-1\",\"pool\":\"p\"} trailing",
        "{\"workflow\":\"gh-1\",\"pool\":\"p\"}{}",
        "{\"workflow\":\"gh-1\",\"workflow\":\"gh-2\",\"pool\":\"p\"}",
        "{\"workflow\":\"\\ud800\",\"pool\":\"p\"}",
        "",
        "  \n",
    ] {
        send(&router, post("/provision", body)).await.refused(400, InvalidRequest);
    }
    let not_utf8: &[u8] = b"{\"workflow\":\"\xff\xfe\",\"pool\":\"p\"}";
    send(&router, post("/provision", not_utf8)).await.refused(400, InvalidRequest);
}

#[tokio::test]
async fn refuse_18_deep_bodies() {
    let router = router();
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for body in [
        deep(500),
        format!("{{\"workflow\":{}}}", deep(400)),
        format!(
            r#"{{"runner":"r","epoch":1,"boot_id":"b","protocol":3,"agent_version":"1","results":{}}}"#,
            deep(400)
        ),
    ] {
        send(&router, post("/provision", body.clone())).await.refused(400, InvalidRequest);
        send(&router, post("/sync", body)).await.refused(400, InvalidRequest);
    }
}

#[tokio::test]
async fn refuse_18_oversized_bodies() {
    let router = router();
    let body = format!(r#"{{"workflow":"{}"}}"#, "a".repeat(2000));
    let error = send(&router, post("/provision", body)).await.refused(413, InvalidRequest);
    assert!(!error.message.contains("aaa"), "{error:?}");
}

#[tokio::test]
async fn a_message_does_not_grow_with_what_it_quotes() {
    let body = format!(r#"{{"workflow":"w","pool":"p","count":"{}"}}"#, "ä".repeat(400));
    let error = send(&router(), post("/provision", body)).await.refused(400, InvalidRequest);
    assert!(error.message.chars().count() <= 601, "{error:?}");
}

#[tokio::test]
async fn only_json_is_read() {
    let router = router();
    for kind in ["application/x-www-form-urlencoded", "text/plain", "application/jsonp"] {
        let request = Request::post("/provision").header("content-type", kind).body(Raw::from("{}")).unwrap();
        let error = send(&router, request).await.refused(415, InvalidRequest);
        assert!(error.hint.contains("application/json"), "{error:?}");
    }
    let bare = Request::post("/provision").body(Raw::from("{}")).unwrap();
    send(&router, bare).await.refused(415, InvalidRequest);
}

#[tokio::test]
async fn an_id_in_a_path_is_refused_with_its_rule() {
    let router = router();
    assert_eq!(send(&router, get("/claims/c-7")).await.text, "c-7");
    for bad in ["7", "c-", "C-7", "c-%00", "c-7%0a", "..%2f..%2fetc", "%ff"] {
        send(&router, get(&format!("/claims/{bad}"))).await.refused(400, InvalidRequest);
    }
    let error = send(&router, get("/claims/seven")).await.refused(400, InvalidRequest);
    assert!(error.message.contains("'c-' followed by"), "{error:?}");
    for bad in ["-x", "a%20b", "a%3bb", "%24(x)"] {
        send(&router, get(&format!("/of/{bad}"))).await.refused(400, InvalidRequest);
    }
}

#[tokio::test]
async fn a_query_is_refused_with_what_is_wrong() {
    let router = router();
    assert_eq!(send(&router, get("/list?pool=small&limit=3")).await.text, "small Some(3)");
    for (query, word) in [
        ("", "pool"),
        ("?limit=3", "pool"),
        ("?pool=Small", "a pool's name must be"),
        ("?pool=small&limit=many", "limit"),
        ("?pool=small&limit=-1", "limit"),
        ("?pool=small&limti=3", "unknown field `limti`"),
        ("?pool=a&pool=b", "duplicate"),
    ] {
        let error = send(&router, get(&format!("/list{query}"))).await.refused(400, InvalidRequest);
        assert!(error.message.contains(word), "{query}: {error:?}");
    }
}
