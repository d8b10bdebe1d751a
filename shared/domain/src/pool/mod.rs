//! A pool: a named set of interchangeable runners, and the rules that they live by.

mod change;
mod checkpoints;
mod ec2;
mod grace;
mod health;
mod idle;
mod job_env;
mod record;

pub use change::{
    Moved, PoolChange, decide_change, is_left_to_the_file, launches_as_before, needed_backends, next_rev,
    retired,
};
pub use checkpoints::CheckpointRules;
pub use ec2::{Architecture, Download, Ec2Rules};
pub use health::{PoolConcern, PoolFigures, calls_run_short, refusal_stands, seems_silent};
pub use idle::{Spares, Surplus};
pub use job_env::{LONGEST_VARIABLE, MOST_VARIABLES, VALUE_PATTERN, VARIABLE_PATTERN};
pub use record::{POOL, POOLS, PoolRecord, PoolShortage, SHORTAGE};

use crate::ci::CiBinding;
use crate::ids::{Owner, PoolName};
use crate::spec::{INSTANCE_TYPE_RULE, Offer, is_instance_type};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    pub name: PoolName,
    pub source: Source,
    /// Taken out of the pools file while runners lived: it gets no new ones, and its idle ones go.
    pub retired: bool,
    pub rules: Rules,
}

/// Where a pool's definition comes from, and so where it may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    File,
    Api,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    pub backend: BackendKind,
    pub dispatch: Dispatch,
    pub clean: Clean,
    pub max: u32,
    pub min_idle: u32,
    pub limits: Limits,
    /// What each machine that this pool launches will be. A registered machine brings an offer of its own.
    pub offer: Offer,
    pub commands: Commands,
    /// Only, and always, with the backend `ec2`. The offer's spec is then the least that a machine must have.
    #[serde(default)]
    pub ec2: Option<Ec2Rules>,
    /// Without it, `commands` alone register a runner, if anybody does.
    #[serde(default)]
    pub ci: Option<CiBinding>,
    /// Variables of every command, beside those of an allow-list.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub job_env: BTreeMap<String, String>,
    /// The operator vouches for whatever runs here: it may be run as the control plane's own user.
    #[serde(default, skip_serializing_if = "is_false")]
    pub trusted: bool,
    /// The operator may have commands run on its machines, through their agents.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_exec: bool,
    /// The teams that may use it, beside the operator; none: all may. A pool that names none is written as it was before there were any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub teams: Vec<Owner>,
    /// A pool with the usual ones is written as it was before there were any.
    #[serde(default, skip_serializing_if = "CheckpointRules::is_usual")]
    pub checkpoints: CheckpointRules,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Rules {
    /// How long a machine may take to be clean: no shorter than the commands that may have to run for it.
    pub fn resets_within(&self) -> Duration {
        let CheckpointRules { reset_command, readiness, .. } = self.checkpoints;
        match self.clean {
            Clean::Reset => self.limits.resetting.max(reset_command + readiness + self.limits.heartbeat * 2),
            Clean::Replace | Clean::Cleanup | Clean::Keep => self.limits.resetting,
        }
    }

    pub fn may_be_used_by(&self, owner: &Owner) -> bool {
        self.teams.is_empty() || *owner == Owner::operator() || self.teams.contains(owner)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    Local,
    Ec2,
    Proxmox,
    Qemu,
    BareMetal,
}

impl BackendKind {
    pub const ALL: [Self; 5] = [Self::Local, Self::Ec2, Self::Proxmox, Self::Qemu, Self::BareMetal];

    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Ec2 => "ec2",
            Self::Proxmox => "proxmox",
            Self::Qemu => "qemu",
            Self::BareMetal => "bare_metal",
        }
    }

    /// A kept runner outlives its holders: it is reset, never terminated for its own sake.
    pub fn kept(self) -> bool {
        match self {
            Self::Proxmox | Self::Qemu | Self::BareMetal => true,
            Self::Local | Self::Ec2 => false,
        }
    }

    /// Whether machines are made on demand. The others are registered by an operator.
    pub fn launches(self) -> bool {
        match self {
            Self::Local | Self::Ec2 => true,
            Self::Proxmox | Self::Qemu | Self::BareMetal => false,
        }
    }

    /// Whether the machines of one launch are told the same, and so share one secret; each agent knows which machine it is on.
    pub fn launches_alike(self) -> bool {
        match self {
            Self::Ec2 => true,
            Self::Local | Self::Proxmox | Self::Qemu | Self::BareMetal => false,
        }
    }

    /// What is proven before the next use where the pool does not say: what one job leaves, the next one does not meet.
    pub fn clean_by_default(self) -> Clean {
        match self {
            Self::Ec2 => Clean::Replace,
            Self::Local | Self::Proxmox | Self::Qemu | Self::BareMetal => Clean::Cleanup,
        }
    }

    /// Whether a machine can be rolled back to a restore point.
    pub fn rolls_back(self) -> bool {
        match self {
            Self::Proxmox | Self::Qemu => true,
            Self::Local | Self::Ec2 | Self::BareMetal => false,
        }
    }
}

/// Who hands work to a pool's runners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispatch {
    Claim,
    Hook,
    Lease,
}

impl Dispatch {
    pub fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Hook => "hook",
            Self::Lease => "lease",
        }
    }
}

/// What must be proven before a runner is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clean {
    /// A new machine.
    Replace,
    /// A rollback to a checkpoint.
    Reset,
    /// A command that succeeded.
    Cleanup,
    /// Nothing.
    Keep,
}

impl Clean {
    pub fn name(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::Reset => "reset",
            Self::Cleanup => "cleanup",
            Self::Keep => "keep",
        }
    }
}

/// How long each state may last, and how often an agent is heard from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub idle: Duration,
    pub created: Duration,
    pub claimed: Duration,
    pub wait: Duration,
    pub releasing: Duration,
    pub resetting: Duration,
    pub terminating: Duration,
    pub max_runtime: Duration,
    pub heartbeat: Duration,
    /// How long after its threshold an agent that nobody stopped ends its host by itself: the time that refresh has to decide.
    pub grace: Duration,
    /// How long one command of the operator's may take: pre-runner script, register, deregister, cleanup.
    pub command: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let minutes = |n: u64| Duration::from_secs(n * 60);
        Self {
            idle: minutes(5),
            created: minutes(10),
            claimed: minutes(2),
            wait: minutes(15),
            releasing: minutes(5),
            resetting: minutes(5),
            terminating: minutes(1),
            max_runtime: minutes(30),
            heartbeat: Duration::from_secs(15),
            grace: minutes(2),
            command: minutes(2),
        }
    }
}

impl Limits {
    /// An agent not heard from for this long is silent.
    pub fn silence(&self) -> Duration {
        self.heartbeat * 4
    }

    /// How long it may take until an agent hears what refresh decides, if refresh is called so often.
    pub fn heard_within(&self, refresh: Duration) -> Duration {
        refresh.saturating_add(self.heartbeat)
    }

    /// An agent not heard from for this long has missed a heartbeat. In an outage of ours, all have, when the first is silent.
    pub fn overdue(&self) -> Duration {
        self.heartbeat * 2
    }
}

/// The operator's own scripts. Values reach them in environment variables, and are never spliced in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Commands {
    /// Runs once on a new machine; the runner is ready only if it succeeds.
    pub pre_runner: Option<String>,
    pub register: Option<String>,
    /// The CI system's runner program, which stays in the foreground while the runner is registered.
    pub run: Option<String>,
    pub deregister: Option<String>,
    pub cleanup: Option<String>,
    /// Makes the machine what it was before any job, where it can't be rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<String>,
    /// Succeeds once a machine that was cleaned can take a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness: Option<String>,
}

/// A rule that can't hold: `field` is its name in the pools file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct RuleError {
    pub field: &'static str,
    pub problem: String,
}

/// The largest pool: a claim lists its runners in one record.
pub const LARGEST_POOL: u32 = 1_000;

/// The longest that a limit of a pool may be.
pub const LONGEST_LIMIT: Duration = Duration::from_secs(30 * 24 * 3600);

impl Rules {
    /// The first rule that contradicts another or itself.
    pub fn check(&self) -> Result<(), RuleError> {
        let wrong = |field, problem: String| Err(RuleError { field, problem });
        if self.max == 0 || self.max > LARGEST_POOL {
            return wrong("max", format!("must be from 1 to {LARGEST_POOL}, is {}", self.max));
        }
        if self.min_idle > self.max {
            return wrong("min_idle", format!("is {}, but max is only {}", self.min_idle, self.max));
        }
        if self.min_idle > 0 && !self.backend.launches() {
            return wrong(
                "min_idle",
                format!("{} machines are registered, not launched", self.backend.name()),
            );
        }
        if self.dispatch == Dispatch::Hook && !self.backend.kept() {
            return wrong(
                "dispatch",
                format!(
                    "\"hook\" is for machines that are kept; on {} a workflow provisions them: use claim",
                    self.backend.name()
                ),
            );
        }
        match (self.clean, self.backend) {
            (Clean::Reset, BackendKind::Proxmox | BackendKind::Qemu) => {}
            (Clean::Reset, BackendKind::BareMetal) if self.commands.reset.is_some() => {}
            (Clean::Reset, BackendKind::BareMetal) => {
                return wrong("reset_cmd", "is needed: clean = \"reset\" proves that it ran".to_owned());
            }
            (Clean::Reset, BackendKind::Local | BackendKind::Ec2) => {
                return wrong(
                    "clean",
                    format!(
                        "\"reset\" needs a machine that is kept; on {} use cleanup, replace or keep",
                        self.backend.name()
                    ),
                );
            }
            (Clean::Replace | Clean::Cleanup | Clean::Keep, _) => {}
        }
        if self.clean == Clean::Replace && self.backend.kept() {
            return wrong(
                "clean",
                format!("a {} machine is kept, and can't be replaced", self.backend.name()),
            );
        }
        if self.clean == Clean::Cleanup
            && self.backend == BackendKind::BareMetal
            && self.commands.cleanup.is_none()
        {
            return wrong("cleanup_cmd", "is needed: clean = \"cleanup\" proves that it ran".to_owned());
        }
        if self.offer.spec.cpu == 0 || self.offer.spec.memory_mb == 0 {
            return wrong("cpu", "cpu and memory_mb must be above 0".to_owned());
        }
        if !is_instance_type(&self.offer.instance_type) {
            return wrong("instance_type", INSTANCE_TYPE_RULE.to_owned());
        }
        match (&self.ec2, self.backend == BackendKind::Ec2) {
            (Some(ec2), true) => ec2.check()?,
            (None, true) => {
                return wrong("ec2", "is needed: backend = \"ec2\" has a table of its own".to_owned());
            }
            (Some(_), false) => {
                return wrong("ec2", format!("does not go with backend = \"{}\"", self.backend.name()));
            }
            (None, false) => {}
        }
        if let Some(ci) = &self.ci {
            ci.check()?;
        }
        job_env::check(&self.job_env)?;
        if self.checkpoints.reset_every_jobs == 0 {
            return wrong("reset_every_jobs", "must be above 0; 1 resets after each job".to_owned());
        }
        for (field, limit) in self.limits.named().into_iter().chain(self.checkpoints.named()) {
            if limit.is_zero() || limit > LONGEST_LIMIT {
                return wrong(field, "must be above 0 and at most 30 days".to_owned());
            }
        }
        Ok(())
    }
}

impl Limits {
    /// Each limit by the name of its key in the pools file, without the unit.
    pub fn named(&self) -> [(&'static str, Duration); 11] {
        let Self {
            idle,
            created,
            claimed,
            wait,
            releasing,
            resetting,
            terminating,
            max_runtime,
            heartbeat,
            grace,
            command,
        } = self;
        [
            ("idle", *idle),
            ("created", *created),
            ("claimed", *claimed),
            ("wait", *wait),
            ("releasing", *releasing),
            ("resetting", *resetting),
            ("terminating", *terminating),
            ("max_runtime", *max_runtime),
            ("heartbeat", *heartbeat),
            ("grace", *grace),
            ("command", *command),
        ]
    }
}
