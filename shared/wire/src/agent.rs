//! The agent's protocol: bootstrap and sync. Deadlines travel as durations, counted by the agent from the moment it sent the request.
//!
//! An update reaches the control plane and its agents one after the other: each accepts a protocol that is one version apart, and ignores fields
//! that it does not know.

use crate::schema;
use motorpool_domain::ci::CiSystem;
use motorpool_domain::runner::{Notice, StateName, TaskResult};
use motorpool_domain::{Epoch, Label, PoolName, RunnerId, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The longest of what an agent says about its host, in characters.
pub const LONGEST_ID: usize = 200;

/// Which version of this protocol a message is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Protocol(pub u32);

impl Protocol {
    /// Of this code. The first was not told in messages.
    pub const OURS: Self = Self(3);
    /// From which on an agent can reset its machine, and see whether it is ready.
    pub const RESETS: Self = Self(3);

    /// Whether both sides understand enough of each other to work together during an update.
    pub fn understands(self, other: Self) -> bool {
        self.0.abs_diff(other.0) <= 1
    }
}

/// Of a message that does not say.
impl Default for Protocol {
    fn default() -> Self {
        Self(1)
    }
}

/// The agent makes its own token, and redeems its launch secret with that token's hash.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct BootstrapRequest {
    #[schema(value_type = schema::RunnerId)]
    pub runner: RunnerId,
    pub secret: String,
    /// SHA-256 of the token that the agent will use, in hex.
    #[schema(value_type = schema::TokenSha256)]
    pub token_sha256: String,
    #[schema(value_type = schema::HostId)]
    pub machine_id: String,
    #[schema(value_type = schema::HostId)]
    pub boot_id: String,
}

impl std::fmt::Debug for BootstrapRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BootstrapRequest").field("runner", &self.runner).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BootstrapAnswer {
    #[schema(value_type = schema::PoolName)]
    pub pool: PoolName,
    #[schema(value_type = u64)]
    pub epoch: Epoch,
}

/// The runner that a token belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentSelf {
    #[schema(value_type = schema::RunnerId)]
    pub runner: RunnerId,
    #[schema(value_type = schema::PoolName)]
    pub pool: PoolName,
    #[schema(value_type = u64)]
    pub epoch: Epoch,
    #[schema(value_type = schema::StateName)]
    pub state: StateName,
}

/// Who the agent is, and what it observes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SyncRequest {
    /// A message that does not say is of the first, which is too old by now.
    #[schema(value_type = schema::ProtocolVersion, required = true)]
    #[serde(default)]
    pub protocol: Protocol,
    #[schema(value_type = schema::RunnerId)]
    pub runner: RunnerId,
    #[schema(value_type = u64)]
    pub epoch: Epoch,
    #[schema(value_type = schema::HostId)]
    pub boot_id: String,
    pub agent_version: String,
    /// The label that it is registered under with the CI system.
    #[schema(value_type = Option<schema::Label>)]
    #[serde(default)]
    pub registered: Option<Label>,
    /// The task that it is at.
    #[schema(value_type = Option<schema::TaskId>)]
    #[serde(default)]
    pub busy: Option<TaskId>,
    /// How the tasks of this epoch ended.
    #[schema(value_type = Vec<schema::TaskResult>)]
    #[serde(default)]
    pub results: Vec<TaskResult>,
    /// What the provider says it will do to the machine.
    #[schema(value_type = Option<schema::Notice>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<Notice>,
    /// The version of the CI system's runner program on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_version: Option<String>,
    /// Made by the agent's process at its start, and known to nobody else. It tells a request that was overtaken from one of a stranger who has
    /// the token. An agent that has one changes its token with each reset.
    #[schema(value_type = Option<schema::HostId>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// SHA-256 in hex of the token that the agent will use from now on; named until the answer says that it is taken.
    #[schema(value_type = Option<schema::TokenSha256>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_token_sha256: Option<String>,
    /// How long the answer may wait for something new to say.
    #[serde(default)]
    pub wait_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SyncAnswer {
    #[schema(value_type = u32)]
    #[serde(default)]
    pub protocol: Protocol,
    /// The present epoch. An agent with an older one forgets its results, and goes on with this.
    #[schema(value_type = u64)]
    pub epoch: Epoch,
    #[schema(value_type = schema::StateName)]
    pub state: StateName,
    pub task: Option<TaskOrder>,
    /// End the host now; on a kept machine, the work and the agent.
    pub end: bool,
    /// The machine outlives the agent's work: at its deadlines the agent ends its work, never the host.
    pub kept: bool,
    /// Work must be over by then.
    pub threshold_in_ms: Option<u64>,
    /// An agent that hears nothing else by then ends its host by itself.
    pub fence_in_ms: Option<u64>,
    pub next_sync_in_ms: u64,
    /// The agent should make itself another token, once nothing of its work is left, and name it in its next request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub token_due: bool,
    /// The token that the request named is the runner's now: the one that it came with is worthless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub token_taken: bool,
}

/// An agent that was told to register asks for what its runner program needs, each time before that begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegistrationRequest {
    #[schema(value_type = schema::RunnerId)]
    pub runner: RunnerId,
    #[schema(value_type = u64)]
    pub epoch: Epoch,
    /// The claim's, as the task says.
    #[schema(value_type = schema::Label)]
    pub label: Label,
    /// Which registration of this epoch it is. Each is handed out once: the same number again is answered only to the session that asked for
    /// it before, whose answer may have been lost, and then replaces what was given for it.
    pub count: u32,
    /// As in a sync.
    #[schema(value_type = Option<schema::HostId>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegistrationAnswer {
    #[schema(value_type = schema::CiSystem)]
    pub system: CiSystem,
    /// What the CI system lists the runner as.
    pub name: String,
    /// The CI system's address, where the program asks for it.
    pub url: Option<String>,
    /// GitHub: the encoded just-in-time configuration. GitLab: the runner's authentication token.
    pub secret: String,
}

impl std::fmt::Debug for RegistrationAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistrationAnswer").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskOrder {
    #[schema(value_type = schema::TaskId)]
    pub id: TaskId,
    pub kind: TaskKind,
    pub timeout_ms: u64,
    /// Of the pool, for every command of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// Scripts are the operator's own, from the pool's settings; values reach them in the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    Prepare {
        script: Option<String>,
    },
    /// `script` registers; then `run`, the CI system's runner program, is kept in the foreground.
    Register {
        #[schema(value_type = schema::Label)]
        label: Label,
        script: Option<String>,
        run: Option<String>,
        /// The program needs something from this CI system each time it begins: `POST /agent/registration` gets it.
        #[schema(value_type = Option<schema::CiSystem>)]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ci: Option<CiSystem>,
    },
    Deregister {
        #[schema(value_type = schema::Label)]
        label: Label,
        script: Option<String>,
    },
    /// Without a script the agent empties its work directory.
    Cleanup {
        script: Option<String>,
    },
    /// Makes the machine what it was before any job.
    Reset {
        script: String,
    },
    /// Tried again until it succeeds, or its time is over.
    Readiness {
        script: String,
    },
}
