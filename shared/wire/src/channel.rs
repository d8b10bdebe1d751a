//! An agent's WebSocket: requests and responses in one envelope, in both directions. And what the operator asks of an agent that is connected.

use crate::schema;
use motorpool_domain::CheckpointName;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use utoipa::ToSchema;

/// The longest that a message may be called, in characters.
pub const LONGEST_MESSAGE_ID: usize = 128;
/// In characters.
pub const LONGEST_COMMAND: usize = 16_384;
/// How much of each output of a command is told, in characters: its end.
pub const LONGEST_OUTPUT: usize = 65_536;
/// What a command that is to be run may hold: anything but what no shell could be given.
pub const COMMAND_PATTERN: &str = r"^[^\u0000]+$";
pub const SHORTEST_EXEC: Duration = Duration::from_secs(1);
pub const LONGEST_EXEC: Duration = Duration::from_secs(600);
pub const USUAL_EXEC: Duration = Duration::from_secs(30);

/// The code that a connection is closed with whose token is not, or no longer, that of its runner.
pub const UNAUTHORIZED: u16 = 4401;
/// The code that a connection is closed with when another one of the same runner took its place.
pub const REPLACED: u16 = 4409;

/// `GET /ws/agent`: credentials of an agent that can set no header.
#[derive(Default, Deserialize)]
pub struct ChannelQuery {
    pub runner_id: Option<String>,
    pub token: Option<String>,
}

impl std::fmt::Debug for ChannelQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChannelQuery").field("runner_id", &self.runner_id).finish_non_exhaustive()
    }
}

/// What an agent sends: a request of its own, which has a `type`, or its response to one of ours, which has a `status`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromAgent {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub payload: Option<Value>,
    pub status: Option<ResponseStatus>,
    pub data: Option<Value>,
    pub error: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseStatus {
    Ok,
    Error,
}

/// What an agent's request is answered with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Response {
    pub id: String,
    pub status: ResponseStatus,
    pub data: Option<Value>,
    pub error: Option<ResponseError>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResponseError {
    /// The status that the same call over HTTP is answered with.
    pub code: u16,
    pub detail: String,
}

impl Response {
    pub fn ok(id: String, data: Value) -> Self {
        Self { id, status: ResponseStatus::Ok, data: Some(data), error: None }
    }

    pub fn error(id: String, code: u16, detail: String) -> Self {
        let error = Some(ResponseError { code, detail });
        Self { id, status: ResponseStatus::Error, data: None, error }
    }
}

/// The payload of `status`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusPayload {
    pub checkpoint_name: CheckpointName,
}

/// What an agent is asked to run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExecMessage {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub payload: ExecOrder,
}

impl ExecMessage {
    pub fn new(id: String, payload: ExecOrder) -> Self {
        Self { id, kind: "exec", payload }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExecOrder {
    pub cmd: String,
    /// In seconds.
    pub timeout: f64,
}

/// `POST /internal/agent/{runner}/exec`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecRequest {
    /// A command line for the agent's shell.
    #[schema(value_type = schema::CommandLine)]
    pub cmd: String,
    /// How many seconds it may take: 30 if nothing is said.
    #[schema(value_type = Option<schema::ExecSeconds>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
}

/// How a command ended, with the end of what it wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecAnswer {
    #[schema(value_type = schema::ExitCode)]
    pub exit_code: i64,
    #[serde(default)]
    pub stdout: String,
    #[serde(default)]
    pub stderr: String,
}

/// `GET /internal/agent/{runner}/connected`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Connected {
    /// To this very process of the control plane.
    pub connected: bool,
}
