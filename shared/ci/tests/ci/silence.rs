//! Fault 11 for CI systems that take a call and never answer it: one call waits for that, and not each.

use std::time::Duration;

use motorpool_ci::GitLabConfig;
use motorpool_ci_tests::server::{Reply, Server};
use motorpool_control::ports::ci::{Ci, CiError};

use crate::fake_gitlab::{FakeGitLab, READ_TOKEN, TOKEN};
use crate::stages::stages;

/// What comes of a call that is never answered: once the server has it, time flies.
async fn unanswered<T>(server: &Server, call: impl Future<Output = T>) -> T {
    let before = server.lines().len();
    let time_flies = async {
        server.was_asked(before + 1).await;
        tokio::time::pause();
    };
    let (outcome, ()) = tokio::join!(call, time_flies);
    tokio::time::resume();
    outcome
}

/// It was asked, and did not answer.
fn timed_out<T: std::fmt::Debug>(outcome: Result<T, CiError>) -> bool {
    matches!(outcome, Err(CiError::Failed { .. }))
}

/// How long it is not asked, in seconds.
fn left_alone<T: std::fmt::Debug>(outcome: Result<T, CiError>) -> Option<u64> {
    match outcome {
        Err(CiError::Silent { retry_after }) => Some(retry_after.as_secs()),
        Ok(_) | Err(CiError::RateLimited { .. } | CiError::Refused(_) | CiError::Failed { .. }) => None,
    }
}

#[tokio::test]
async fn fault_11_a_ci_system_that_hangs_is_not_asked_for_a_while_whatever_it_is_asked() {
    for (name, stage) in stages().await {
        let (client, job) = (stage.client(), stage.job());
        stage.trick(stage.lines().0, Reply::never());
        assert!(timed_out(unanswered(stage.server(), client.job_status(&job)).await), "{name}");
        let asked = stage.server().lines().len();
        for _ in 0..3 {
            assert_eq!(left_alone(client.job_status(&job).await), Some(15), "{name}");
            assert_eq!(left_alone(client.list(stage.scope(), "").await), Some(15), "{name}");
            let paused = left_alone(client.pause(stage.scope(), stage.runner()).await);
            assert_eq!(paused, stage.pauses().then_some(15), "{name}");
        }
        assert_eq!(stage.server().lines().len(), asked, "{name}: nobody was asked");
        assert!(client.trouble(stage.scope()).is_some_and(|trouble| !trouble.refused), "{name}");
    }
}

#[tokio::test]
async fn fault_11_one_caller_finds_out_for_all_whether_it_answers_again() {
    let gitlab = FakeGitLab::start().await;
    let config = GitLabConfig {
        url: gitlab.server.url.clone(),
        token: TOKEN.into(),
        read_token: Some(READ_TOKEN.into()),
        plain_http: false,
    };
    // Lists and removes as two accounts.
    let client = gitlab.client_with(config);
    let count = || gitlab.server.lines().len();
    for (asked, pause) in [(1, 15), (2, 30), (3, 60)] {
        gitlab.trick("/runners", Reply::never());
        let first = unanswered(&gitlab.server, client.list("groups/7", ""));
        if asked == 1 {
            assert!(timed_out(first.await));
        } else {
            // Another comes while the first waits, and is told so at once.
            let another = async {
                gitlab.server.was_asked(asked).await;
                client.remove("groups/7", "5").await
            };
            let (first, another) = tokio::join!(first, another);
            assert!(timed_out(first) && left_alone(another) == Some(20));
        }
        gitlab.clock.advance(Duration::from_secs(pause - 1));
        assert_eq!(left_alone(client.list("groups/7", "").await), Some(1));
        assert_eq!(count(), asked, "not yet");
        gitlab.clock.advance(Duration::from_secs(1));
    }
    client.list("groups/7", "").await.unwrap();
    client.remove("groups/7", "5").await.unwrap();
    assert_eq!(count(), 5, "it answers again, and is asked for everything");

    // From then on a time-out is the first one again.
    gitlab.trick("/runners", Reply::never());
    assert!(timed_out(unanswered(&gitlab.server, client.list("groups/7", "")).await));
    gitlab.clock.advance(Duration::from_secs(15));
    client.list("groups/7", "").await.unwrap();
}
