//! Every operation that the client uses, asked of Prism over GitHub's own API description, which rejects what does not fit.

use motorpool_ci::{Credentials, GitHub, GitHubConfig};
use motorpool_ci_tests::fake_github::PKCS8;
use motorpool_ci_tests::{ask, binding, label, order, server};
use motorpool_control::ports::ci::{Ci, CiError, CiJob};
use motorpool_domain::Timestamp;
use motorpool_domain::ci::{CiSystem, JobStatus};
use secrecy::ExposeSecret;
use serde_json::json;

const API: &str = "MOTORPOOL_GITHUB_API";

fn client(credentials: Credentials) -> GitHub {
    let config = GitHubConfig { api_url: server(API), ..GitHubConfig::new(credentials) };
    GitHub::new(config).expect("a client")
}

fn app() -> GitHub {
    client(Credentials::App { app_id: 1, private_key: PKCS8.into(), installation_id: None })
}

fn token() -> GitHub {
    client(Credentials::Token("ghp_example".into()))
}

/// An App asks for its installation and its token on the way, so those are covered with it.
#[tokio::test]
async fn every_request_fits_githubs_description() {
    for (client, scope) in [
        (app(), "my-org"),
        (app(), "me/repo"),
        (token(), "my-org"),
        (token(), "me/repo"),
        (token(), "enterprises/big"),
    ] {
        let (binding, label) = (binding(CiSystem::GitHub, scope), label());
        let registered =
            client.register(&order(&binding, "mp-ab12cd-r-0f9k2m4p-0.1.0", &label)).await.expect(scope);
        assert!(registered.id.parse::<u64>().is_ok(), "{scope}: the answer's own id");
        assert!(!registered.secret.expose_secret().is_empty(), "{scope}");
        let listed = client.list(&binding.scope, "").await.expect(scope);
        assert!(!listed.is_empty(), "{scope}: the description's own example has runners");
        client.remove(&binding.scope, &registered.id).await.expect(scope);
    }
}

#[tokio::test]
async fn every_request_about_a_job_fits_githubs_description() {
    for client in [app(), token()] {
        for attempt in [None, Some(1)] {
            let job = CiJob {
                scope: "octo-org".to_owned(),
                project: Some("octo-org/octo-repo".to_owned()),
                id: "29679449".to_owned(),
                attempt,
                runner: Some("my runner".to_owned()),
                since: Timestamp::from_millis(0),
            };
            let status = client.job_status(&job).await.expect("a job");
            assert_eq!(status, JobStatus::Success, "the description's own example was such a job");
        }
    }
    // What is asked where a run is not shown, which the server over the description never has.
    let repository = ask("GET", format!("{}/repos/octo-org/octo-repo", server(API)), &[], None).await;
    assert_eq!(repository.status, 200, "{}", repository.said);
    let attempt = format!("{}/repos/octo-org/octo-repo/actions/runs/1/attempts/first/jobs", server(API));
    assert_eq!(ask("GET", attempt, &[], None).await.status, 422);
}

/// Without this, the test above would show nothing.
#[tokio::test]
async fn a_request_that_does_not_fit_is_rejected() {
    let configure = format!("{}/orgs/my-org/actions/runners/generate-jitconfig", server(API));
    let good = json!({"name": "mp-1", "runner_group_id": 1, "labels": ["x"]});
    assert_eq!(ask("POST", configure.clone(), &[], Some(good.clone())).await.status, 201);
    for (field, value, why) in [
        ("runner_group_id", json!("one"), "must be integer"),
        ("labels", json!([]), "fewer than 1"),
        ("labels", json!("x"), "must be array"),
        ("labels", json!((0..101).map(|n| n.to_string()).collect::<Vec<_>>()), "more than 100"),
        ("name", json!(7), "must be string"),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        let answered = ask("POST", configure.clone(), &[], Some(bad)).await;
        assert_eq!(answered.status, 422, "{field}: {}", answered.said);
        assert!(answered.said.contains(why), "{}", answered.said);
    }
    for missing in ["name", "runner_group_id", "labels"] {
        let mut bad = good.clone();
        bad.as_object_mut().expect("an object").remove(missing);
        let answered = ask("POST", configure.clone(), &[], Some(bad)).await;
        assert!(answered.status == 422 && answered.said.contains(missing), "{missing}: {}", answered.said);
    }
    let elsewhere = ask("GET", format!("{}/orgs/my-org/runners", server(API)), &[], None).await;
    assert_eq!(elsewhere.status, 404, "a path that GitHub has not");
    let page = ask("GET", format!("{}/orgs/my-org/actions/runners?page=one", server(API)), &[], None).await;
    assert_eq!(page.status, 422, "{}", page.said);
}

/// And the client notices.
#[tokio::test]
async fn the_client_reports_a_rejection() {
    let config = GitHubConfig {
        api_url: format!("{}/nowhere", server(API)),
        ..GitHubConfig::new(Credentials::Token("ghp_example".into()))
    };
    let client = GitHub::new(config).expect("a client");
    let refused = client.list("my-org", "").await;
    assert!(matches!(refused, Err(CiError::Refused(_))), "{refused:?}");
}
