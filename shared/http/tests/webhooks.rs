//! Webhooks over the whole router: who is let in, what it changes, and what the same one changes again.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on ends here")]

mod seen;
mod sent;
mod site;

use axum::http::Request;
use motorpool_http::HttpLimits;
use motorpool_wire::error::ErrorCode::{InvalidRequest, NotFound, Unauthorized};
use seen::{Seen, send};
use sent::{GITHUB, SECRET, SIGNING_TOKEN, github_event, gitlab_event, hex_mac, sent_by_github};
use serde_json::{Value, json};
use site::{RUNNER, Site, site, site_with_webhooks};

const FUTURE: &str = "2100-01-01T00:00:00Z";
const PAST: &str = "2020-01-01T00:00:00Z";

/// A machine whose job has a checkpoint; its name. The job is GitHub's run 2202229078 and GitLab's job 1977 in one.
async fn with_a_job(job: &Value) -> (Site, String) {
    let site = site_with_webhooks(sent::secrets(SECRET), HttpLimits::default())
        .with_a_machine_of(&json!({"backend": "bare_metal", "clean": "keep", "dispatch": "hook"}))
        .await;
    site.work().await;
    let name = begin(&site, job).await;
    (site, name)
}

async fn begin(site: &Site, job: &Value) -> String {
    let made = site.ask("POST", "/api/v1/checkpoint/create", RUNNER, job).await.json(201);
    made["name"].as_str().unwrap().to_owned()
}

fn github_job() -> Value {
    json!({"job_id": "2202229078", "project": "octo/app", "attempt": 1})
}

async fn checkpoint(site: &Site, name: &str) -> Value {
    site.ask("GET", &format!("/api/v1/checkpoint/status/{name}"), RUNNER, &Value::Null).await.json(200)
}

#[track_caller]
fn taken(seen: &Seen) {
    assert_eq!(seen.json(200), json!({"ok": true}));
}

#[tokio::test]
async fn a_completed_job_of_github_finalizes_its_checkpoint() {
    let (site, name) = with_a_job(&github_job()).await;
    taken(&sent_by_github(&site.router, "1", &github_event("mac-01", "success", FUTURE)).await);
    let seen = checkpoint(&site, &name).await;
    assert_eq!(seen["state"], "finalize_queued", "{seen}");
    assert_eq!((&seen["finalize_status"], &seen["finalize_source"]), (&json!("success"), &json!("webhook")));
}

#[tokio::test]
async fn a_job_at_its_end_finalizes_its_checkpoint_under_either_name_of_its_project() {
    for project in [json!("380"), json!("gitlab-org/gitlab-test")] {
        let (site, name) = with_a_job(&json!({"job_id": "1977", "project": project})).await;
        taken(&sent::by_gitlab(&site.router, SECRET, &gitlab_event("canceled")).await);
        let seen = checkpoint(&site, &name).await;
        assert_eq!(
            (&seen["state"], &seen["finalize_status"]),
            (&json!("finalize_queued"), &json!("canceled"))
        );
    }
}

/// Of a pool that has no CI system of its own, a job of this number may be anybody's.
#[tokio::test]
async fn refuse_01_a_word_is_not_taken_for_a_job_that_nobody_knows_the_project_of() {
    let (site, name) = with_a_job(&json!({"job_id": "1977"})).await;
    taken(&sent::by_gitlab(&site.router, SECRET, &gitlab_event("canceled")).await);
    assert_eq!(checkpoint(&site, &name).await["state"], "created");
}

/// Another job's word, or one that is none: 200 all the same, so that its sender does not stop sending.
#[tokio::test]
async fn what_concerns_no_job_here_is_taken_and_changes_nothing() {
    let (site, name) = with_a_job(&github_job()).await;
    let event = || github_event("mac-01", "failure", FUTURE);
    let with = |pointer: &str, value: Value| {
        let mut event = event();
        *event.pointer_mut(pointer).unwrap() = value;
        event
    };
    for (what, event) in [
        ("another runner's", github_event("mac-02", "failure", FUTURE)),
        ("another run's", with("/workflow_job/run_id", json!(7))),
        ("another try's", with("/workflow_job/run_attempt", json!(2))),
        ("another repository's", with("/repository/full_name", json!("octo/other"))),
        ("one that no runner had", with("/workflow_job/runner_id", json!(0))),
        ("one that goes on", with("/action", json!("in_progress"))),
    ] {
        taken(&sent_by_github(&site.router, what, &event).await);
        assert_eq!(checkpoint(&site, &name).await["state"], "created", "{what}");
    }
    let ping = sent::signed("ping", "1", json!({"zen": "Keep it logically awesome."}).to_string());
    taken(&send(&site.router, ping).await);
    taken(&sent::by_gitlab(&site.router, SECRET, &gitlab_event("failed")).await);
    assert_eq!(checkpoint(&site, &name).await["state"], "created");
}

#[tokio::test]
async fn fault_28_a_late_word_of_an_earlier_job_of_the_run_does_not_end_the_present_one() {
    let (site, name) = with_a_job(&github_job()).await;
    taken(&sent_by_github(&site.router, "1", &github_event("mac-01", "failure", PAST)).await);
    assert_eq!(checkpoint(&site, &name).await["state"], "created");
}

#[tokio::test]
async fn fault_10_the_order_of_events_does_not_matter() {
    let (site, name) = with_a_job(&github_job()).await;
    let completed = github_event("mac-01", "success", FUTURE);
    let mut in_progress = completed.clone();
    in_progress["action"] = json!("in_progress");
    taken(&sent_by_github(&site.router, "2", &completed).await);
    taken(&sent_by_github(&site.router, "1", &in_progress).await);
    assert_eq!(checkpoint(&site, &name).await["finalize_status"], "success");
    // A failure overrides a success until the cleaning has begun, and not the other way round.
    taken(&sent_by_github(&site.router, "3", &github_event("mac-01", "failure", FUTURE)).await);
    assert_eq!(checkpoint(&site, &name).await["finalize_status"], "failure");
    taken(&sent_by_github(&site.router, "4", &completed).await);
    assert_eq!(checkpoint(&site, &name).await["finalize_status"], "failure");
}

#[tokio::test]
async fn refuse_02_a_replayed_delivery_changes_nothing() {
    let (site, name) = with_a_job(&github_job()).await;
    taken(&sent_by_github(&site.router, "72d3162e-cc78", &github_event("mac-01", "success", FUTURE)).await);
    // The body is another, to show that nobody looks at it.
    taken(&sent_by_github(&site.router, "72d3162e-cc78", &github_event("mac-01", "failure", FUTURE)).await);
    assert_eq!(checkpoint(&site, &name).await["finalize_status"], "success");
    taken(&sent_by_github(&site.router, "72d3162e-cc79", &github_event("mac-01", "failure", FUTURE)).await);
    assert_eq!(checkpoint(&site, &name).await["finalize_status"], "failure");
}

/// GitLab names a delivery by a header of its own, or by the id that it has signed.
#[tokio::test]
async fn refuse_02_a_replayed_delivery_of_gitlab_changes_nothing() {
    for signs in [false, true] {
        let secret = if signs { SIGNING_TOKEN } else { SECRET };
        let site = site_with_webhooks(sent::secrets(secret), HttpLimits::default())
            .with_a_machine_of(&json!({"backend": "bare_metal", "clean": "keep", "dispatch": "hook"}))
            .await;
        site.work().await;
        let name = begin(&site, &json!({"job_id": "1977", "project": "380"})).await;
        let tell = async |status: &str| {
            let event = gitlab_event(status);
            let seen = match signs {
                true => send(&site.router, sent::signed_by_gitlab(secret, 0, &event, |whole| whole)).await,
                false => sent::by_gitlab(&site.router, secret, &event).await,
            };
            taken(&seen);
        };
        tell("success").await;
        // The body is another, to show that nobody looks at it.
        tell("failed").await;
        assert_eq!(checkpoint(&site, &name).await["finalize_status"], "success", "signed: {signs}");
    }
}

/// It had no effect, and the job's checkpoint may show a moment later.
#[tokio::test]
async fn a_delivery_about_an_unknown_job_may_come_again() {
    let (site, name) = with_a_job(&json!({"job_id": "1977", "project": "381"})).await;
    let event = |project: u64| {
        let mut event = gitlab_event("success");
        event["project_id"] = json!(project);
        event
    };
    taken(&sent::by_gitlab(&site.router, SECRET, &event(7)).await);
    assert_eq!(checkpoint(&site, &name).await["state"], "created");
    taken(&sent::by_gitlab(&site.router, SECRET, &event(381)).await);
    assert_eq!(checkpoint(&site, &name).await["state"], "finalize_queued");
}

#[tokio::test]
async fn refuse_01_what_github_has_not_signed_is_refused_and_changes_nothing() {
    let (site, name) = with_a_job(&github_job()).await;
    let body = github_event("mac-01", "success", FUTURE).to_string();
    let good = hex_mac(SECRET, body.as_bytes());
    let other_body = hex_mac(SECRET, body.replace("success", "failure").as_bytes());
    for (what, header, value) in [
        ("missing", "x-nothing", String::new()),
        ("wrong", GITHUB, format!("sha256={}", "0".repeat(64))),
        (
            "of another secret",
            GITHUB,
            format!("sha256={}", hex_mac("another secret of ours", body.as_bytes())),
        ),
        ("of another body", GITHUB, format!("sha256={other_body}")),
        ("truncated", GITHUB, format!("sha256={}", &good[..62])),
        ("nothing but its name", GITHUB, "sha256=".to_owned()),
        ("longer", GITHUB, format!("sha256={good}00")),
        ("without its name", GITHUB, good.clone()),
        ("of another algorithm", GITHUB, format!("sha1={}", &good[..40])),
        ("said to be of another algorithm", GITHUB, format!("sha1={good}")),
        ("in the older header", "x-hub-signature", format!("sha256={good}")),
    ] {
        let request = Request::post("/api/v1/webhooks/github")
            .header("content-type", "application/json")
            .header("x-github-event", "workflow_job")
            .header(header, value)
            .body(body.clone().into())
            .unwrap();
        let error = send(&site.router, request).await.refused(401, Unauthorized);
        assert!(!format!("{error:?}").contains(&good), "{what}");
        assert_eq!(checkpoint(&site, &name).await["state"], "created", "{what}");
    }
    let twice = Request::post("/api/v1/webhooks/github")
        .header("x-github-event", "workflow_job")
        .header(GITHUB, format!("sha256={good}"))
        .header(GITHUB, format!("sha256={}", "0".repeat(64)));
    send(&site.router, twice.body(body.into()).unwrap()).await.refused(401, Unauthorized);
}

#[tokio::test]
async fn refuse_01_what_gitlab_does_not_vouch_for_is_refused() {
    let (site, name) = with_a_job(&json!({"job_id": "1977", "project": "380"})).await;
    let event = gitlab_event("success");
    for token in ["", "wrong", &SECRET[1..], &format!("{SECRET}x")] {
        sent::by_gitlab(&site.router, token, &event).await.refused(401, Unauthorized);
    }
    // A signature that only a signing token could make does not stand in for the token.
    let signed = sent::signed_by_gitlab(SIGNING_TOKEN, 0, &event, |signature| signature);
    send(&site.router, signed).await.refused(401, Unauthorized);
    assert_eq!(checkpoint(&site, &name).await["state"], "created");
    taken(&sent::by_gitlab(&site.router, SECRET, &event).await);
    assert_eq!(checkpoint(&site, &name).await["state"], "finalize_queued", "the same with its token");
}

#[tokio::test]
async fn refuse_01_a_signature_of_gitlab_is_over_id_time_and_body_and_good_for_five_minutes() {
    let secrets = sent::secrets(SIGNING_TOKEN);
    let site = site_with_webhooks(secrets, HttpLimits::default());
    let event = gitlab_event("success");
    let ask = async |token: &str, late_s: i64, change: fn(String) -> String| {
        send(&site.router, sent::signed_by_gitlab(token, late_s, &event, change)).await
    };
    taken(&ask(SIGNING_TOKEN, 0, |signature| signature).await);
    taken(&ask(SIGNING_TOKEN, 240, |signature| signature).await);
    taken(&ask(SIGNING_TOKEN, -240, |signature| signature).await);
    taken(&ask(SIGNING_TOKEN, 0, |signature| format!("v1,AAAA v2,x {signature}")).await);
    let other = "whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";
    ask(other, 0, |signature| signature).await.refused(401, Unauthorized);
    ask(SIGNING_TOKEN, 360, |signature| signature).await.refused(401, Unauthorized);
    ask(SIGNING_TOKEN, -360, |signature| signature).await.refused(401, Unauthorized);
    for change in [
        |_| String::new(),
        |signature: String| signature.replace("v1,", ""),
        |signature: String| signature.replace("v1,", "v2,"),
        |signature: String| signature[..20].to_owned(),
        |_| "v1,".to_owned(),
    ] as [fn(String) -> String; 5]
    {
        ask(SIGNING_TOKEN, 0, change).await.refused(401, Unauthorized);
    }
    // The signing token itself, in the clear, opens nothing.
    sent::by_gitlab(&site.router, SIGNING_TOKEN, &event).await.refused(401, Unauthorized);
}

#[tokio::test]
async fn without_a_secret_nothing_is_taken() {
    let site = site(HttpLimits::default());
    let unsigned = seen::post("/api/v1/webhooks/github", "{}");
    send(&site.router, unsigned).await.refused(401, Unauthorized);
    let signed = sent::signed("push", "1", "{}".to_owned());
    let with_no_proof = seen::post("/api/v1/webhooks/gitlab", "{}");
    for (request, table) in [(signed, "[github]"), (with_no_proof, "[gitlab]")] {
        let error = send(&site.router, request).await.refused(404, NotFound);
        assert!(error.hint.contains("webhook_secret_file") && error.hint.contains(table), "{error:?}");
    }
}

#[tokio::test]
async fn refuse_18_what_is_too_long_or_no_event_is_refused() {
    let site = site_with_webhooks(sent::secrets(SECRET), HttpLimits::default());
    let long = sent::signed("push", "1", "x".repeat(256 * 1024 + 1));
    send(&site.router, long).await.refused(413, InvalidRequest);
    taken(&send(&site.router, sent::signed("push", "1", "x".repeat(256 * 1024))).await);
    for body in ["", "{", "[]", "{}", r#"{"action":"completed"}"#, &"[".repeat(10_000)] {
        send(&site.router, sent::signed("workflow_job", "1", body.to_owned()))
            .await
            .refused(400, InvalidRequest);
    }
    let mut form = sent::signed("workflow_job", "1", "payload=%7B%7D".to_owned());
    form.headers_mut().insert("content-type", "application/x-www-form-urlencoded".parse().unwrap());
    let error = send(&site.router, form).await.refused(415, InvalidRequest);
    assert!(error.hint.contains("application/json"), "{error:?}");
}

/// Its places are its own: where there are none, only webhooks are refused.
#[tokio::test]
async fn refuse_24_a_flood_of_webhooks_costs_nobody_else() {
    let limits = HttpLimits { webhooks_at_once: 0, ..HttpLimits::default() };
    let site = site_with_webhooks(sent::secrets(SECRET), limits);
    let seen = send(&site.router, sent::signed("ping", "1", "{}".to_owned())).await;
    assert_eq!(seen.status.as_u16(), 429);
    site.as_admin("GET", "/api/v1/pools", &Value::Null).await.json(200);
    send(&site.router, seen::get("/health")).await.json(200);
}
