//! The agent on an EC2 instance: who it is, what it is told will happen to it, and its end.

use axum::http::{Method, StatusCode};
use motorpool_domain::runner::Notice;

use crate::control_plane::{Bench, Goal, Plan};
use crate::imds::FakeImds;

const STAYS: &str = "touch up; exec sleep 1000";

async fn start(bench: &mut Bench, imds: &FakeImds, more: &[&str]) {
    let who = ["--ec2", "--launch", "l-abc", "--from", "2", "--metadata-url", &imds.address];
    bench.start_agent_as(&[&who, more].concat());
}

#[tokio::test]
async fn an_instance_joins_as_the_runner_of_its_launch_and_ends_without_credentials() {
    let mut bench = Bench::new(Plan::run(STAYS)).await;
    let imds = FakeImds::new("i-0123456789abcdef0", 3).await;
    imds.now().failures = 3;
    bench.seen().bootstrap_failures = vec![StatusCode::CONFLICT, StatusCode::CONFLICT];
    start(&mut bench, &imds, &[]).await;
    bench.until_file("agent/work/up").await;
    {
        let seen = bench.seen();
        assert_eq!(seen.bootstraps.len(), 3, "its launch may not be noted yet");
        for request in &seen.bootstraps {
            assert_eq!(
                (request.runner.as_str(), request.machine_id.as_str()),
                ("r-abc-5", "i-0123456789abcdef0")
            );
        }
        assert_eq!(seen.syncs[0].runner.as_str(), "r-abc-5");
    }
    bench.want(Goal::End);
    assert!(bench.agent_exit().await.success());
    assert!(bench.path("host-ended").exists());
    let calls = imds.now().seen.clone();
    assert!(
        calls.iter().all(|call| !call.path.contains("iam") && !call.path.contains("user-data")),
        "{calls:?}"
    );
    assert!(
        calls.iter().all(|call| call.status != StatusCode::UNAUTHORIZED),
        "never without a token: {calls:?}"
    );
}

#[tokio::test]
async fn refuse_16_a_service_without_session_tokens_is_asked_for_nothing_else() {
    for status in [StatusCode::FORBIDDEN, StatusCode::METHOD_NOT_ALLOWED, StatusCode::TEMPORARY_REDIRECT] {
        let mut bench = Bench::new(Plan::run(STAYS)).await;
        let imds = FakeImds::new("i-0123456789abcdef0", 0).await;
        imds.now().no_tokens = Some(status);
        start(&mut bench, &imds, &["--first-contact-seconds", "1"]).await;
        assert!(bench.agent_exit().await.success());
        assert!(bench.path("host-ended").exists(), "nobody would ask for it");
        assert!(bench.seen().bootstraps.is_empty());
        let calls = imds.now().seen.clone();
        assert!(!calls.is_empty());
        for call in calls {
            assert_eq!((call.method, call.path.as_str()), (Method::PUT, "/latest/api/token"), "{status}");
        }
        assert!(bench.log().contains("version 1, which needs none, is not used"), "{}", bench.log());
    }
}

#[tokio::test]
async fn fault_12_a_notice_is_told_in_a_sync_and_a_worse_one_too() {
    let mut bench = Bench::new(Plan::run(STAYS)).await;
    let imds = FakeImds::new("i-0123456789abcdef0", 0).await;
    imds.now().items.insert("spot/instance-action", "<html>not now</html>".to_owned());
    start(&mut bench, &imds, &[]).await;
    bench.until_sync("it is registered", |sync| sync.registered.is_some()).await;
    let asked = || imds.now().seen.iter().any(|call| call.path.ends_with("instance-action"));
    bench.eventually("it was asked for", |_bench| asked()).await;
    assert!(
        bench.seen().syncs.iter().all(|sync| sync.notice.is_none()),
        "what is not understood is no notice"
    );

    let time = "2026-11-16T08:22:00Z";
    {
        // It also forgets its sessions.
        let mut now = imds.now();
        now.tokens.clear();
        now.items.remove("spot/instance-action");
        now.items.insert("events/recommendations/rebalance", format!(r#"{{"noticeTime": "{time}"}}"#));
    }
    bench.until_sync("it is told", |sync| sync.notice == Some(Notice::Rebalance)).await;
    let text = format!(r#"{{"action": "terminate", "time": "{time}"}}"#);
    imds.now().items.insert("spot/instance-action", text);
    bench.until_sync("the worse is told", |sync| sync.notice == Some(Notice::Interruption)).await;
    let first = bench.seen().syncs.iter().position(|sync| sync.notice.is_some()).unwrap();
    assert!(
        bench.seen().syncs[first..].iter().all(|sync| sync.notice.is_some()),
        "in every sync from then on"
    );
    assert!(bench.agent_runs(), "what follows is the control plane's to say");
}
