//! GitHub's own examples of what its webhooks send, each signed and sent to the whole router: every one is taken, and those that say a job has ended on a
//! runner are understood so, and no others.

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hmac::{Hmac, KeyInit, Mac};
use motorpool_ci_tests::server;
use motorpool_control::ports::backend::Backends;
use motorpool_control::ports::ci::CiSystems;
use motorpool_control::ports::clock::SystemClock;
use motorpool_control::ports::entropy::SystemEntropy;
use motorpool_control::{Control, Parts, ServerSecret, Settings};
use motorpool_domain::checkpoint::JobOutcome;
use motorpool_domain::spec::Spec;
use motorpool_http::webhook::{GitHubSecret, github_job};
use motorpool_http::{HttpLimits, HttpState, Notifier, Tokens, WebhookSecrets, router};
use motorpool_ledger::MemoryLedger;
use motorpool_queues::InProcessQueue;
use serde_json::Value;
use sha2::Sha256;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tower::ServiceExt;

const EXAMPLES: &str = "MOTORPOOL_WEBHOOK_EXAMPLES";
const SECRET: &str = "It's a Secret to Everybody";

/// Each with the name of its event.
fn examples() -> Vec<(String, Value)> {
    let file = server(EXAMPLES);
    let text = std::fs::read(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let events: Vec<Value> = serde_json::from_slice(&text).expect("a list of events");
    let of_event = |event: &Value| {
        let name = event["name"].as_str().expect("a name").to_owned();
        let examples = event["examples"].as_array().expect("examples").clone();
        examples.into_iter().map(move |example| (name.clone(), example))
    };
    events.iter().flat_map(of_event).collect()
}

fn control_plane() -> Router {
    let notifier = Arc::new(Notifier::default());
    let control = Control::new(Parts {
        ledger: Arc::new(MemoryLedger::new()),
        queue: Arc::new(InProcessQueue::default()),
        backends: Backends::default(),
        ci: CiSystems::default(),
        alerts: None,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        doorbell: Arc::clone(&notifier) as _,
        secret: ServerSecret::new(b"server secret"),
        settings: Settings {
            refresh: Duration::from_secs(30),
            sweep: Duration::from_secs(300),
            resource_classes: BTreeMap::new(),
            host: Spec { cpu: 2, memory_mb: 4096 },
            teams: BTreeMap::new(),
        },
    });
    let github = GitHubSecret::parse(SECRET.into()).expect("a secret");
    router(HttpState {
        control: Arc::new(control),
        tokens: Tokens { admin_sha256: [0; 32], teams: Vec::new(), at_once: BTreeMap::new() },
        webhooks: WebhookSecrets { github: Some(github), gitlab: None },
        notifier,
        limits: HttpLimits::default(),
    })
}

fn signed(event: &str, number: usize, body: String) -> Request<Body> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(SECRET.as_bytes()).expect("any key");
    mac.update(body.as_bytes());
    let signature: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    Request::post("/api/v1/webhooks/github")
        .header("content-type", "application/json")
        .header("x-github-event", event)
        .header("x-github-delivery", format!("72d3162e-cc78-11e3-81ab-{number:012}"))
        .header("x-hub-signature-256", format!("sha256={signature}"))
        .body(body.into())
        .expect("a request")
}

#[tokio::test]
async fn every_example_is_taken() {
    let (router, examples) = (control_plane(), examples());
    assert!(examples.len() > 300, "only {} examples", examples.len());
    for (number, (event, example)) in examples.into_iter().enumerate() {
        let answer = router.clone().oneshot(signed(&event, number, example.to_string())).await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status().as_u16(), 200, "{event}: {example:#}");
    }
}

#[test]
fn the_completed_jobs_are_understood_and_nothing_else_is() {
    let mut outcomes = Vec::new();
    for (event, example) in examples() {
        let job = github_job(&event, example.to_string().as_bytes()).expect(&event);
        let (told, run) = (&example["workflow_job"], &example["workflow_job"]["run_id"]);
        let is_one = event == "workflow_job" && example["action"] == "completed" && told["runner_id"] != 0;
        assert_eq!(job.is_some(), is_one, "{event}: {example:#}");
        let Some(job) = job else { continue };
        assert_eq!(job.id.as_str(), run.to_string());
        assert_eq!(job.projects, [example["repository"]["full_name"].as_str().expect("a name")]);
        assert_eq!(job.attempt.map(u64::from), told["run_attempt"].as_u64());
        assert!(job.runners.iter().any(|name| told["runner_name"] == name.as_str()), "{job:?}");
        assert!(job.ended_at.is_some(), "{job:?}");
        outcomes.push(job.status);
    }
    assert_eq!(outcomes, [JobOutcome::Failure, JobOutcome::Success]);
}
