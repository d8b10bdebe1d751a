//! As whom a command runs, and how much of the host it sees. It does nothing: `init` and `sandbox` do.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// As whom a command runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RunAs {
    /// As the agent's own user: a command of the operator's, or any command where the two cannot be told apart.
    Agent,
    /// As the user that jobs have.
    Job(Confinement),
}

/// What holds a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confinement {
    pub uid: u32,
    pub gid: u32,
    /// All that it has beside its own.
    pub groups: Vec<u32>,
    /// Whether programs such as `sudo` may make it another user.
    pub may_gain_privileges: bool,
    /// None where the host allows none: then only the users are apart.
    pub sandbox: Option<Sandbox>,
}

/// What a job sees of the host's files. It sees its own processes only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    /// Directories of which it sees nothing.
    pub hidden: Vec<PathBuf>,
    /// Directories of its own, and that of the agent's socket, which it sees where they are, also below hidden ones.
    pub shown: Vec<PathBuf>,
    /// What it sees as `/tmp` and `/var/tmp`.
    pub tmp: PathBuf,
    /// What it sees as `/etc/passwd`, where the host's does not know its user.
    pub passwd: Option<PathBuf>,
}
