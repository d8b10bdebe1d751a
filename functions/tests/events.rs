//! Every sample event in `events/` is what its trigger sends, and comes to the right function and route. The functions run here
//! without Lambda, on an in-memory ledger; with Lambda's runtime the tests of `tests/` run them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends here"
)]

use aws_lambda_events::cloudwatch_events::CloudWatchEvent;
use aws_lambda_events::event::sqs::SqsEvent;
use axum::body::to_bytes;
use axum::response::Response;
use lambda_http::request::from_str;
use lambda_http::{Request, Service};
use lambda_runtime::LambdaEvent;
use motorpool_control::{Caller, JobWord, Told};
use motorpool_domain::checkpoint::{CompletedJob, JobOutcome};
use motorpool_domain::ci::CiSystem;
use motorpool_domain::runner::StateName;
use motorpool_domain::{PoolName, RunnerId};
use motorpool_functions::plane::{Plane, without_machines};
use motorpool_functions::routes::{Function, function_of};
use motorpool_functions::settings::FromEnvironment;
use motorpool_functions::{finalize, http, refresh};
use motorpool_ledger::MemoryLedger;
use motorpool_queues::InProcessQueue;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A sample, whose it is, and what a pool `metal` without machines makes of it.
struct Sample {
    file: &'static str,
    function: Function,
    status: u16,
    says: &'static str,
}

const REQUESTS: [Sample; 7] = [
    Sample {
        file: "provision.json",
        function: Function::Provision,
        status: 202,
        says: "\"workflow\":\"gh-123\"",
    },
    Sample { file: "claim.json", function: Function::Claim, status: 404, says: "pool empty" },
    Sample { file: "release.json", function: Function::Release, status: 404, says: "gh-123" },
    Sample {
        file: "gateway-claim.json",
        function: Function::Gateway,
        status: 404,
        says: "no claim c-0123456789abcdef",
    },
    Sample { file: "gateway-sync.json", function: Function::Gateway, status: 401, says: "unauthorized" },
    Sample { file: "webhook-github.json", function: Function::Webhook, status: 200, says: "\"ok\":true" },
    Sample { file: "webhook-gitlab.json", function: Function::Webhook, status: 200, says: "\"ok\":true" },
];
const SCHEDULED: &str = "refresh.json";
const QUEUED: &str = "finalize.json";

#[tokio::test]
async fn each_request_comes_to_its_function_and_route() {
    for Sample { file, function, status, says } in REQUESTS {
        let request = from_str(&read(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(function_of(request.uri().path()), function, "{file}");
        let answer = http::service(function, plane().await.router()).call(request).await.unwrap();
        let (found, text) = told(answer).await;
        assert_eq!(found, status, "{file}: {text}");
        assert!(text.contains(says), "{file}: {text}");
    }
}

/// A function's address opens no more than that function is for.
#[tokio::test]
async fn a_request_for_another_function_is_refused() {
    for Sample { file, function, .. } in REQUESTS {
        for other in Function::ALL.into_iter().filter(|other| *other != function && other.answers_http()) {
            let request = from_str(&read(file)).unwrap();
            let (status, text) =
                told(http::service(other, plane().await.router()).call(request).await.unwrap()).await;
            assert_eq!(status, 404, "{file} at {other:?}: {text}");
            assert!(text.contains(&format!("the function {} has no route", other.name())), "{text}");
        }
    }
}

#[tokio::test]
async fn a_schedules_event_makes_one_pass_whatever_it_says() {
    let event: CloudWatchEvent = serde_json::from_str(&read(SCHEDULED)).unwrap();
    assert_eq!(event.source.as_deref(), Some("aws.scheduler"));
    assert_eq!(event.detail_type.as_deref(), Some("Scheduled Event"));
    for text in [
        read(SCHEDULED),
        "{}".to_owned(),
        "null".to_owned(),
        json!({"sweep": "now", "pools": []}).to_string(),
    ] {
        let ignored: IgnoredAny = serde_json::from_str(&text).unwrap();
        let event = LambdaEvent::new(ignored, lambda_runtime::Context::default());
        let report = refresh::service(plane().await.control()).call(event).await.unwrap();
        assert!(report.swept, "nobody has swept this ledger yet: {report:?}");
    }
}

/// The first and the last message of the sample are of runners that are gone, which is nothing to do; the second can't be read, and is the only one that
/// comes again.
#[tokio::test]
async fn fault_18_of_a_batch_only_what_failed_comes_again() {
    let event: SqsEvent = serde_json::from_str(&read(QUEUED)).unwrap();
    let ids: Vec<String> = event.records.iter().map(|message| message.message_id.clone().unwrap()).collect();
    let event = LambdaEvent::new(event, lambda_runtime::Context::default());
    let answer = finalize::service(plane().await.control()).call(event).await.unwrap();
    let answer = serde_json::to_value(answer).unwrap();
    assert_eq!(answer, json!({"batchItemFailures": [{"itemIdentifier": ids[1]}]}));
}

/// The first message of the sample names a machine whose job was said to be over by somebody who does not attend to machines.
#[tokio::test]
async fn a_notice_has_its_machine_attended_to() {
    let plane = plane().await;
    let control = plane.control();
    let settings = json!({"backend": "bare_metal", "dispatch": "hook", "clean": "keep"});
    let settings = serde_json::from_value(settings).unwrap();
    control.put_pool(&Caller::Operator, PoolName::parse("kept").unwrap(), settings).await.unwrap();
    let request = json!({"runner_id": "mac-01", "pool": "kept", "credential": "token"});
    let request = serde_json::from_value(request).unwrap();
    let token = control.register_runner(&Caller::Operator, request).await.unwrap().token.unwrap();
    let job = json!({"job_id": "1977", "project": "380"});
    let begun = control.create_checkpoint(&token, serde_json::from_value(job).unwrap()).await.unwrap();
    let ended = CompletedJob {
        id: begun.job_id,
        projects: vec!["380".to_owned()],
        attempt: None,
        runners: vec!["mac-01".to_owned()],
        ended_at: None,
        status: JobOutcome::Success,
    };
    let told = control.job_told(CiSystem::GitLab, None, &ended).await.unwrap();
    assert_eq!(told, Told::Word(JobWord::Queued));
    let mac: RunnerId = "mac-01".parse().unwrap();
    let state = async || control.view_runner(&Caller::Operator, &mac).await.unwrap().state;
    assert_eq!(state().await, StateName::Releasing);
    let event: SqsEvent = serde_json::from_str(&read(QUEUED)).unwrap();
    let event = LambdaEvent::new(event, lambda_runtime::Context::default());
    finalize::service(plane.control()).call(event).await.unwrap();
    assert_eq!(state().await, StateName::Idle);
    let seen = control.any_checkpoint_status(&Caller::Operator, &begun.name).await.unwrap();
    assert_eq!(seen.state, "deleted");
}

/// A sample that no test reads would rot.
#[test]
fn every_sample_is_covered() {
    let covered: BTreeSet<String> =
        REQUESTS.iter().map(|sample| sample.file).chain([SCHEDULED, QUEUED]).map(str::to_owned).collect();
    let found: BTreeSet<String> = std::fs::read_dir(events())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(found, covered);
}

/// Decoded or not: what a path held must not become another path.
#[tokio::test]
async fn a_path_is_taken_as_it_was_sent() {
    for (path, status, says) in [
        ("/api/v1/pools/../provision", 404, "no route GET /api/v1/pools/../provision"),
        ("/api/v1/pools/a\nb", 400, "pool"),
        ("/api/v1/pools/a?b=c", 400, "pool"),
        ("/api/v1/pools/a b", 400, "pool"),
        ("/api/v1/pools/a\0b", 400, "pool"),
        ("/api/v1/pools/a%20b", 400, "pool"),
        ("/api/v1/pools/\u{202e}ab", 400, "pool"),
        ("/api/v1/pools/a\\b", 400, "pool"),
        ("/api/v1/pools/%zz", 400, "pool"),
        ("/api/v1/pools/metal", 200, "\"pool\":\"metal\""),
        ("api/v1/pools/metal", 200, "\"pool\":\"metal\""),
        ("", 404, "no route GET /"),
    ] {
        let answer = http::service(Function::Gateway, plane().await.router()).call(get(path)).await.unwrap();
        let (found, text) = told(answer).await;
        assert_eq!(found, status, "{path:?}: {text}");
        assert!(text.contains(says), "{path:?}: {text}");
    }
}

#[tokio::test]
async fn an_answer_carries_the_invocations_id_or_the_callers() {
    use lambda_http::RequestExt;
    let mut context = lambda_runtime::Context::default();
    context.request_id = "7a1c2f1e-6d5b".to_owned();
    for (given, expected) in [(None, "7a1c2f1e-6d5b"), (Some("mine"), "mine")] {
        let mut request = get("/health").with_lambda_context(context.clone());
        if let Some(given) = given {
            request.headers_mut().insert("x-request-id", given.parse().unwrap());
        }
        let answer = http::service(Function::Gateway, plane().await.router()).call(request).await.unwrap();
        assert_eq!(answer.headers()["x-request-id"], expected);
    }
}

fn get(path: &str) -> Request {
    let mut event: Value = serde_json::from_str(&read("gateway-claim.json")).unwrap();
    event["rawPath"] = json!(path);
    event["rawQueryString"] = json!("");
    event["requestContext"]["http"]["path"] = json!(path);
    from_str(&event.to_string()).unwrap()
}

async fn told(answer: Response) -> (u16, String) {
    let status = answer.status().as_u16();
    let bytes = to_bytes(answer.into_body(), 1_000_000).await.unwrap();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

/// With the samples' token, and a pool of machines that nobody has registered.
async fn plane() -> Plane {
    let from = FromEnvironment::read(|name| match name {
        "MOTORPOOL_ADMIN_TOKEN" => Some("mp_admin_of_the_sample_events".to_owned()),
        "MOTORPOOL_SERVER_SECRET" => Some("mp_server_of_the_sample_events_0123456789".to_owned()),
        "MOTORPOOL_GITHUB_WEBHOOK_SECRET" | "MOTORPOOL_GITLAB_WEBHOOK_SECRET" => {
            Some("webhook_secret_of_the_sample_events".to_owned())
        }
        _ => None,
    });
    let plane = Plane::new(
        Arc::new(MemoryLedger::default()),
        Arc::new(InProcessQueue::default()),
        without_machines(),
        from.unwrap(),
    );
    let settings =
        serde_json::from_value(json!({"backend": "bare_metal", "cleanup_cmd": "true", "max": 10})).unwrap();
    plane.control().put_pool(&Caller::Operator, PoolName::parse("metal").unwrap(), settings).await.unwrap();
    plane
}

fn read(file: &str) -> String {
    std::fs::read_to_string(events().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn events() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../events")
}
