//! Registrations at GitHub: made, replaced, removed, listed; and what is said where that fails.

use motorpool_ci_tests::fake_github::{FakeGitHub, TOKEN, Trick, configuration, said};
use motorpool_ci_tests::server::Reply;
use motorpool_ci_tests::{label, order};
use motorpool_control::ports::ci::{Ci, CiError, ListedRunner};
use secrecy::ExposeSecret;
use serde_json::json;

use crate::clients::{Clients, binding};

const CONFIGURE: &str = "/generate-jitconfig";

/// The words of an error and of what caused it.
fn words(error: &CiError) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    format!("{error}: {source}")
}

#[tokio::test]
async fn a_registration_names_group_labels_and_workflow_and_brings_the_configuration() {
    let github = FakeGitHub::start().await;
    let client = github.token();
    let registered =
        client.register(&order(&binding("my-org"), "mp-ab12cd-r-1.1.0", &label())).await.unwrap();
    assert_eq!(registered.id, "1");
    assert_eq!(registered.secret.expose_secret(), configuration(1, "mp-ab12cd-r-1.1.0"));

    let seen = &github.server.seen()[0];
    assert_eq!(seen.line(), "POST /orgs/my-org/actions/runners/generate-jitconfig");
    assert_eq!(
        seen.body,
        json!({"name": "mp-ab12cd-r-1.1.0", "runner_group_id": 3, "work_folder": "_work",
            "labels": ["motorpool-c-1", "gpu", "motorpool-workflow-gh-123.2"]})
    );
    assert_eq!(seen.header("authorization"), format!("Bearer {TOKEN}"));
    assert!(seen.header("accept").starts_with("application/vnd.github+json"));
    assert_eq!(seen.header("x-github-api-version"), "2022-11-28");
    assert!(seen.header("user-agent").starts_with("motorpool/"));
}

#[tokio::test]
async fn each_scope_has_its_paths_and_a_path_prefix_is_kept() {
    let github = FakeGitHub::start().await;
    let enterprise_server = github
        .client_at(&format!("{}/api/v3/", github.server.url), motorpool_ci::Credentials::Token(TOKEN.into()));
    for (scope, path) in [
        ("my-org", "GET /api/v3/orgs/my-org/actions/runners"),
        ("me/repo", "GET /api/v3/repos/me/repo/actions/runners"),
        ("enterprises/big", "GET /api/v3/enterprises/big/actions/runners"),
    ] {
        enterprise_server.list(scope, "").await.unwrap();
        assert_eq!(github.server.lines().last().unwrap(), path);
    }
}

#[tokio::test]
async fn fault_15_a_registration_whose_answer_was_lost_is_replaced() {
    let github = FakeGitHub::start().await;
    let (client, binding, label) = (github.token(), binding("my-org"), label());
    github.trick(CONFIGURE, Trick::LoseTheAnswer);
    let lost = client.register(&order(&binding, "mp-1", &label)).await.unwrap_err();
    assert!(matches!(&lost, CiError::Failed { .. }), "{lost}");
    assert_eq!(github.server.count(CONFIGURE), 1, "what may have been done is not repeated unasked");

    let registered = client.register(&order(&binding, "mp-1", &label)).await.unwrap();

    assert_eq!(registered.id, "2");
    assert_eq!(github.state().runners.keys().copied().collect::<Vec<_>>(), [2], "nobody else of that name");
}

#[tokio::test]
async fn a_name_that_a_running_job_has_is_not_taken_from_it() {
    let github = FakeGitHub::start().await;
    let running = github.has("my-org", "mp-1", true);
    let failed = github.token().register(&order(&binding("my-org"), "mp-1", &label())).await.unwrap_err();
    assert!(words(&failed).contains("while it runs a job"), "{}", words(&failed));
    assert!(github.state().runners.contains_key(&running));
}

#[tokio::test]
async fn a_runner_is_removed_and_one_that_is_gone_is_no_error() {
    let github = FakeGitHub::start().await;
    github.has("my-org", "mp-1", false);
    github.has("my-org", "mp-2", true);
    let (client, binding) = (github.token(), binding("my-org"));
    client.remove(&binding.scope, "1").await.unwrap();
    client.remove(&binding.scope, "1").await.unwrap();
    let busy = client.remove(&binding.scope, "2").await.unwrap_err();
    assert!(matches!(busy, CiError::Failed { .. }), "it will be over some time");
    assert!(words(&busy).contains("while it runs a job"), "{}", words(&busy));
    for bad in ["", "../../orgs/other/actions/runners/1", "1?x"] {
        assert!(matches!(client.remove(&binding.scope, bad).await, Err(CiError::Refused(_))), "{bad:?}");
    }
}

#[tokio::test]
async fn a_list_has_all_pages_and_only_what_begins_so() {
    let github = FakeGitHub::start().await;
    for id in 1..=250 {
        let name = if id % 2 == 0 { format!("mp-ab12cd-r-{id}.1.0") } else { format!("laptop-{id}") };
        github.has("my-org", &name, id == 250);
    }
    let (client, binding) = (github.token(), binding("my-org"));
    let listed = client.list(&binding.scope, "mp-ab12cd-").await.unwrap();
    assert_eq!(listed.len(), 125);
    let name = "mp-ab12cd-r-250.1.0".to_owned();
    assert!(listed.contains(&ListedRunner { id: "250".to_owned(), name, busy: true }));
    assert_eq!(github.server.lines().len(), 3, "a hundred a page");
}

#[tokio::test]
async fn fault_15_a_list_and_a_removal_are_asked_once_more_and_a_registration_is_not() {
    let github = FakeGitHub::start().await;
    let (client, binding, label) = (github.token(), binding("my-org"), label());
    github.trick("/actions/runners", Trick::Answer(Reply::new(502, json!(null))));
    client.list(&binding.scope, "").await.unwrap();
    let id = github.has("my-org", "mp-5", false).to_string();
    github.trick(&format!("/actions/runners/{id}"), Trick::LoseTheAnswer);
    client.remove(&binding.scope, &id).await.unwrap();
    let before = github.server.lines().len();

    github.trick(CONFIGURE, Trick::Answer(Reply::new(502, json!(null))));
    let failed = client.register(&order(&binding, "mp-1", &label)).await.unwrap_err();
    assert!(words(&failed).contains("502"), "{}", words(&failed));
    assert_eq!(github.server.lines().len(), before + 1);

    for _ in 0..2 {
        github.trick("/actions/runners", Trick::Answer(Reply::new(500, json!(null))));
    }
    assert!(
        matches!(client.list(&binding.scope, "").await, Err(CiError::Failed { .. })),
        "once more, not for ever"
    );
}

#[tokio::test]
async fn a_refusal_says_what_to_do() {
    let github = FakeGitHub::start().await;
    let (client, label) = (github.token(), label());
    for (scope, reply, expected) in [
        ("my-org", said(401, "Bad credentials"), "look at [github]"),
        (
            "my-org",
            said(403, "Resource not accessible by integration"),
            "Self-hosted runners: Read and write",
        ),
        ("me/repo", said(403, "Resource not accessible by integration"), "Administration: Read and write"),
        ("enterprises/big", said(403, "Must be an owner"), "manage_runners:enterprise"),
        (
            "my-org",
            said(403, "no").with("x-accepted-github-permissions", "organization_self_hosted_runners=write"),
            "GitHub would accept organization_self_hosted_runners=write",
        ),
        ("my-org", said(404, "Not Found"), "is the pool's `scope` right"),
        ("my-org", said(422, "Invalid labels"), "Invalid labels"),
        ("me/repo", said(301, "Moved Permanently"), "has moved"),
    ] {
        github.trick(CONFIGURE, Trick::Answer(reply));
        let refused = client.register(&order(&binding(scope), "mp-1", &label)).await.unwrap_err();
        assert!(matches!(&refused, CiError::Refused(why) if why.contains(expected)), "{refused}");
        assert!(refused.to_string().contains("register the runner mp-1"), "{refused}");
    }
}

#[tokio::test]
async fn a_name_that_is_too_long_for_github_is_refused_before_it_is_sent() {
    let github = FakeGitHub::start().await;
    let name = "m".repeat(65);
    let refused = github.token().register(&order(&binding("my-org"), &name, &label())).await.unwrap_err();
    assert!(refused.to_string().contains("64 characters"), "{refused}");
    assert!(github.server.lines().is_empty());
}
