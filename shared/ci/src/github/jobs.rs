//! What became of a job at GitHub. A hook on the host knows the workflow run, its attempt and the runner, and not the job's id: so the jobs
//! of the attempt are listed, and the one that ran on the runner is it.

use motorpool_control::ports::ci::CiJob;
use motorpool_domain::Timestamp;
use motorpool_domain::ci::{GitHubJob, JobStatus};
use reqwest::StatusCode;
use serde::Deserialize;

use super::refusal::refusal;
use super::scope::Scope;
use super::{GITHUB, GitHub, PAGE};
use crate::call::{Call, Response};
use crate::error::CallError;

/// A run has a few hundred jobs; many thousands are somebody's mistake.
const MOST_PAGES: usize = 50;

impl GitHub {
    pub(super) async fn status_of(&self, job: &CiJob) -> Result<JobStatus, CallError> {
        let CiJob { scope, project, id, attempt, runner, since } = job;
        let repository = repository(project.as_deref().unwrap_or(scope))?;
        let run: u64 = id.parse().map_err(|_| {
            CallError::Refused(format!("{id:?} is no workflow run of GitHub's: its ids are numbers"))
        })?;
        let Some(runner) = runner else {
            let why =
                format!("a job of the workflow run {run} is found by its runner's name, which is not known");
            return Err(CallError::Refused(why));
        };
        let attempted =
            format!("look up the job of the runner {runner} in the workflow run {run} of {repository}");
        let path = match attempt {
            Some(attempt) => format!("{}/actions/runs/{run}/attempts/{attempt}/jobs", repository.path()),
            None => format!("{}/actions/runs/{run}/jobs", repository.path()),
        };
        let Some(jobs) = self.jobs(&repository, path, &attempted).await? else {
            return self.is_shown(&repository, &attempted).await.map(|()| JobStatus::Unknown);
        };
        JobStatus::on_github_runner(&jobs, runner, *since)
            .ok_or_else(|| CallError::failed(attempted, "GitHub tells of it in words that are new"))
    }

    /// Nothing where GitHub answers that there is no such thing.
    async fn jobs(
        &self,
        repository: &Scope,
        path: String,
        attempted: &str,
    ) -> Result<Option<Vec<GitHubJob>>, CallError> {
        let mut found = Vec::new();
        for page in 1..=MOST_PAGES {
            let query = vec![("per_page", PAGE.to_string()), ("page", page.to_string())];
            // As the App is installed for this repository, whatever the pool's scope is.
            let answer = self.call(repository, &Call::get(path.clone(), query, attempted)).await?;
            match answer.status {
                StatusCode::OK => {}
                StatusCode::NOT_FOUND => return Ok(None),
                _ => return Err(job_refusal(repository, &answer, attempted)),
            }
            let Page { jobs } = answer.read(GITHUB.name, attempted)?;
            let last = jobs.len() < PAGE;
            found.extend(jobs.into_iter().map(GitHubJob::from));
            if last {
                return Ok(Some(found));
            }
        }
        Err(CallError::failed(attempted, format!("it has more than {} jobs", MOST_PAGES * PAGE)))
    }

    /// GitHub answers 404 for what is not there and for what it hides: only in a repository that it shows is a run that it does not show
    /// not there.
    async fn is_shown(&self, repository: &Scope, attempted: &str) -> Result<(), CallError> {
        let answer = self.call(repository, &Call::get(repository.path(), Vec::new(), attempted)).await?;
        match answer.status {
            StatusCode::OK => Ok(()),
            _ => Err(job_refusal(repository, &answer, attempted)),
        }
    }
}

#[derive(Deserialize)]
struct Page {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    runner_name: Option<String>,
    status: String,
    conclusion: Option<String>,
    started_at: Option<String>,
    completed_at: Option<String>,
}

impl From<Job> for GitHubJob {
    fn from(Job { runner_name, status, conclusion, started_at, completed_at }: Job) -> Self {
        let instant = |text: Option<String>| instant(&text?);
        Self {
            runner: runner_name,
            status,
            conclusion,
            started_at: instant(started_at),
            completed_at: instant(completed_at),
        }
    }
}

fn instant(text: &str) -> Option<Timestamp> {
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp::from_millis(u64::try_from(at.as_millisecond()).ok()?))
}

/// The job's own, or else the pool's scope, which may be one.
fn repository(named: &str) -> Result<Scope, CallError> {
    match Scope::parse(named) {
        Ok(repository @ Scope::Repository { .. }) => Ok(repository),
        Ok(Scope::Organisation(_) | Scope::Enterprise(_)) | Err(_) => Err(CallError::Refused(format!(
            "{named:?} is no repository of GitHub's: write \"owner/repository\""
        ))),
    }
}

fn job_refusal(repository: &Scope, answer: &Response, attempted: &str) -> CallError {
    const PERMISSION: &str = "the App needs the repository permission \"Actions: Read\" (a token: the scope repo, or Actions: read)";
    match answer.status {
        StatusCode::FORBIDDEN => {
            answer.refused(GITHUB.name, attempted, &format!("a permission is lacking: {PERMISSION}"))
        }
        StatusCode::NOT_FOUND => {
            let what_to_do =
                format!("GitHub shows no such repository; is the App installed for it? And {PERMISSION}");
            answer.refused(GITHUB.name, attempted, &what_to_do)
        }
        _ => refusal(repository, answer, attempted),
    }
}
