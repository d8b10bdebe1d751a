//! What holds of each CI system alike: what became of a job is told, a runner that is paused gets no more jobs, and both may be asked for
//! again. Each is run over GitHub, GitLab and Jenkins, as far as they have it.

use motorpool_ci_tests::fake_github::said;
use motorpool_ci_tests::server::Reply;
use motorpool_control::ports::ci::{Ci, CiError, CiJob, Paused};
use motorpool_domain::ci::JobStatus;
use serde_json::Value;

use crate::stages::stages;

#[tokio::test]
async fn what_became_of_a_job_is_told() {
    for (name, stage) in stages().await {
        let (client, job) = (stage.client(), stage.job());
        for status in [
            JobStatus::Running,
            JobStatus::Success,
            JobStatus::Failure,
            JobStatus::Canceled,
            JobStatus::Unknown,
        ] {
            stage.job_becomes(status);
            assert_eq!(client.job_status(&job).await.unwrap(), status, "{name}");
        }
        assert_eq!(client.trouble(stage.scope()), None, "{name}");
    }
}

#[tokio::test]
async fn a_job_that_we_may_not_see_is_not_taken_for_one_that_is_not_there() {
    for (name, stage) in stages().await {
        stage.job_becomes(JobStatus::Running);
        stage.hide_the_project();
        let refused = stage.client().job_status(&stage.job()).await;
        assert!(matches!(refused, Err(CiError::Refused(_))), "{name}: {refused:?}");
    }
}

#[tokio::test]
async fn a_paused_runner_gets_no_more_jobs_until_it_is_unpaused_however_often_that_is_asked_for() {
    for (name, stage) in stages().await {
        let (client, scope, runner) = (stage.client(), stage.scope(), stage.runner());
        for (status, busy) in [(JobStatus::Running, true), (JobStatus::Success, false)] {
            stage.job_becomes(status);
            for _ in 0..2 {
                let expected = if stage.pauses() { Paused::Acknowledged { busy } } else { Paused::ByAgent };
                assert_eq!(client.pause(scope, runner).await.unwrap(), expected, "{name}");
                assert_eq!(stage.gives_jobs(), !stage.pauses(), "{name}");
            }
        }
        for _ in 0..2 {
            client.unpause(scope, runner).await.unwrap();
            assert!(stage.gives_jobs(), "{name}");
        }
    }
}

#[tokio::test]
async fn a_runner_that_is_not_known_gets_no_jobs_and_cannot_be_unpaused() {
    for (name, stage) in stages().await {
        stage.forget_the_runner();
        let (client, scope, runner) = (stage.client(), stage.scope(), stage.runner());
        if !stage.pauses() {
            assert_eq!(client.pause(scope, runner).await.unwrap(), Paused::ByAgent, "{name}");
            client.unpause(scope, runner).await.unwrap();
            assert!(stage.server().lines().is_empty(), "{name} was asked for what it cannot do");
            continue;
        }
        assert_eq!(
            client.pause(scope, runner).await.unwrap(),
            Paused::Acknowledged { busy: false },
            "{name}"
        );
        let refused = client.unpause(scope, runner).await.unwrap_err();
        assert!(matches!(&refused, CiError::Refused(why) if why.contains("anew")), "{name}: {refused}");
    }
}

#[tokio::test]
async fn fault_15_a_pause_whose_answer_was_lost_is_asked_for_once_more() {
    for (name, stage) in stages().await {
        if !stage.pauses() {
            continue;
        }
        let lost = Reply { lost: true, ..Reply::new(200, Value::Null) };
        stage.trick(stage.lines().1, lost);
        let paused = stage.client().pause(stage.scope(), stage.runner()).await.unwrap();
        assert_eq!(paused, Paused::Acknowledged { busy: false }, "{name}");
        assert!(!stage.gives_jobs(), "{name}");
    }
}

/// Who hears of a limit takes it that nobody was asked; but the first call may have arrived, or may yet.
#[tokio::test]
async fn fault_15_a_call_whose_answer_was_lost_has_failed_though_its_repeat_met_a_limit() {
    for (name, stage) in stages().await {
        if !stage.pauses() {
            continue;
        }
        stage.trick(stage.lines().1, Reply { lost: true, ..Reply::new(200, Value::Null) });
        stage.trick(stage.lines().1, said(429, "slow down").with("retry-after", 30));
        let told = stage.client().pause(stage.scope(), stage.runner()).await.unwrap_err();
        assert!(matches!(told, CiError::Failed { .. }), "{name}: {told}");
    }
}

#[tokio::test]
async fn fault_11_limits_outages_and_wrong_credentials_are_told_apart() {
    for (name, stage) in stages().await {
        stage.job_becomes(JobStatus::Running);
        let (scope, runner, job) = (stage.scope(), stage.runner(), stage.job());
        let (looks_up, pauses) = stage.lines();
        for (verb, line) in [("job", looks_up), ("pause", pauses)] {
            if verb == "pause" && !stage.pauses() {
                continue;
            }
            let ask = async |client: &dyn Ci| match verb {
                "job" => client.job_status(&job).await.map(|_| ()),
                _ => client.pause(scope, runner).await.map(|_| ()),
            };
            let client = stage.client();
            stage.trick(line, said(401, "no"));
            let refused = ask(&*client).await.unwrap_err();
            assert!(
                matches!(&refused, CiError::Refused(why) if why.contains(stage.table())),
                "{name} {verb}: {refused}"
            );
            assert!(client.trouble(scope).is_some_and(|trouble| trouble.refused), "{name} {verb}");

            // It is asked once more, and that once.
            for _ in 0..2 {
                stage.trick(line, said(503, "down"));
            }
            let failed = ask(&*client).await.unwrap_err();
            assert!(matches!(failed, CiError::Failed { .. }), "{name} {verb}: {failed}");
            ask(&*client).await.unwrap();
            assert_eq!(client.trouble(scope), None, "{name} {verb}");

            stage.trick(line, said(429, "slow down").with("retry-after", 30));
            let limited = ask(&*client).await.unwrap_err();
            assert!(
                matches!(limited, CiError::RateLimited { retry_after } if retry_after.as_secs() == 30),
                "{name} {verb}: {limited}"
            );
            let asked = stage.server().lines().len();
            assert!(matches!(ask(&*client).await, Err(CiError::RateLimited { .. })), "{name} {verb}");
            assert_eq!(stage.server().lines().len(), asked, "{name} {verb}: nobody was asked");
        }
    }
}

#[tokio::test]
async fn refuse_13_what_is_no_id_is_not_sent() {
    for (name, stage) in stages().await {
        let (client, scope, job) = (stage.client(), stage.scope(), stage.job());
        for bad in ["", "../1", "1?x", "seven"] {
            let wrong = CiJob { id: bad.to_owned(), ..job.clone() };
            assert!(matches!(client.job_status(&wrong).await, Err(CiError::Refused(_))), "{name}: {bad:?}");
        }
        for bad in ["", "..", "../../admin", "a/../b"] {
            let wrong = CiJob { project: Some(bad.to_owned()), ..job.clone() };
            assert!(matches!(client.job_status(&wrong).await, Err(CiError::Refused(_))), "{name}: {bad:?}");
        }
        if stage.pauses() {
            for bad in ["", "..", "../1"] {
                let refused = client.pause(scope, bad).await;
                assert!(matches!(refused, Err(CiError::Refused(_))), "{name}: {bad:?}");
                let refused = client.unpause(scope, bad).await;
                assert!(matches!(refused, Err(CiError::Refused(_))), "{name}: {bad:?}");
            }
        }
        assert!(stage.server().lines().is_empty(), "{name}");
    }
}
