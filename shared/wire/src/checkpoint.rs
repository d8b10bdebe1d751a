//! Checkpoints over HTTP and WebSocket: what a job's hooks send, and what they are told.

use crate::schema;
use motorpool_domain::checkpoint::{FinalizeSource, JobOutcome};
use motorpool_domain::{CheckpointName, JobId, RunnerId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The longest that a caller or a project may call itself, in characters.
pub const LONGEST_NAME: usize = 200;

/// `POST /checkpoint/create`, with the runner's token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateCheckpoint {
    /// The token's own; another one is refused.
    #[schema(value_type = Option<schema::RunnerId>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<RunnerId>,
    #[schema(value_type = schema::JobId)]
    pub job_id: JobId,
    /// Where the CI system has the job, if its id alone does not say: GitLab's project, by its number or its path; GitHub's `owner/repository`; the full name
    /// of Jenkins' job. A pool whose CI system can't be asked about the job without it refuses a job that lacks it.
    #[schema(value_type = Option<schema::Name>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Which try it is, where the CI system counts them beside the job's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[schema(value_type = Option<schema::Name>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// Something random of this very job's, where jobs share an id: with another key it is another job. Sent again with the same, it is the same.
    #[schema(value_type = Option<schema::Name>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// `POST /checkpoint/finalize`, with the runner's token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FinalizeCheckpoint {
    #[schema(value_type = schema::CheckpointName)]
    pub checkpoint_name: CheckpointName,
    #[schema(value_type = schema::JobOutcome)]
    pub status: JobOutcome,
    /// Who says so: `hook` by default.
    #[schema(value_type = Option<schema::ToldBy>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<FinalizeSource>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FinalizeAnswer {
    /// "Finalize queued", or "Already finalized".
    pub detail: String,
    #[schema(value_type = schema::CheckpointName)]
    pub checkpoint_name: CheckpointName,
    /// Of one that was finalized before.
    #[schema(value_type = Option<schema::CheckpointState>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// A checkpoint as its callers see it. Times are RFC 3339.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointView {
    #[schema(value_type = schema::CheckpointName)]
    pub name: CheckpointName,
    #[schema(value_type = schema::RunnerId)]
    pub runner_id: RunnerId,
    #[schema(value_type = schema::JobId)]
    pub job_id: JobId,
    #[schema(value_type = schema::CheckpointState)]
    pub state: String,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    #[schema(value_type = Option<schema::JobOutcome>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalize_status: Option<JobOutcome>,
    #[schema(value_type = Option<schema::FinalizeSource>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalize_source: Option<FinalizeSource>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalized_at: Option<String>,
    /// What it waits for, or how it ended.
    pub why: String,
}

/// `GET /runner/readiness`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    #[schema(value_type = schema::RunnerId)]
    pub runner_id: RunnerId,
    /// Whether it can take a job.
    pub ready: bool,
    #[schema(value_type = schema::StateName)]
    pub state: String,
}
