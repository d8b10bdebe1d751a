//! The App's key becomes a token, and the token is kept.

use std::time::Duration;

use motorpool_ci::{Credentials, GitHub, GitHubConfig, SetupError};
use motorpool_ci_tests::fake_github::{APP_ID, FakeGitHub, INSTALLATION, PKCS1, PKCS8, PUBLIC, Trick, said};
use motorpool_ci_tests::{label, order};
use motorpool_control::ports::ci::{Ci, CiError};

use crate::clients::{Clients, app_with, binding};

const TOKENS: &str = "/access_tokens";
const INSTALLATIONS: &str = "/installation";

#[tokio::test]
async fn an_app_signs_in_once_and_keeps_its_token() {
    let github = FakeGitHub::start().await;
    for key in [PKCS1, PKCS8] {
        let client = github.client(app_with(key));
        client.list("my-org", "mp-").await.unwrap();
    }
    assert_eq!((github.server.count(INSTALLATIONS), github.server.count(TOKENS)), (2, 2));

    let client = github.app();
    for name in ["mp-1", "mp-2", "mp-3"] {
        client.register(&order(&binding("my-org"), name, &label())).await.unwrap();
    }
    assert_eq!((github.server.count(INSTALLATIONS), github.server.count(TOKENS)), (3, 3), "once a client");
}

#[tokio::test]
async fn who_needs_a_token_at_the_same_time_waits_for_one() {
    let github = FakeGitHub::start().await;
    let (client, binding) = (github.app(), binding("me/repo"));
    let asks = (0..40).map(|_| client.list(&binding.scope, "mp-"));
    for outcome in futures_util::future::join_all(asks).await {
        outcome.unwrap();
    }
    assert_eq!((github.server.count(INSTALLATIONS), github.server.count(TOKENS)), (1, 1));
}

#[tokio::test]
async fn a_token_is_renewed_shortly_before_it_ends() {
    let github = FakeGitHub::start().await;
    let (client, binding) = (github.app(), binding("my-org"));
    client.list(&binding.scope, "").await.unwrap();
    github.clock.advance(Duration::from_secs(57 * 60));
    client.list(&binding.scope, "").await.unwrap();
    assert_eq!(github.server.count(TOKENS), 1, "it is good for three more minutes");
    github.clock.advance(Duration::from_secs(61));
    client.list(&binding.scope, "").await.unwrap();
    assert_eq!(github.server.count(TOKENS), 2);
    assert_eq!(github.server.count(INSTALLATIONS), 1, "the installation stays the same");
}

#[tokio::test]
async fn a_token_that_ends_early_is_replaced_once() {
    let github = FakeGitHub::start().await;
    let (client, binding) = (github.app(), binding("my-org"));
    client.list(&binding.scope, "").await.unwrap();
    github.state().tokens.clear();
    client.list(&binding.scope, "").await.unwrap();
    assert_eq!(github.server.count(TOKENS), 2);
}

#[tokio::test]
async fn an_installation_that_is_given_is_not_looked_up() {
    let github = FakeGitHub::start().await;
    let client = github.client(Credentials::App {
        app_id: APP_ID,
        private_key: PKCS8.into(),
        installation_id: Some(INSTALLATION),
    });
    client.list("my-org", "").await.unwrap();
    assert_eq!((github.server.count(INSTALLATIONS), github.server.count(TOKENS)), (0, 1));
}

#[tokio::test]
async fn an_app_that_is_not_installed_is_refused_and_found_once_it_is() {
    let github = FakeGitHub::start().await;
    let (client, binding) = (github.app(), binding("my-org"));
    github.trick(INSTALLATIONS, Trick::Answer(said(404, "Not Found")));
    for _ in 0..3 {
        let refused = client.list(&binding.scope, "").await.unwrap_err();
        assert!(refused.to_string().contains("is the App installed there"), "{refused}");
    }
    assert_eq!(github.server.lines().len(), 1, "who asks again at once is told the same");
    github.clock.advance(Duration::from_secs(6));
    client.list(&binding.scope, "").await.unwrap();
}

#[tokio::test]
async fn an_enterprise_takes_a_token_and_no_app() {
    let github = FakeGitHub::start().await;
    let refused = github.app().list("enterprises/big", "").await.unwrap_err();
    assert!(
        matches!(&refused, CiError::Refused(why) if why.contains("manage_runners:enterprise")),
        "{refused}"
    );
    assert!(github.server.lines().is_empty());
    github.token().list("enterprises/big", "").await.unwrap();
}

#[test]
fn a_key_or_token_that_is_none_is_refused_at_once() {
    let setup = |credentials| GitHub::new(GitHubConfig::new(credentials)).unwrap_err();
    assert_eq!(setup(app_with("-----BEGIN RSA PRIVATE KEY-----\nnonsense")), SetupError::Key);
    assert_eq!(setup(app_with(PUBLIC)), SetupError::Key);
    for bad in ["", " \n", "two\nlines"] {
        assert_eq!(setup(Credentials::Token(bad.into())), SetupError::Token { vendor: "GitHub" }, "{bad:?}");
    }
    assert!(
        GitHub::new(GitHubConfig::new(Credentials::Token("ghp_x\n".into()))).is_ok(),
        "a file ends in a newline"
    );
}
