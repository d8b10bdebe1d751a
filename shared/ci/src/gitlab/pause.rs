//! A runner of GitLab's gets no more jobs, or gets them again. Both set a value, so both may be repeated.

use motorpool_control::ports::ci::Paused;
use reqwest::StatusCode;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::jobs::lacks_the_thing_itself;
use super::refusal::refusal;
use super::scope::Scope;
use super::{GITLAB, GitLab, TokenUse, number};
use crate::call::{Call, Response};
use crate::error::CallError;

impl GitLab {
    /// Whether the runner has a job is asked after GitLab has said that it gives out no more. A job that is being cancelled is not among
    /// the running ones; that there is one shows in the answer about the runner.
    pub(super) async fn pause_runner(&self, scope: Scope, id: &str) -> Result<Paused, CallError> {
        let id = number(id, "runner")?;
        let attempted = format!("pause GitLab's runner {id}");
        let Some(answer) = self.set_paused(scope, id, true, &attempted).await? else {
            return Ok(Paused::Acknowledged { busy: false });
        };
        let Runner { paused, job_execution_status } = answer.read(GITLAB.name, &attempted)?;
        if paused == Some(false) {
            return Err(CallError::failed(attempted, "GitLab took the call, and says that it is not paused"));
        }
        let had_a_job = job_execution_status.as_deref() == Some("active");
        Ok(Paused::Acknowledged { busy: had_a_job || self.has_a_job(scope, id).await? })
    }

    pub(super) async fn unpause_runner(&self, scope: Scope, id: &str) -> Result<(), CallError> {
        let id = number(id, "runner")?;
        let attempted = format!("unpause GitLab's runner {id}");
        match self.set_paused(scope, id, false, &attempted).await? {
            Some(_) => Ok(()),
            None => Err(CallError::Refused(format!(
                "cannot {attempted}: GitLab knows no such runner; it was deleted there, and has to register anew"
            ))),
        }
    }

    /// Nothing if there is no such runner.
    async fn set_paused(
        &self,
        scope: Scope,
        id: u64,
        paused: bool,
        attempted: &str,
    ) -> Result<Option<Response>, CallError> {
        let call = Call::put(format!("api/v4/runners/{id}"), json!({"paused": paused}), attempted);
        let answer = self.call(&call).await?;
        match answer.status {
            StatusCode::OK => Ok(Some(answer)),
            StatusCode::NOT_FOUND if lacks_the_thing_itself(&answer) => Ok(None),
            _ => Err(refusal(scope, TokenUse::All, &answer, attempted)),
        }
    }

    async fn has_a_job(&self, scope: Scope, id: u64) -> Result<bool, CallError> {
        let attempted = format!("list the running jobs of GitLab's runner {id}");
        let query = vec![("status", "running".to_owned()), ("per_page", "1".to_owned())];
        let call = Call::get(format!("api/v4/runners/{id}/jobs"), query, &attempted);
        let (answer, used) = self.read(&call).await?;
        match answer.status {
            StatusCode::OK => Ok(!answer.read::<Vec<IgnoredAny>>(GITLAB.name, &attempted)?.is_empty()),
            // It was deleted this moment.
            StatusCode::NOT_FOUND if lacks_the_thing_itself(&answer) => Ok(false),
            _ => Err(refusal(scope, used, &answer, &attempted)),
        }
    }
}

#[derive(Deserialize)]
struct Runner {
    /// Versions before 14.8 said `active`.
    paused: Option<bool>,
    /// Older versions do not say.
    job_execution_status: Option<String>,
}
