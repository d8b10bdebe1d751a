//! What GitLab's events say: the end of a job, or nothing of interest.

use motorpool_domain::JobId;
use motorpool_domain::checkpoint::{CompletedJob, gitlab_outcome};
use motorpool_wire::webhook::{GitLabJobEvent, GitLabRunner};

/// The job that `event` says has ended on a runner. Another event's body is not looked at: GitLab sends whatever was ticked.
pub fn gitlab_job(event: &str, body: &[u8]) -> Result<Option<CompletedJob>, serde_json::Error> {
    if event != "Job Hook" {
        return Ok(None);
    }
    let GitLabJobEvent { object_kind, build_id, build_status, project_id, project, runner } =
        serde_json::from_slice(body)?;
    let (true, Some(status), Some(runner)) = (object_kind == "build", gitlab_outcome(&build_status), runner)
    else {
        return Ok(None);
    };
    let GitLabRunner { id, description } = runner;
    // A number is an id.
    let Ok(job) = JobId::parse(build_id.to_string()) else { return Ok(None) };
    let path = project.and_then(|project| project.path_with_namespace);
    Ok(Some(CompletedJob {
        id: job,
        // Its hook knows both, and has said one of them.
        projects: [Some(project_id.to_string()), path].into_iter().flatten().collect(),
        attempt: None,
        runners: [description, Some(id.to_string())].into_iter().flatten().collect(),
        // A job of GitLab has an id of its own: no other job could be meant.
        ended_at: None,
        status,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::checkpoint::JobOutcome;
    use serde_json::{Value, json};

    /// As in GitLab's documentation, without what is not read.
    fn event() -> Value {
        json!({
            "object_kind": "build", "build_id": 1977, "build_name": "test", "build_status": "failed", "pipeline_id": 2366,
            "project_id": 380, "project_name": "Gitlab Org / Gitlab Test",
            "project": {"id": 380, "path_with_namespace": "gitlab-org/gitlab-test"},
            "runner": {"id": 380_987, "description": "mac-01", "active": true, "tags": ["linux"]},
        })
    }

    fn read(event: &Value) -> Option<CompletedJob> {
        gitlab_job("Job Hook", event.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_job_at_its_end_is_read() {
        let job = CompletedJob {
            id: JobId::parse("1977").unwrap(),
            projects: vec!["380".to_owned(), "gitlab-org/gitlab-test".to_owned()],
            attempt: None,
            runners: vec!["mac-01".to_owned(), "380987".to_owned()],
            ended_at: None,
            status: JobOutcome::Failure,
        };
        assert_eq!(read(&event()), Some(job));
    }

    #[test]
    fn what_no_runner_had_and_what_goes_on_is_nothing() {
        for (field, value) in [
            ("runner", json!(null)),
            ("object_kind", json!("pipeline")),
            ("build_status", json!("running")),
            ("build_status", json!("canceling")),
            ("build_status", json!("skipped")),
        ] {
            let mut event = event();
            event[field] = value.clone();
            assert_eq!(read(&event), None, "{field}: {value}");
        }
        assert_eq!(gitlab_job("Push Hook", b"not even JSON").unwrap(), None);
    }

    #[test]
    fn an_older_gitlab_sends_no_project() {
        let mut event = event();
        event.as_object_mut().unwrap().remove("project");
        assert_eq!(read(&event).unwrap().projects, ["380"]);
    }

    #[test]
    fn what_is_no_event_is_an_error() {
        for body in ["", "not JSON", "[]", "{}", r#"{"object_kind": "build"}"#] {
            assert!(gitlab_job("Job Hook", body.as_bytes()).is_err(), "{body}");
        }
    }
}
