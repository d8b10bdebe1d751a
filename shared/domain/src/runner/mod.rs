//! A runner: one machine with an agent, as the ledger knows it. What may become of it is decided in `decide`.

mod announced;
mod decide;
mod desired;
mod direct;
mod due;
mod event;
mod handed_out;
mod inventory;
mod joining;
mod launching;
mod liveness;
mod measured;
mod pausing;
mod record;
mod revise;
mod token;
mod unpausing;

pub use announced::{Announced, announced, is_to_be_announced};
pub use decide::{Change, Decision, Refusal, decide};
pub use desired::{Desired, Observed, Task, TaskOutcome, TaskResult, desired, observe};
pub use direct::{advance_unattended, needs_hands};
pub use due::{DueFor, due_for, is_silent_while_idle, outlives_silence};
pub use event::{Hold, Holder, Notice, Presence, Removal, RunnerEvent};
pub use handed_out::{HandedOut, may_be_handed_out};
pub use inventory::{Whose, whose};
pub use joining::{Attested, Identity, Joining, Renewal, identify, join, renew_secret, renew_token};
pub use launching::{
    call_of, can_be_taken_on_its_way, is_of, is_on_its_way_for_nobody, is_unlaunched, may_be_unseen, run_from,
};
pub use liveness::{Look, look, next_look, overdue};
pub use measured::{CleaningStep, StepTaken, steps_taken};
pub use pausing::{
    ToPause, awaits_name, awaits_pause, awaits_step, is_held_up_by_ci, is_open_in_ci, is_to_be_paused,
    is_to_be_unpaused, known_in_ci, must_be_named, to_pause, waits_for_ci, wanted_label,
};
pub use record::{ANNOUNCED, FOR_NOBODY, RUNNER, SEEN, ended_runners, live_runners, state_prefix};
pub use revise::{COMMAND_PATTERN, LONGEST_COMMAND, Revised, Revision, is_command, revise};
pub use token::{NextToken, Replaced, RunnerToken, Sender, TokenUse, is_token_due};
pub use unpausing::Unpausing;

use crate::ci::Registration;
use crate::ids::{CheckpointName, Epoch, LaunchId, PoolName, RunnerId, TaskId};
use crate::ladder::{LaunchCall, Price};
use crate::spec::Offer;
use crate::time::{Threshold, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runner {
    pub id: RunnerId,
    pub pool: PoolName,
    pub epoch: Epoch,
    /// Counts the writes to this record; heartbeats are not counted.
    pub rev: u64,
    pub state: RunnerState,
    pub entered_at: Timestamp,
    /// None where nothing can get stuck: quarantined (a person must look) and terminated.
    pub threshold: Option<Threshold>,
    pub kept: bool,
    pub offer: Offer,
    pub launch: LaunchId,
    /// Which of its launch it is.
    #[serde(default)]
    pub index: u32,
    /// Since when it costs something, about.
    #[serde(default)]
    pub made_at: Timestamp,
    #[serde(default)]
    pub zone: Option<String>,
    #[serde(default)]
    pub hourly: Option<Price>,
    pub provider_id: Option<String>,
    pub credential: Option<Credential>,
    pub boot_id: Option<String>,
    pub proof: Option<CleanProof>,
    /// An operator asked for it to go once its holder is done.
    pub draining: bool,
    /// Its holder may have used it before it was ready: it is no new machine any more.
    #[serde(default)]
    pub used: bool,
    /// What the CI system knows it by at present.
    #[serde(default)]
    pub registration: Option<Registration>,
    /// The last registration of this epoch that was handed out, whether the CI system still knows it or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed_out: Option<HandedOut>,
    /// The version of the CI system's runner program on it.
    #[serde(default)]
    pub program: Option<String>,
    /// The checkpoint whose job it runs, or whose promise it is still to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointName>,
    /// Since when its CI system brings it no jobs, and the one that it had is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<Timestamp>,
    /// Until then it takes no further job: the last one's checkpoint ended a moment ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cools_until: Option<Timestamp>,
    /// What was done on it since its last reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wear: Option<Wear>,
    /// In the place of its pool's.
    #[serde(default, skip_serializing_if = "OwnCommands::are_none")]
    pub commands: OwnCommands,
    /// What its CI system knows it by, where it was registered there by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci_runner: Option<String>,
    /// The last heartbeat, kept beside the record: a heartbeat is no change of it.
    #[serde(skip)]
    pub seen_at: Option<Timestamp>,
    /// When a queue was last told that this runner is idle.
    #[serde(skip)]
    pub announced_at: Option<Timestamp>,
}

/// How much a machine that is only cleaned after each job has drifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wear {
    /// Jobs that went well, and after which it was only cleaned.
    pub jobs: u32,
    pub since: Timestamp,
}

/// A machine's own commands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OwnCommands {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness: Option<String>,
}

impl OwnCommands {
    pub(super) fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What its agent proved at bootstrap, and must prove again at each call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    /// SHA-256 of the agent's token, in hex.
    pub token_sha256: String,
    pub machine_id: String,
    /// Where its agent named the token in the place of an earlier one; nothing for the token that it joined with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<Named>,
    /// An operator was handed the token with the registration, and only an operator changes it: whoever has it need not sync.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed: bool,
}

impl Credential {
    /// The machine of a runner with a fixed token says nothing of itself: it is known by the runner's id.
    pub fn fixed(runner: &RunnerId, token_sha256: String) -> Self {
        Self { token_sha256, machine_id: runner.to_string(), named: None, fixed: true }
    }
}

/// When an agent named its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    pub epoch: Epoch,
    /// Of the agent's process that did.
    pub session: String,
}

/// How it is known that a runner is clean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanProof {
    pub how: ProofKind,
    pub at: Timestamp,
    pub task: Option<TaskId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofKind {
    NewMachine,
    Cleanup,
    /// The operator's command that makes it what it was before any job.
    Reset,
    /// The pool asks for no proof.
    Keep,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum RunnerState {
    /// The launch intent is written, then the machine is launched; not ready yet.
    Created {
        hold: Option<Hold>,
        launched_at: Option<Timestamp>,
        /// The call to the provider that is to make it, or made it. Nothing for a machine that is not launched.
        #[serde(default)]
        attempt: Option<LaunchCall>,
    },
    /// Being cleaned; the only way back into the pool.
    Resetting {
        attempt: u32,
        not_before: Timestamp,
        why: String,
        /// How it is cleaned, once that is settled: where it has a checkpoint, by how the job ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<CleanStep>,
    },
    Idle,
    /// Taken from the pool, not yet registered for its holder.
    Claimed {
        hold: Hold,
    },
    /// Its holder may use it. `leaving`: the provider will take it away, so its holder needs another.
    Running {
        hold: Hold,
        leaving: bool,
    },
    /// Told to deregister and stop.
    Releasing {
        hold: Hold,
    },
    /// A person must look.
    Quarantined {
        why: String,
    },
    /// Intent committed; the provider is told, and has not confirmed yet.
    Terminating {
        why: String,
        told: u32,
    },
    Terminated {
        why: String,
    },
}

/// What a machine is cleaned by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CleanStep {
    Cleanup,
    Reset,
}

impl CleanStep {
    pub fn proves(self) -> ProofKind {
        match self {
            Self::Cleanup => ProofKind::Cleanup,
            Self::Reset => ProofKind::Reset,
        }
    }
}

/// A state without its data, for conditions, indexes, counts and tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateName {
    Created,
    Resetting,
    Idle,
    Claimed,
    Running,
    Releasing,
    Quarantined,
    Terminating,
    Terminated,
}

impl StateName {
    pub const ALL: [Self; 9] = [
        Self::Created,
        Self::Resetting,
        Self::Idle,
        Self::Claimed,
        Self::Running,
        Self::Releasing,
        Self::Quarantined,
        Self::Terminating,
        Self::Terminated,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Resetting => "resetting",
            Self::Idle => "idle",
            Self::Claimed => "claimed",
            Self::Running => "running",
            Self::Releasing => "releasing",
            Self::Quarantined => "quarantined",
            Self::Terminating => "terminating",
            Self::Terminated => "terminated",
        }
    }

    /// Within an epoch the rank only rises.
    pub fn rank(self) -> u8 {
        match self {
            Self::Created | Self::Resetting => 0,
            Self::Idle => 1,
            Self::Claimed => 2,
            Self::Running => 3,
            Self::Releasing => 4,
            Self::Quarantined => 5,
            Self::Terminating => 6,
            Self::Terminated => 7,
        }
    }

    pub fn live(self) -> bool {
        self != Self::Terminated
    }
}

impl std::fmt::Display for StateName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl RunnerState {
    pub fn name(&self) -> StateName {
        match self {
            Self::Created { .. } => StateName::Created,
            Self::Resetting { .. } => StateName::Resetting,
            Self::Idle => StateName::Idle,
            Self::Claimed { .. } => StateName::Claimed,
            Self::Running { .. } => StateName::Running,
            Self::Releasing { .. } => StateName::Releasing,
            Self::Quarantined { .. } => StateName::Quarantined,
            Self::Terminating { .. } => StateName::Terminating,
            Self::Terminated { .. } => StateName::Terminated,
        }
    }

    /// Whether no claim has it, and one could.
    pub fn is_free(&self) -> bool {
        match self {
            Self::Idle | Self::Created { hold: None, .. } => true,
            Self::Created { hold: Some(_), .. }
            | Self::Resetting { .. }
            | Self::Claimed { .. }
            | Self::Running { .. }
            | Self::Releasing { .. }
            | Self::Quarantined { .. }
            | Self::Terminating { .. }
            | Self::Terminated { .. } => false,
        }
    }

    /// Whether a claim that waits could get further now: by an idle runner, or a slot that is or will soon be free.
    pub fn makes_room(&self) -> bool {
        match self {
            Self::Idle | Self::Terminating { .. } | Self::Terminated { .. } => true,
            Self::Created { .. }
            | Self::Resetting { .. }
            | Self::Claimed { .. }
            | Self::Running { .. }
            | Self::Releasing { .. }
            | Self::Quarantined { .. } => false,
        }
    }

    /// Who has a runner whose machine the provider takes away.
    pub fn leaving(&self) -> Option<&Hold> {
        match self {
            Self::Running { hold, leaving: true } => Some(hold),
            Self::Created { .. }
            | Self::Resetting { .. }
            | Self::Idle
            | Self::Claimed { .. }
            | Self::Running { leaving: false, .. }
            | Self::Releasing { .. }
            | Self::Quarantined { .. }
            | Self::Terminating { .. }
            | Self::Terminated { .. } => None,
        }
    }

    /// Who has, or still had a moment ago, the use of this runner.
    pub fn hold(&self) -> Option<&Hold> {
        match self {
            Self::Created { hold, .. } => hold.as_ref(),
            Self::Claimed { hold } | Self::Running { hold, .. } | Self::Releasing { hold } => Some(hold),
            Self::Resetting { .. }
            | Self::Idle
            | Self::Quarantined { .. }
            | Self::Terminating { .. }
            | Self::Terminated { .. } => None,
        }
    }
}

impl Runner {
    /// A launch intent: written before the provider is called.
    pub fn intent(new: NewRunner, now: Timestamp) -> Self {
        let NewRunner { id, pool, launch, index, offer, kept, hold, epoch, threshold, attempt } = new;
        Self {
            id,
            pool,
            epoch,
            rev: 1,
            state: RunnerState::Created { hold, launched_at: None, attempt },
            entered_at: now,
            threshold: Some(threshold),
            kept,
            offer,
            launch,
            index,
            made_at: now,
            zone: None,
            hourly: None,
            provider_id: None,
            credential: None,
            boot_id: None,
            proof: None,
            draining: false,
            used: false,
            registration: None,
            handed_out: None,
            program: None,
            checkpoint: None,
            paused_at: None,
            cools_until: None,
            wear: None,
            commands: OwnCommands::default(),
            ci_runner: None,
            seen_at: None,
            announced_at: None,
        }
    }

    /// Who holds this runner in this epoch.
    pub fn holder(&self) -> Option<&Holder> {
        self.state.hold().map(|hold| &hold.holder)
    }

    /// Whether an operator gave it its token, and no agent changes it.
    pub fn has_fixed_token(&self) -> bool {
        self.credential.as_ref().is_some_and(|credential| credential.fixed)
    }

    /// Whether its agent has the token that it had in `earlier`.
    pub fn has_the_token_of(&self, earlier: &Self) -> bool {
        fn token(runner: &Runner) -> Option<&str> {
            runner.credential.as_ref().map(|its| its.token_sha256.as_str())
        }
        token(self) == token(earlier)
    }

    /// Whether a CI system that lists a runner under this name means this one.
    pub fn is_listed_as(&self, name: &str) -> bool {
        let registered = self.registration.as_ref().map(|registration| registration.name.as_str());
        registered == Some(name) || self.ci_runner.as_deref() == Some(name) || self.id.as_str() == name
    }

    pub fn held_by(&self, holder: impl Into<Holder>) -> bool {
        let holder = holder.into();
        self.holder() == Some(&holder)
    }
}

/// What is decided about a runner before it exists.
#[derive(Debug, Clone)]
pub struct NewRunner {
    pub id: RunnerId,
    pub pool: PoolName,
    pub launch: LaunchId,
    pub index: u32,
    pub offer: Offer,
    pub kept: bool,
    pub hold: Option<Hold>,
    pub epoch: Epoch,
    pub threshold: Threshold,
    pub attempt: Option<LaunchCall>,
}
