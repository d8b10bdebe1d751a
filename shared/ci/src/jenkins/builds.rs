//! What became of a build at Jenkins. A pipeline's build may use many nodes: it is over when all of it is.

use motorpool_control::ports::ci::CiJob;
use motorpool_domain::ci::{JenkinsBuild, JobStatus};
use reqwest::StatusCode;
use serde::Deserialize;

use super::refusal::refusal;
use super::{JENKINS, Jenkins, path};
use crate::call::Call;
use crate::error::CallError;

impl Jenkins {
    pub(super) async fn status_of(&self, job: &CiJob) -> Result<JobStatus, CallError> {
        let CiJob { scope: _, project, id, attempt: _, runner: _, since: _ } = job;
        let Some(project) = project else {
            return Err(CallError::Refused(format!(
                "the build {id} is looked up in its job, whose name is not known"
            )));
        };
        let path = path::job(project)?;
        let build: u64 = id
            .parse()
            .map_err(|_| CallError::Refused(format!("{id:?} is no build of Jenkins': builds are counted")))?;
        let attempted = format!("look up the build {build} of the job {project}");
        let tree = vec![("tree", "building,inProgress,result".to_owned())];
        let call = Call::get(format!("{path}/{build}/api/json"), tree, &attempted);
        let answer = self.transport.ask(&self.pass, &call).await?;
        match answer.status {
            StatusCode::OK => {
                let Build { building, in_progress, result } = answer.read(JENKINS.name, &attempted)?;
                let build = JenkinsBuild { building, in_progress, result };
                JobStatus::of_jenkins(&build).ok_or_else(|| {
                    CallError::failed(
                        attempted,
                        format!("Jenkins says that it is {:?}, which is new", build.result),
                    )
                })
            }
            StatusCode::NOT_FOUND => self.is_shown(&path, &attempted).await.map(|()| JobStatus::Unknown),
            _ => Err(refusal(&answer, &attempted)),
        }
    }

    /// Jenkins answers 404 for what is not there and for what it hides: only in a job that it shows is a build that it does not show not
    /// there.
    async fn is_shown(&self, path: &str, attempted: &str) -> Result<(), CallError> {
        let call = Call::get(format!("{path}/api/json"), vec![("tree", "name".to_owned())], attempted);
        let answer = self.transport.ask(&self.pass, &call).await?;
        match answer.status {
            StatusCode::OK => Ok(()),
            _ => Err(refusal(&answer, attempted)),
        }
    }
}

#[derive(Deserialize)]
struct Build {
    building: bool,
    #[serde(rename = "inProgress", default)]
    in_progress: bool,
    result: Option<String>,
}
