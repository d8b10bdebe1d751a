//! What became of a job at GitLab. There is no call that finds a job by its id alone: `GET /jobs/:id`, which some documents name, is not
//! part of GitLab's API, and `GET /job` answers a job about itself. A job is found in its project, or else among the jobs of its runner.

use motorpool_control::ports::ci::CiJob;
use motorpool_domain::ci::JobStatus;
use reqwest::StatusCode;
use serde::Deserialize;

use super::refusal::refusal;
use super::scope::Scope;
use super::{GITLAB, GitLab, MOST_PAGES, PAGE, is_last, number};
use crate::call::{Call, Response};
use crate::error::CallError;
use crate::segment;

impl GitLab {
    pub(super) async fn status_of(&self, job: &CiJob) -> Result<JobStatus, CallError> {
        let CiJob { scope, project, id, attempt: _, runner, since: _ } = job;
        let (scope, id) = (Scope::parse(scope)?, number(id, "job")?);
        match (project, runner) {
            (Some(project), _) => self.job_of_project(scope, project, id).await,
            (None, Some(runner)) => self.job_of_runner(scope, number(runner, "runner")?, id).await,
            (None, None) => Err(CallError::Refused(format!(
                "GitLab is asked for a job in its project or on its runner, and of the job {id} neither is known"
            ))),
        }
    }

    async fn job_of_project(&self, scope: Scope, project: &str, id: u64) -> Result<JobStatus, CallError> {
        let attempted = format!("look up the job {id} of GitLab's project {project}");
        let path = format!("api/v4/projects/{}/jobs/{id}", project_id(project)?);
        let (answer, used) = self.read(&Call::get(path, Vec::new(), &attempted)).await?;
        match answer.status {
            StatusCode::OK => status(&answer.read(GITLAB.name, &attempted)?, &attempted),
            StatusCode::NOT_FOUND if lacks_the_thing_itself(&answer) => Ok(JobStatus::Unknown),
            _ => Err(refusal(scope, used, &answer, &attempted)),
        }
    }

    /// The newest first, until their ids are below the one that is looked for. GitLab lists what its token may see: one that may not see
    /// the runner's jobs at all is refused.
    async fn job_of_runner(&self, scope: Scope, runner: u64, id: u64) -> Result<JobStatus, CallError> {
        let attempted = format!("look up the job {id} among those of GitLab's runner {runner}");
        for page in 1..=MOST_PAGES {
            let query = vec![
                ("order_by", "id".to_owned()),
                ("sort", "desc".to_owned()),
                ("per_page", PAGE.to_string()),
                ("page", page.to_string()),
            ];
            let call = Call::get(format!("api/v4/runners/{runner}/jobs"), query, &attempted);
            let (answer, used) = self.read(&call).await?;
            match answer.status {
                StatusCode::OK => {}
                StatusCode::NOT_FOUND if lacks_the_thing_itself(&answer) => return Ok(JobStatus::Unknown),
                _ => return Err(refusal(scope, used, &answer, &attempted)),
            }
            let jobs: Vec<Job> = answer.read(GITLAB.name, &attempted)?;
            if let Some(found) = jobs.iter().find(|job| job.id == id) {
                return status(found, &attempted);
            }
            if is_last(&answer, jobs.len()) || jobs.last().is_some_and(|oldest| oldest.id < id) {
                return Ok(JobStatus::Unknown);
            }
        }
        Err(CallError::failed(attempted, format!("the runner had more than {} since", MOST_PAGES * PAGE)))
    }
}

/// A project by its number, or by its path with the groups that it is in. GitLab takes a path as one segment, with its slashes encoded.
fn project_id(project: &str) -> Result<String, CallError> {
    if let Ok(number) = number(project, "project") {
        return Ok(number.to_string());
    }
    let parts: Option<Vec<String>> = project.split('/').map(segment::encoded).collect();
    parts.filter(|parts| parts.len() > 1).map(|parts| parts.join("%2F")).ok_or_else(|| {
        let rule = "write its number, or its path with its group, such as group/app";
        CallError::Refused(format!("{project:?} is no project of GitLab's: {rule}"))
    })
}

#[derive(Deserialize)]
struct Job {
    id: u64,
    status: String,
}

/// GitLab itself says that it is not there, and does not mean the project, which it may only hide from the token.
pub(super) fn lacks_the_thing_itself(answer: &Response) -> bool {
    answer.message.to_ascii_lowercase().starts_with("404 ") && !answer.message.contains("Project")
}

fn status(job: &Job, attempted: &str) -> Result<JobStatus, CallError> {
    let Job { id: _, status } = job;
    JobStatus::of_gitlab(status).ok_or_else(|| {
        CallError::failed(attempted, format!("GitLab says that it is {status:?}, which is new"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_13_a_project_reaches_no_other_path() {
        for (project, expected) in [
            ("380", Some("380")),
            ("group/app", Some("group%2Fapp")),
            ("group/sub-group/my.app", Some("group%2Fsub-group%2Fmy.app")),
            ("group/app?x#y", Some("group%2Fapp%3Fx%23y")),
            ("group%2Fapp/x", Some("group%252Fapp%2Fx")),
            ("7/8", Some("7%2F8")),
            ("", None),
            ("app", None),
            ("-1", None),
            ("group/", None),
            ("/app", None),
            ("group//app", None),
            ("group/../app", None),
            ("../../admin", None),
            ("group\\app", None),
            ("group/a\nb", None),
        ] {
            assert_eq!(project_id(project).ok().as_deref(), expected, "{project:?}");
        }
    }
}
