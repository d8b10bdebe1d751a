//! Fault 11 for CI systems: who is told that the limit is reached asks no more until it is over.

use std::time::Duration;

use motorpool_ci_tests::fake_github::{FakeGitHub, Trick, said};
use motorpool_ci_tests::{label, order};
use motorpool_control::ports::ci::{Ci, CiError, Rate};

use crate::clients::{Clients, binding};
use crate::fake_gitlab::{self, FakeGitLab};

fn wait_of(outcome: Result<impl std::fmt::Debug, CiError>) -> u64 {
    match outcome {
        Err(CiError::RateLimited { retry_after }) => retry_after.as_secs(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn fault_11_a_limit_that_is_used_up_is_shown_and_waited_for() {
    let github = FakeGitHub::start().await;
    let (client, binding, label) = (github.token(), binding("my-org"), label());
    assert_eq!(client.rate(), None);
    let reset = github.clock.seconds() + 600;

    github.state().limit = Some((4_321, reset));
    client.list(&binding.scope, "").await.unwrap();
    assert_eq!(client.rate(), Some(Rate { remaining: 4_321, resets_in: Duration::from_secs(600) }));

    github.state().limit = Some((0, reset));
    client.list(&binding.scope, "").await.unwrap();
    let asked = github.server.lines().len();
    github.clock.advance(Duration::from_secs(100));
    assert_eq!(wait_of(client.list(&binding.scope, "").await), 500);
    assert_eq!(wait_of(client.remove(&binding.scope, "1").await), 500);
    assert_eq!(wait_of(client.register(&order(&binding, "mp-1", &label)).await), 500);
    assert_eq!(github.server.lines().len(), asked, "nobody was asked");
    assert_eq!(client.rate(), Some(Rate { remaining: 0, resets_in: Duration::from_secs(500) }));

    github.clock.advance(Duration::from_secs(500));
    github.state().limit = Some((5_000, reset + 3_600));
    client.list(&binding.scope, "").await.unwrap();
    assert_eq!(client.rate().unwrap().remaining, 5_000);
}

#[tokio::test]
async fn fault_11_bursts_are_answered_with_a_wait_and_nothing_is_used_up() {
    let github = FakeGitHub::start().await;
    let (client, binding, label) = (github.token(), binding("my-org"), label());
    for (reply, wait) in [
        (said(429, "slow down").with("retry-after", 7), 7),
        (said(403, "You have exceeded a secondary rate limit.").with("retry-after", 30), 30),
        (said(403, "You have exceeded a secondary rate limit."), 60),
        (said(403, "You have exceeded a secondary rate limit."), 120),
    ] {
        github.trick("/generate-jitconfig", Trick::Answer(reply));
        assert_eq!(wait_of(client.register(&order(&binding, "mp-1", &label)).await), wait);
        let asked = github.server.lines().len();
        assert_eq!(wait_of(client.list(&binding.scope, "").await), wait);
        assert_eq!(github.server.lines().len(), asked, "nobody was asked");
        github.clock.advance(Duration::from_secs(wait));
    }
    client.register(&order(&binding, "mp-1", &label)).await.unwrap();
}

#[tokio::test]
async fn fault_11_gitlab_too() {
    let gitlab = FakeGitLab::start().await;
    let (client, binding) = (gitlab.client(), fake_gitlab::binding("groups/7"));
    gitlab.state().limit = Some((12, gitlab.clock.seconds() + 60));
    client.list(&binding.scope, "").await.unwrap();
    assert_eq!(client.rate(), Some(Rate { remaining: 12, resets_in: Duration::from_secs(60) }));
    gitlab.state().limit = None;
    gitlab.trick("/runners", said(429, "Too Many Requests").with("retry-after", 45));
    assert_eq!(wait_of(client.list(&binding.scope, "").await), 45);
    let asked = gitlab.server.lines().len();
    assert_eq!(wait_of(client.remove(&binding.scope, "1").await), 45);
    assert_eq!(gitlab.server.lines().len(), asked);
    gitlab.clock.advance(Duration::from_secs(45));
    client.list(&binding.scope, "").await.unwrap();
}
