//! What GitHub's events say: the end of a job, or nothing of interest.

use jiff::Timestamp as Instant;
use motorpool_domain::checkpoint::{CompletedJob, github_outcome};
use motorpool_domain::{JobId, Timestamp};
use motorpool_wire::webhook::{GitHubJob, GitHubJobEvent, GitHubRepository};

/// The job that `event` says has ended on a runner. A body that is none of ours to know is not looked at: GitHub sends whatever was ticked.
pub fn github_job(event: &str, body: &[u8]) -> Result<Option<CompletedJob>, serde_json::Error> {
    if event != "workflow_job" {
        return Ok(None);
    }
    let GitHubJobEvent { action, workflow_job, repository } = serde_json::from_slice(body)?;
    if action != "completed" {
        return Ok(None);
    }
    let GitHubJob { run_id, run_attempt, conclusion, completed_at, runner_id, runner_name } = workflow_job;
    let GitHubRepository { full_name } = repository;
    // One that was cancelled before a runner had it.
    let (Some(id), Some(name)) =
        (runner_id.filter(|id| *id != 0), runner_name.filter(|name| !name.is_empty()))
    else {
        return Ok(None);
    };
    // A number is an id.
    let Ok(job) = JobId::parse(run_id.to_string()) else { return Ok(None) };
    Ok(Some(CompletedJob {
        id: job,
        projects: vec![full_name],
        attempt: run_attempt,
        runners: vec![name, id.to_string()],
        ended_at: completed_at.as_deref().and_then(instant),
        status: github_outcome(conclusion.as_deref()),
    }))
}

fn instant(text: &str) -> Option<Timestamp> {
    let millis = text.parse::<Instant>().ok()?.as_millisecond();
    u64::try_from(millis).ok().map(Timestamp::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::checkpoint::JobOutcome;
    use serde_json::{Value, json};

    fn event() -> Value {
        json!({
            "action": "completed",
            "workflow_job": {
                "id": 7, "run_id": 2_202_229_078_u64, "run_attempt": 2, "status": "completed", "conclusion": "success",
                "completed_at": "2022-04-21T00:06:43Z", "runner_id": 5, "runner_name": "mac-01",
            },
            "repository": {"id": 1, "full_name": "octo/app"},
        })
    }

    fn read(event: &Value) -> Option<CompletedJob> {
        github_job("workflow_job", event.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_completed_job_is_read() {
        let job = CompletedJob {
            id: JobId::parse("2202229078").unwrap(),
            projects: vec!["octo/app".to_owned()],
            attempt: Some(2),
            runners: vec!["mac-01".to_owned(), "5".to_owned()],
            ended_at: Some(Timestamp::from_millis(1_650_499_603_000)),
            status: JobOutcome::Success,
        };
        assert_eq!(read(&event()), Some(job));
    }

    #[test]
    fn what_no_runner_had_and_what_goes_on_is_nothing() {
        for (pointer, value) in [
            ("/workflow_job/runner_id", json!(0)),
            ("/workflow_job/runner_id", json!(null)),
            ("/workflow_job/runner_name", json!(null)),
            ("/workflow_job/runner_name", json!("")),
            ("/action", json!("queued")),
            ("/action", json!("waiting")),
            ("/action", json!("in_progress")),
        ] {
            let mut event = event();
            *event.pointer_mut(pointer).unwrap() = value.clone();
            assert_eq!(read(&event), None, "{pointer}: {value}");
        }
        assert_eq!(github_job("ping", b"{\"zen\": 1}").unwrap(), None);
        assert_eq!(github_job("push", b"not even JSON").unwrap(), None);
    }

    #[test]
    fn what_is_no_event_is_an_error() {
        for body in ["", "not JSON", "[]", "{}", r#"{"action": "completed"}"#, r#"{"action": 1}"#] {
            assert!(github_job("workflow_job", body.as_bytes()).is_err(), "{body}");
        }
    }
}
