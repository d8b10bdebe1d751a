//! Registrations at GitLab: made, replaced, removed, listed; and what is said where that fails.

use motorpool_ci_tests::fake_github::said;
use motorpool_ci_tests::server::Reply;
use motorpool_ci_tests::{label, order};
use motorpool_control::ports::ci::{Ci, CiError, ListedRunner};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::fake_gitlab::{FakeGitLab, RUNNER_TOKEN, TOKEN, binding};

#[tokio::test]
async fn a_runner_is_made_for_the_claims_tag_in_its_scope() {
    let gitlab = FakeGitLab::start().await;
    let client = gitlab.client();
    for (scope, more) in [
        ("instance", json!({"runner_type": "instance_type"})),
        ("groups/7", json!({"runner_type": "group_type", "group_id": 7})),
        ("projects/8", json!({"runner_type": "project_type", "project_id": 8, "locked": true})),
    ] {
        let registered = client.register(&order(&binding(scope), "mp-1", &label())).await.unwrap();
        assert_eq!(registered.secret.expose_secret(), format!("{RUNNER_TOKEN}-{}", registered.id));
        assert_eq!(registered.url.as_deref(), Some(gitlab.server.url.as_str()));
        let seen = gitlab.server.seen().pop().unwrap();
        assert_eq!(seen.line(), "POST /api/v4/user/runners");
        assert_eq!(seen.header("private-token"), TOKEN);
        let mut expected = json!({"description": "mp-1", "tag_list": ["motorpool-c-1", "gpu"],
            "run_untagged": false, "maintenance_note": "Motorpool, for the workflow gh-123.2"});
        expected.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(seen.body, expected);
    }
    assert_eq!(gitlab.server.lines().len(), 3, "one call each");
}

#[tokio::test]
async fn fault_15_a_runner_whose_answer_was_lost_is_replaced() {
    let gitlab = FakeGitLab::start().await;
    let (client, binding, label) = (gitlab.client(), binding("groups/7"), label());
    client.register(&order(&binding, "mp-0", &label)).await.unwrap();
    gitlab.state().lose_the_answer = true;
    assert!(matches!(client.register(&order(&binding, "mp-1", &label)).await, Err(CiError::Failed { .. })));

    let registered = client.register(&order(&binding, "mp-1", &label)).await.unwrap();

    let names = |state: &crate::fake_gitlab::State| {
        state.runners.values().map(|runner| runner["description"].clone()).collect::<Vec<Value>>()
    };
    assert_eq!(names(&gitlab.state()), ["mp-0", "mp-1"], "each once");
    assert!(gitlab.state().runners.contains_key(&registered.id.parse().unwrap()));
    let before = gitlab.server.lines().len();
    client.register(&order(&binding, "mp-1", &label)).await.unwrap();
    assert_eq!(gitlab.server.lines().len(), before + 1, "once it is known, nobody looks again");
}

#[tokio::test]
async fn a_runner_is_removed_and_one_that_is_gone_is_no_error() {
    let gitlab = FakeGitLab::start().await;
    let (client, binding) = (gitlab.client(), binding("projects/8"));
    let id = client.register(&order(&binding, "mp-1", &label())).await.unwrap().id;
    client.remove(&binding.scope, &id).await.unwrap();
    assert!(gitlab.state().runners.is_empty());
    client.remove(&binding.scope, &id).await.unwrap();
    assert!(matches!(client.remove(&binding.scope, "../users/1").await, Err(CiError::Refused(_))));
}

#[tokio::test]
async fn a_list_has_all_pages_and_only_what_begins_so() {
    for without_page_headers in [false, true] {
        let gitlab = FakeGitLab::start().await;
        for id in 1..=250 {
            let name = if id % 2 == 0 { format!("mp-ab12cd-r-{id}.1.0") } else { format!("laptop-{id}") };
            let status = if id == 250 { "active" } else { "idle" };
            let runner = json!({"id": id, "description": name, "runner_type": "group_type",
                "job_execution_status": status});
            gitlab.state().runners.insert(id, runner);
        }
        // Shared by the whole instance, with no description: listed there too, and not ours.
        gitlab
            .state()
            .runners
            .insert(900, json!({"id": 900, "description": null, "runner_type": "instance_type"}));
        gitlab.state().without_page_headers = without_page_headers;
        let listed = gitlab.client().list("groups/7", "mp-ab12cd-").await.unwrap();
        assert_eq!(listed.len(), 125);
        let name = "mp-ab12cd-r-250.1.0".to_owned();
        assert!(listed.contains(&ListedRunner { id: "250".to_owned(), name, busy: true }));
        assert_eq!(gitlab.server.lines().len(), 3, "a hundred a page");
        gitlab.client().list("instance", "").await.unwrap();
        assert_eq!(gitlab.server.lines().last().unwrap(), "GET /api/v4/runners/all");
    }
}

#[tokio::test]
async fn a_path_prefix_is_kept() {
    let gitlab = FakeGitLab::start().await;
    let url = format!("{}/gitlab", gitlab.server.url);
    let registered =
        gitlab.client_at(&url).register(&order(&binding("groups/7"), "mp-1", &label())).await.unwrap();
    assert_eq!(gitlab.server.lines(), ["POST /gitlab/api/v4/user/runners"]);
    assert_eq!(registered.url, Some(url), "where the runner program is to go");
}

#[tokio::test]
async fn a_refusal_says_what_to_do() {
    let gitlab = FakeGitLab::start().await;
    let (client, label) = (gitlab.client(), label());
    for (scope, reply, expected) in [
        ("groups/7", said(401, "401 Unauthorized"), "token_file"),
        ("groups/7", said(403, "403 Forbidden"), "an Owner of the group"),
        ("projects/8", said(403, "403 Forbidden"), "a Maintainer of the project"),
        ("instance", said(403, "403 Forbidden"), "an administrator"),
        ("groups/7", said(404, "404 Not Found"), "[gitlab] url"),
        ("groups/7", Reply::new(400, json!({"message": {"tag_list": ["too many"]}})), "too many"),
        ("groups/7", Reply::new(400, json!({"error": "group_id is invalid"})), "group_id is invalid"),
    ] {
        gitlab.trick("/user/runners", reply);
        let refused = client.register(&order(&binding(scope), "mp-1", &label)).await.unwrap_err();
        assert!(matches!(&refused, CiError::Refused(why) if why.contains(expected)), "{refused}");
    }
}
