//! What went wrong last is kept for people who look at a pool, in the vendor's words, and forgotten once it went well.

use std::time::Duration;

use motorpool_ci_tests::fake_github::{FakeGitHub, Trick, said};
use motorpool_ci_tests::{label, order};
use motorpool_control::ports::ci::Ci;

use crate::clients::{Clients, binding};
use crate::fake_gitlab::{self, FakeGitLab, TOKEN};

#[tokio::test]
async fn gitlabs_refusal_of_a_scope_is_told_until_that_goes_well() {
    let gitlab = FakeGitLab::start().await;
    let client = gitlab.client();
    let (refused, fine) = ("groups/7", "projects/8");
    gitlab.trick("/groups/7/runners", said(403, &format!("insufficient_scope for {TOKEN}")));
    client.list(refused, "mp-").await.unwrap_err();
    client.list(fine, "mp-").await.unwrap();
    gitlab.clock.advance(Duration::from_secs(40));

    let told = client.trouble(refused).unwrap();
    assert!(told.refused && told.ago == Duration::from_secs(40), "{told:?}");
    assert!(told.what.contains("list the runners of GitLab's group 7"), "{told:?}");
    assert!(told.what.contains("GitLab: 403: insufficient_scope"), "{told:?}");
    assert!(!told.what.contains(TOKEN), "{told:?}");
    assert_eq!(client.trouble(fine), None);

    client.register(&order(&fake_gitlab::binding(refused), "mp-1", &label())).await.unwrap();
    assert!(client.trouble(refused).is_some(), "to list is another permission");
    client.list(refused, "mp-").await.unwrap();
    assert_eq!(client.trouble(refused), None);
}

#[tokio::test]
async fn githubs_refusal_is_told_and_a_wrong_scope_and_an_outage_too() {
    let github = FakeGitHub::start().await;
    let (client, binding) = (github.token(), binding("my-org"));
    github.trick("/generate-jitconfig", Trick::Answer(said(401, "Bad credentials")));
    client.register(&order(&binding, "mp-1", &label())).await.unwrap_err();
    let told = client.trouble(&binding.scope).unwrap();
    assert!(told.refused && told.what.contains("Bad credentials"), "{told:?}");

    client.register(&order(&binding, "mp-1", &label())).await.unwrap();
    assert_eq!(client.trouble(&binding.scope), None);

    let nowhere = "my-org/../other";
    client.list(nowhere, "mp-").await.unwrap_err();
    assert!(client.trouble(nowhere).unwrap().refused);

    github.trick("/generate-jitconfig", Trick::Answer(said(500, "")));
    client.register(&order(&binding, "mp-2", &label())).await.unwrap_err();
    let told = client.trouble(&binding.scope).unwrap();
    assert!(!told.refused && told.what.contains("GitHub answered 500"), "{told:?}");
}
