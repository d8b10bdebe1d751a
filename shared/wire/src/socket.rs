//! What a job's hook and the agent of its machine say to each other over the agent's Unix socket: one line of JSON each way, and the end. The hook
//! has no token: the agent asks the control plane with its own, and hands on what it was told.

use crate::checkpoint::{CreateCheckpoint, FinalizeCheckpoint};
use crate::error::ErrorCode;
use motorpool_domain::checkpoint::{FinalizeSource, JobOutcome};
use motorpool_domain::{CheckpointName, JobId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest line either way, in bytes.
pub const LONGEST_LINE: usize = 64 * 1024;
/// How long a caller is kept waiting at most, the retries of its agent among it.
pub const LONGEST_CALL: Duration = Duration::from_secs(30);

/// All that can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SocketRequest {
    Create(CreateByHook),
    Finalize(FinalizeByHook),
    Status(StatusByHook),
    Readiness(ReadinessByHook),
}

/// As [`CreateCheckpoint`]; the runner is the agent's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateByHook {
    pub job_id: JobId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinalizeByHook {
    pub checkpoint_name: CheckpointName,
    pub status: JobOutcome,
    /// Who says so; without it, the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<HookSource>,
}

/// Who may be named on the socket as who says that a job has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookSource {
    Hook,
    Agent,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusByHook {
    pub checkpoint_name: CheckpointName,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadinessByHook {}

/// `T`: the body of the control plane's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SocketAnswer<T> {
    Ok(T),
    Error(SocketError),
}

/// As the control plane's error envelope says it, or the agent itself where nothing was heard of the control plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketError {
    pub code: ErrorCode,
    pub message: String,
    pub hint: String,
    /// HTTP's.
    pub status: u16,
    /// After so many seconds it makes sense to ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

impl From<CreateByHook> for CreateCheckpoint {
    fn from(create: CreateByHook) -> Self {
        let CreateByHook { job_id, project, attempt, caller, key } = create;
        Self { runner_id: None, job_id, project, attempt, caller, key }
    }
}

impl From<FinalizeByHook> for FinalizeCheckpoint {
    fn from(finalize: FinalizeByHook) -> Self {
        let FinalizeByHook { checkpoint_name, status, source } = finalize;
        let source = match source {
            Some(HookSource::Hook) => FinalizeSource::Hook,
            Some(HookSource::Agent) | None => FinalizeSource::Agent,
        };
        Self { checkpoint_name, status, source: Some(source) }
    }
}
