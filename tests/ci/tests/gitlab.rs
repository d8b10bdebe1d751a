//! Every operation that the client uses, asked of Prism over a description of GitLab's API (`gitlab.openapi.yaml`, which says where its
//! facts are from), which rejects what does not fit.

use motorpool_ci::{GitLab, GitLabConfig};
use motorpool_ci_tests::{ask, binding, label, order, server};
use motorpool_control::ports::ci::{Ci, CiJob, Paused};
use motorpool_domain::Timestamp;
use motorpool_domain::ci::{CiSystem, JobStatus};
use secrecy::ExposeSecret;
use serde_json::json;

const API: &str = "MOTORPOOL_GITLAB_API";

fn client() -> GitLab {
    let config =
        GitLabConfig { url: server(API), token: "glpat-example".into(), read_token: None, plain_http: false };
    GitLab::new(config).expect("a client")
}

#[tokio::test]
async fn every_request_fits_gitlabs_description() {
    let client = client();
    for scope in ["instance", "groups/7", "projects/8"] {
        let (binding, label) = (binding(CiSystem::GitLab, scope), label());
        let registered =
            client.register(&order(&binding, "mp-ab12cd-r-0f9k2m4p-0.1.0", &label)).await.expect(scope);
        assert!(registered.secret.expose_secret().starts_with("glrt-"), "{scope}");
        let listed = client.list(&binding.scope, "mp-").await.expect(scope);
        assert!(listed.iter().any(|runner| runner.busy), "{scope}: the description's own example is at work");
        let paused = client.pause(&binding.scope, &registered.id).await.expect(scope);
        assert_eq!(
            paused,
            Paused::Acknowledged { busy: true },
            "{scope}: the description's own example has a job"
        );
        client.unpause(&binding.scope, &registered.id).await.expect(scope);
        client.remove(&binding.scope, &registered.id).await.expect(scope);
    }
    let job = |project: Option<&str>| CiJob {
        scope: "groups/7".to_owned(),
        project: project.map(str::to_owned),
        id: "88".to_owned(),
        attempt: None,
        runner: Some("8".to_owned()),
        since: Timestamp::from_millis(0),
    };
    for project in ["7", "group/sub-group/app"] {
        assert_eq!(client.job_status(&job(Some(project))).await.expect(project), JobStatus::Success);
    }
    assert_eq!(client.job_status(&job(None)).await.expect("a job"), JobStatus::Running);
}

/// Without this, the test above would show nothing.
#[tokio::test]
async fn a_request_that_does_not_fit_is_rejected() {
    let create = format!("{}/api/v4/user/runners", server(API));
    let token = [("private-token", "glpat-example")];
    let good = json!({"runner_type": "group_type", "group_id": 7, "tag_list": ["x"]});
    assert_eq!(ask("POST", create.clone(), &token, Some(good.clone())).await.status, 201);
    assert_eq!(ask("POST", create.clone(), &[], Some(good.clone())).await.status, 401, "without a token");
    for (field, value) in [
        ("runner_type", json!("shared")),
        ("runner_type", json!("project_type")),
        ("group_id", json!("my-group")),
        ("tag_list", json!((0..51).map(|n| n.to_string()).collect::<Vec<_>>())),
        ("run_untagged", json!("no")),
        ("name", json!("mp-1")),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        let answered = ask("POST", create.clone(), &token, Some(bad)).await;
        assert!((400..=422).contains(&answered.status), "{field}: {} {}", answered.status, answered.said);
    }
    let update = format!("{}/api/v4/runners/8", server(API));
    assert_eq!(ask("PUT", update.clone(), &token, Some(json!({"paused": true}))).await.status, 200);
    for bad in [
        json!({}),
        json!({"paused": "yes"}),
        json!({"paused": true, "active": false}),
        json!({"online": true}),
    ] {
        let answered = ask("PUT", update.clone(), &token, Some(bad.clone())).await;
        assert!((400..=422).contains(&answered.status), "{bad}: {} {}", answered.status, answered.said);
    }
    assert_eq!(
        ask("GET", format!("{}/api/v4/jobs/88", server(API)), &token, None).await.status,
        404,
        "no job is found by its id alone"
    );
    for path in [
        "groups/my-group/runners",
        "groups/7/runners?type=shared",
        "runners/all?per_page=1000",
        "runners/8/jobs?status=busy",
        "runners/8/jobs?order_by=name",
        "projects/7/jobs/last",
        "projects/app/jobs/88",
    ] {
        let answered = ask("GET", format!("{}/api/v4/{path}", server(API)), &token, None).await;
        assert!((400..=422).contains(&answered.status), "{path}: {} {}", answered.status, answered.said);
    }
}
