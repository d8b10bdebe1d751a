//! Webhooks: the part of GitHub's and GitLab's events that is read, and what their senders are told. All else in an event is ignored.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// GitHub's event `workflow_job`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GitHubJobEvent {
    /// `queued`, `waiting`, `in_progress` or `completed`.
    pub action: String,
    pub workflow_job: GitHubJob,
    pub repository: GitHubRepository,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GitHubJob {
    pub run_id: u64,
    pub run_attempt: Option<u32>,
    pub conclusion: Option<String>,
    /// RFC 3339, in whole seconds.
    pub completed_at: Option<String>,
    /// Null or 0 where no runner had the job.
    pub runner_id: Option<u64>,
    pub runner_name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GitHubRepository {
    pub full_name: String,
}

/// GitLab's `Job Hook`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GitLabJobEvent {
    /// `build`.
    pub object_kind: String,
    pub build_id: u64,
    pub build_status: String,
    pub project_id: u64,
    /// An older GitLab does not send it.
    pub project: Option<GitLabProject>,
    /// Null where no runner had the job.
    pub runner: Option<GitLabRunner>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GitLabProject {
    pub path_with_namespace: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GitLabRunner {
    pub id: u64,
    pub description: Option<String>,
}

/// To whoever sent one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookAnswer {
    /// It was taken, whether it meant anything here or not.
    pub ok: bool,
}
