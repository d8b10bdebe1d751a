//! What can go wrong, told apart as far as somebody can decide on it. Proxmox VE's own words stand beside it; a credential never does.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::status::Lock;

/// Why there is no client: the settings are wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    #[error("{url:?} is no address of Proxmox VE: {problem}")]
    Address { url: String, problem: &'static str },
    #[error("{text:?} is no token of Proxmox VE: write it as user@realm!token, without its secret")]
    TokenId { text: String },
    #[error("the secret of the token for Proxmox VE is empty, or holds characters that none has")]
    Secret,
    #[error("the authority for Proxmox VE is not usable: {why}")]
    Authority { why: String },
    #[error("cannot set up HTTPS for Proxmox VE: {why}")]
    Https { why: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {attempted}: {problem}{}", in_brackets(.said))]
pub struct Error {
    /// What was to be done: "roll VM 101 on pve1 back to mp-…".
    pub attempted: String,
    pub problem: Problem,
    /// In Proxmox VE's words; empty where it said nothing.
    pub said: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("the VM is locked ({lock})")]
    Locked { lock: Lock },
    /// Another task has the VM's configuration for a moment.
    #[error("something else is being done to the VM")]
    Busy,
    #[error("there is a snapshot of this name already")]
    NameTaken,
    #[error("there is no such snapshot")]
    SnapshotMissing,
    #[error("the snapshot was never finished")]
    SnapshotUnfinished,
    #[error("a disk of the VM is on a storage that has no snapshots")]
    NoSnapshots,
    #[error("there is a newer snapshot, and the VM's storage goes back to the newest only")]
    NotNewest,
    #[error("the VM is running")]
    StillRunning,
    #[error("the VM is running already")]
    AlreadyRunning,
    #[error("there is no such VM on this node")]
    VmMissing,
    #[error("the number is taken by another VM")]
    VmIdTaken,
    #[error("the VM's configuration was changed meanwhile")]
    ConfigChanged,
    #[error("Proxmox VE does not know this task")]
    TaskUnknown,
    #[error("the token lacks {lacks}")]
    Forbidden { lacks: Lacking },
    #[error("Proxmox VE does not accept the token")]
    Unauthorized,
    #[error("Proxmox VE does not take the request{}", listed(.errors))]
    BadParameter { errors: BTreeMap<String, String> },
    /// The node that was asked can't reach the one that is meant.
    #[error("the node can't be reached")]
    NodeUnreachable { begun: Begun },
    #[error("Proxmox VE did not answer: {why}")]
    NoAnswer { why: String, begun: Begun },
    #[error("Proxmox VE can't do it now")]
    Unavailable,
    #[error("the task has not ended within {} s", .within.as_secs())]
    Unfinished { within: Duration },
    #[error("the answer is not understood: {why}")]
    NotUnderstood { why: String },
    #[error("it failed")]
    Failed,
}

/// Whether what was asked for may have been begun though no answer said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// The request never left.
    No,
    Perhaps,
}

/// What a permission check wanted: any of these privileges, on this path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// Empty where Proxmox VE did not say.
    pub path: String,
    pub privileges: Vec<String>,
}

impl Error {
    pub(crate) fn new(attempted: &str, problem: Problem) -> Self {
        Self { attempted: attempted.to_owned(), problem, said: String::new() }
    }

    pub(crate) fn saying(attempted: &str, problem: Problem, said: &str) -> Self {
        Self { said: said.to_owned(), ..Self::new(attempted, problem) }
    }

    /// Whether a call that was to begin a task may have done so: then the VM's tasks are to be looked at before it is made again.
    pub fn may_have_begun(&self) -> bool {
        match &self.problem {
            Problem::NodeUnreachable { begun } | Problem::NoAnswer { begun, .. } => *begun == Begun::Perhaps,
            Problem::Unavailable | Problem::Unfinished { .. } | Problem::NotUnderstood { .. } => true,
            Problem::Locked { .. }
            | Problem::Busy
            | Problem::NameTaken
            | Problem::SnapshotMissing
            | Problem::SnapshotUnfinished
            | Problem::NoSnapshots
            | Problem::NotNewest
            | Problem::StillRunning
            | Problem::AlreadyRunning
            | Problem::VmMissing
            | Problem::VmIdTaken
            | Problem::ConfigChanged
            | Problem::TaskUnknown
            | Problem::Forbidden { .. }
            | Problem::Unauthorized
            | Problem::BadParameter { .. }
            | Problem::Failed => false,
        }
    }

    /// Whether the same question may be answered in a moment.
    pub fn is_passing(&self) -> bool {
        match &self.problem {
            Problem::NodeUnreachable { .. }
            | Problem::NoAnswer { .. }
            | Problem::Unavailable
            | Problem::Busy => true,
            Problem::Locked { .. }
            | Problem::NameTaken
            | Problem::SnapshotMissing
            | Problem::SnapshotUnfinished
            | Problem::NoSnapshots
            | Problem::NotNewest
            | Problem::StillRunning
            | Problem::AlreadyRunning
            | Problem::VmMissing
            | Problem::VmIdTaken
            | Problem::ConfigChanged
            | Problem::TaskUnknown
            | Problem::Forbidden { .. }
            | Problem::Unauthorized
            | Problem::BadParameter { .. }
            | Problem::Unfinished { .. }
            | Problem::NotUnderstood { .. }
            | Problem::Failed => false,
        }
    }
}

impl std::fmt::Display for Lacking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, privileges } = self;
        if privileges.is_empty() {
            return f.write_str("a privilege");
        }
        write!(f, "{} on {path}", privileges.join(" or "))
    }
}

fn in_brackets(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(" (Proxmox VE: {said})") }
}

fn listed(errors: &BTreeMap<String, String>) -> String {
    if errors.is_empty() {
        return String::new();
    }
    let each: Vec<String> = errors.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    format!(": {}", each.join("; "))
}
