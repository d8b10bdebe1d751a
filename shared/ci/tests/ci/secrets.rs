//! Refusal 17: a canary in token, key and configuration shows in no log line, Debug or error text.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use motorpool_ci::{Credentials, GitHubConfig, GitLabConfig};
use motorpool_ci_tests::fake_github::{self, CANARY, FakeGitHub, PKCS1, Trick, said};
use motorpool_ci_tests::server::Reply;
use motorpool_ci_tests::{label, order};
use motorpool_control::ports::ci::{Ci, CiError};
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::clients::{self, Clients};
use crate::fake_gitlab::{self, FakeGitLab};
use crate::fake_jenkins::{self, FakeJenkins};

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Written {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// All of it: `Display` and `Debug`, and of every cause.
fn say(text: &mut String, error: &CiError) {
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(error) = cause {
        writeln!(text, "{error} {error:?}").unwrap();
        cause = error.source();
    }
}

/// Alone in its process under nextest, so the log is this test's.
#[tokio::test]
async fn refuse_17_no_secret_in_logs_debug_or_errors() {
    let log = Written::default();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let mut text = String::new();

    let github = FakeGitHub::start().await;
    let (binding, label) = (clients::binding("my-org"), label());
    let config = GitHubConfig::new(clients::app_with(PKCS1));
    writeln!(text, "{config:?} {:?}", Credentials::Token(fake_github::TOKEN.into())).unwrap();
    for client in [github.app(), github.token()] {
        let registered = client.register(&order(&binding, "mp-1", &label)).await.unwrap();
        writeln!(text, "{registered:?} {client:?}").unwrap();
        // Errors that send back what they were sent; twice, as an App asks again after a 401.
        for status in [401, 403, 418] {
            for _ in 0..2 {
                github.trick("/generate-jitconfig", Trick::SendBackTheToken(status));
            }
            say(&mut text, &client.register(&order(&binding, "mp-2", &label)).await.unwrap_err());
            github.state().tricks.clear();
        }
        // A configuration that is not where it should be.
        for body in [
            json!({"runner": {"id": CANARY, "name": "x", "busy": false}, "encoded_jit_config": CANARY}),
            json!({"runner": CANARY, "encoded_jit_config": [CANARY]}),
            json!(CANARY),
        ] {
            github.trick("/generate-jitconfig", Trick::Answer(Reply::new(201, body)));
            say(&mut text, &client.register(&order(&binding, "mp-2", &label)).await.unwrap_err());
        }
        github.trick("/generate-jitconfig", Trick::LoseTheAnswer);
        say(&mut text, &client.register(&order(&binding, "mp-3", &label)).await.unwrap_err());
        github.state().runners.clear();
    }
    github.trick(
        "/access_tokens",
        Trick::Answer(Reply::new(201, json!({"token": [CANARY], "expires_at": CANARY}))),
    );
    say(&mut text, &github.app().list(&binding.scope, "").await.unwrap_err());

    let gitlab = FakeGitLab::start().await;
    let (client, binding) = (gitlab.client(), fake_gitlab::binding("groups/7"));
    let token = fake_gitlab::TOKEN;
    let config = GitLabConfig {
        url: gitlab.server.url.clone(),
        token: token.into(),
        read_token: Some(fake_gitlab::READ_TOKEN.into()),
        plain_http: false,
    };
    let registered = client.register(&order(&binding, "mp-1", &label)).await.unwrap();
    writeln!(text, "{config:?} {client:?} {registered:?}").unwrap();
    for reply in [
        said(401, token),
        said(500, token),
        Reply::new(201, json!({"id": fake_gitlab::RUNNER_TOKEN, "token": 1})),
    ] {
        gitlab.trick("/user/runners", reply);
        say(&mut text, &client.register(&order(&binding, "mp-2", &label)).await.unwrap_err());
    }

    let jenkins = FakeJenkins::start().await;
    jenkins.has_node("mac-01");
    let basic = STANDARD.encode(format!("{}:{}", fake_jenkins::USER, fake_jenkins::TOKEN));
    let client = jenkins.client_of_two();
    client.pause("instance", "mac-01").await.unwrap();
    writeln!(text, "{client:?}").unwrap();
    for sent_back in [fake_jenkins::TOKEN, &basic] {
        for status in [401, 403, 418, 500] {
            // Twice, as it may be repeated.
            for _ in 0..2 {
                jenkins.trick("/changeOfflineCause", said(status, sent_back));
            }
            say(&mut text, &client.pause("instance", "mac-01").await.unwrap_err());
            jenkins.state().tricks.clear();
        }
    }

    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains("the CI system answered"), "the log was seen");
    assert!(text.contains("mp-2"), "the errors were seen");
    let key_lines = PKCS1.lines().filter(|line| !line.starts_with('-'));
    let canaries = fake_github::traces_of_canary();
    let unpause = STANDARD.encode(format!("{}:{}", fake_jenkins::UNPAUSER, fake_jenkins::UNPAUSE_TOKEN));
    let secrets = [
        fake_github::TOKEN,
        fake_gitlab::TOKEN,
        fake_gitlab::READ_TOKEN,
        fake_gitlab::RUNNER_TOKEN,
        fake_jenkins::TOKEN,
        fake_jenkins::UNPAUSE_TOKEN,
        &basic,
        &unpause,
        "ghs_canary",
        "eyJ",
    ];
    for secret in secrets.into_iter().chain(canaries.iter().map(String::as_str)).chain(key_lines) {
        for (place, found) in [("the log", &logged), ("an error or Debug", &text)] {
            let at = found.lines().find(|line| line.contains(secret));
            assert_eq!(at, None, "{secret} in {place}");
        }
    }
}
