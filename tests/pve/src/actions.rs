//! What a task does to a VM.

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Start,
    Stop,
    Snapshot { name: String, memory: bool },
    Rollback { name: String },
    DeleteSnapshot { name: String },
    Clone { to: u32, name: String },
}

impl Action {
    /// As the task's id names it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Start => "qmstart",
            Self::Stop => "qmstop",
            Self::Snapshot { .. } => "qmsnapshot",
            Self::Rollback { .. } => "qmrollback",
            Self::DeleteSnapshot { .. } => "qmdelsnapshot",
            Self::Clone { .. } => "qmclone",
        }
    }

    /// What the VM is locked for meanwhile.
    pub(crate) fn lock(&self) -> Option<&'static str> {
        match self {
            Self::Start | Self::Stop => None,
            Self::Snapshot { .. } => Some("snapshot"),
            Self::Rollback { .. } => Some("rollback"),
            Self::DeleteSnapshot { .. } => Some("snapshot-delete"),
            Self::Clone { .. } => Some("clone"),
        }
    }

    /// How long it takes in the model, in milliseconds of its clock.
    pub(crate) fn takes_ms(&self) -> u64 {
        match self {
            Self::Start | Self::Stop => 200,
            Self::Snapshot { .. } | Self::DeleteSnapshot { .. } => 400,
            Self::Rollback { .. } => 500,
            Self::Clone { .. } => 800,
        }
    }
}
