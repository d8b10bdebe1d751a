//! A pool's settings as people write them, in `pools.toml` or `PUT /pools/{pool}`. What may hold is decided in `domain::pool`.

use crate::schema;
use motorpool_domain::Owner;
use motorpool_domain::ci::{CiBinding, CiSystem};
use motorpool_domain::pool::{
    Architecture, BackendKind, CheckpointRules, Clean, Commands, Dispatch, Download, Ec2Rules, Limits,
    RuleError, Rules,
};
use motorpool_domain::spec::{Offer, Spec, TypeGlobs, Usage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolSettings {
    #[schema(value_type = schema::BackendKind)]
    pub backend: BackendKind,
    #[serde(default = "by_claim")]
    #[schema(value_type = schema::Dispatch)]
    pub dispatch: Dispatch,
    /// By default `replace` on EC2, where a new machine is to be had; elsewhere `cleanup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Clean>)]
    pub clean: Option<Clean>,
    #[serde(default = "hundred")]
    #[schema(value_type = schema::RunnerCount)]
    pub max: u32,
    #[serde(default)]
    #[schema(value_type = schema::SpareCount)]
    pub min_idle: u32,

    #[schema(value_type = Option<schema::Minutes>)]
    pub idle_minutes: Option<u64>,
    #[schema(value_type = Option<schema::Seconds>)]
    pub idle_seconds: Option<u64>,
    #[schema(value_type = Option<schema::Minutes>)]
    pub created_minutes: Option<u64>,
    #[schema(value_type = Option<schema::Seconds>)]
    pub created_seconds: Option<u64>,
    #[schema(value_type = Option<schema::Minutes>)]
    pub claimed_minutes: Option<u64>,
    #[schema(value_type = Option<schema::Seconds>)]
    pub claimed_seconds: Option<u64>,
    #[schema(value_type = Option<schema::Minutes>)]
    pub wait_minutes: Option<u64>,
    #[schema(value_type = Option<schema::Seconds>)]
    pub wait_seconds: Option<u64>,
    #[schema(value_type = Option<schema::Minutes>)]
    pub releasing_minutes: Option<u64>,
    #[schema(value_type = Option<schema::Seconds>)]
    pub releasing_seconds: Option<u64>,
    #[schema(value_type = Option<schema::Minutes>)]
    pub resetting_minutes: Option<u64>,
    #[schema(value_type = Option<schema::Seconds>)]
    pub resetting_seconds: Option<u64>,
    #[schema(value_type = Option<schema::Minutes>)]
    pub terminating_minutes: Option<u64>,
    #[schema(value_type = Option<schema::Seconds>)]
    pub terminating_seconds: Option<u64>,
    #[schema(value_type = Option<schema::Minutes>)]
    pub max_runtime_minutes: Option<u64>,
    #[schema(value_type = Option<schema::Seconds>)]
    pub max_runtime_seconds: Option<u64>,
    #[schema(value_type = Option<schema::Minutes>)]
    pub command_minutes: Option<u64>,
    #[schema(value_type = Option<schema::Seconds>)]
    pub command_seconds: Option<u64>,
    #[schema(value_type = Option<schema::Minutes>)]
    pub grace_minutes: Option<u64>,
    #[schema(value_type = Option<schema::Seconds>)]
    pub grace_seconds: Option<u64>,
    #[schema(value_type = Option<schema::Seconds>)]
    pub heartbeat_seconds: Option<u64>,

    /// How long a job's checkpoint may stay open.
    #[schema(value_type = Option<schema::Minutes>)]
    pub checkpoint_minutes: Option<u64>,
    #[schema(value_type = Option<schema::Seconds>)]
    pub checkpoint_seconds: Option<u64>,
    /// How often the CI system is asked about a job, and not before when; both no more often than refresh comes.
    #[schema(value_type = Option<schema::Seconds>)]
    pub poll_seconds: Option<u64>,
    #[schema(value_type = Option<schema::Seconds>)]
    pub poll_after_seconds: Option<u64>,
    /// After so many jobs that went well a machine is reset, not only cleaned.
    #[schema(value_type = Option<schema::JobCount>)]
    pub reset_every_jobs: Option<u32>,
    #[schema(value_type = Option<schema::Hours>)]
    pub reset_every_hours: Option<u64>,
    #[schema(value_type = Option<schema::Minutes>)]
    pub reset_command_minutes: Option<u64>,
    #[schema(value_type = Option<schema::Seconds>)]
    pub reset_command_seconds: Option<u64>,
    #[schema(value_type = Option<schema::Minutes>)]
    pub readiness_minutes: Option<u64>,
    #[schema(value_type = Option<schema::Seconds>)]
    pub readiness_seconds: Option<u64>,

    #[schema(value_type = Option<schema::InstanceType>)]
    pub instance_type: Option<String>,
    #[schema(value_type = Option<schema::Usage>)]
    pub usage: Option<Usage>,
    #[schema(value_type = Option<schema::Cpus>)]
    pub cpu: Option<u32>,
    #[schema(value_type = Option<schema::Megabytes>)]
    pub memory_mb: Option<u64>,

    pub pre_runner_cmd: Option<String>,
    pub register_cmd: Option<String>,
    pub run_cmd: Option<String>,
    pub deregister_cmd: Option<String>,
    pub cleanup_cmd: Option<String>,
    /// With `clean = "reset"` on machines that can't be rolled back: after a job that failed.
    pub reset_cmd: Option<String>,
    /// Succeeds once a machine that was cleaned can take a job.
    pub readiness_cmd: Option<String>,
    /// Variables of every command, beside those of an allow-list.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = schema::JobEnv)]
    pub job_env: BTreeMap<String, String>,
    /// On `local` without root: whatever runs here may do what the control plane may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trusted: bool,
    /// Whether the operator may have commands run on its machines: `POST /internal/agent/{runner}/exec`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_exec: bool,

    /// The teams that may use the pool, beside the operator; without it, all.
    #[schema(value_type = Option<Vec<schema::Owner>>, min_items = 1)]
    pub teams: Option<Vec<Owner>>,

    pub ec2: Option<Ec2Settings>,
    pub ci: Option<CiSettings>,
}

/// `[pools.NAME.ec2]`: what a pool on EC2 is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ec2Settings {
    /// Of those with the pool's `cpu` and `memory_mb`.
    #[serde(default = "current_families")]
    #[schema(value_type = schema::TypeGlobs)]
    pub instance_types: TypeGlobs,
    #[serde(default = "by_x86_64")]
    #[schema(value_type = schema::Architecture)]
    pub architecture: Architecture,
    /// With `usage = "spot"`: on-demand where spot has nothing to give.
    #[serde(default)]
    pub on_demand_fallback: bool,
    #[schema(value_type = schema::ImageId)]
    pub image: String,
    #[schema(value_type = Vec<schema::SubnetId>, min_items = 1)]
    pub subnets: Vec<String>,
    #[schema(value_type = Vec<schema::SecurityGroupId>, min_items = 1)]
    pub security_groups: Vec<String>,
    #[serde(default = "fifty")]
    #[schema(value_type = schema::DiskGb)]
    pub disk_gb: u32,
    #[schema(value_type = Option<schema::InstanceProfile>)]
    pub instance_profile: Option<String>,
    #[serde(default)]
    #[schema(value_type = schema::Tags)]
    pub tags: BTreeMap<String, String>,
    #[schema(value_type = Option<schema::Download>)]
    pub agent: Option<Download>,
    #[schema(value_type = Option<schema::Download>)]
    pub runner_program: Option<Download>,
}

/// `[pools.NAME.ci]`: where the pool's runners register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CiSettings {
    #[schema(value_type = schema::CiSystem)]
    pub system: CiSystem,
    #[schema(value_type = schema::CiScope)]
    pub scope: String,
    #[serde(default = "default_group")]
    pub group_id: u64,
    #[serde(default)]
    #[schema(value_type = Vec<schema::CiLabel>, max_items = 20)]
    pub labels: Vec<String>,
    #[schema(value_type = Option<schema::ProgramVersion>)]
    pub minimum_version: Option<String>,
}

fn current_families() -> TypeGlobs {
    TypeGlobs::general()
}

fn by_x86_64() -> Architecture {
    Architecture::X86_64
}

fn fifty() -> u32 {
    50
}

/// GitHub's own default group.
fn default_group() -> u64 {
    1
}

impl From<Ec2Settings> for Ec2Rules {
    fn from(settings: Ec2Settings) -> Self {
        let Ec2Settings {
            instance_types,
            architecture,
            on_demand_fallback,
            image,
            subnets,
            security_groups,
            disk_gb,
            instance_profile,
            tags,
            agent,
            runner_program,
        } = settings;
        Self {
            instance_types,
            architecture,
            on_demand_fallback,
            image,
            subnets,
            security_groups,
            disk_gb,
            instance_profile,
            tags,
            agent,
            runner_program,
        }
    }
}

impl From<CiSettings> for CiBinding {
    fn from(settings: CiSettings) -> Self {
        let CiSettings { system, scope, group_id, labels, minimum_version } = settings;
        Self { system, scope, group_id, labels, minimum_version }
    }
}

fn by_claim() -> Dispatch {
    Dispatch::Claim
}

fn hundred() -> u32 {
    100
}

impl PoolSettings {
    /// The rules that these settings amount to. `host` is the hardware of a pool that does not name its own.
    pub fn rules(self, host: Spec) -> Result<Rules, RuleError> {
        // A host's own hardware says nothing of machines that are chosen in a cloud.
        if self.backend == BackendKind::Ec2 && (self.cpu.is_none() || self.memory_mb.is_none()) {
            let problem = "and memory_mb, or resource_class, are needed with backend = \"ec2\": machines are chosen by them";
            return Err(RuleError { field: "cpu", problem: problem.to_owned() });
        }
        let defaults = Limits::default();
        let limits = Limits {
            idle: span("idle", self.idle_minutes, self.idle_seconds, defaults.idle)?,
            created: span("created", self.created_minutes, self.created_seconds, defaults.created)?,
            claimed: span("claimed", self.claimed_minutes, self.claimed_seconds, defaults.claimed)?,
            wait: span("wait", self.wait_minutes, self.wait_seconds, defaults.wait)?,
            releasing: span("releasing", self.releasing_minutes, self.releasing_seconds, defaults.releasing)?,
            resetting: span("resetting", self.resetting_minutes, self.resetting_seconds, defaults.resetting)?,
            terminating: span(
                "terminating",
                self.terminating_minutes,
                self.terminating_seconds,
                defaults.terminating,
            )?,
            max_runtime: span(
                "max_runtime",
                self.max_runtime_minutes,
                self.max_runtime_seconds,
                defaults.max_runtime,
            )?,
            heartbeat: span("heartbeat", None, self.heartbeat_seconds, defaults.heartbeat)?,
            grace: span("grace", self.grace_minutes, self.grace_seconds, defaults.grace)?,
            command: span("command", self.command_minutes, self.command_seconds, defaults.command)?,
        };
        let checkpoints = self.checkpoints()?;
        let rules = Rules {
            checkpoints,
            teams: teams(self.teams)?,
            backend: self.backend,
            dispatch: self.dispatch,
            clean: self.clean.unwrap_or(self.backend.clean_by_default()),
            max: self.max,
            min_idle: self.min_idle,
            limits,
            offer: Offer {
                instance_type: self.instance_type.unwrap_or_else(|| self.backend.name().to_owned()),
                usage: self.usage.unwrap_or(Usage::OnDemand),
                spec: Spec {
                    cpu: self.cpu.unwrap_or(host.cpu),
                    memory_mb: self.memory_mb.unwrap_or(host.memory_mb),
                },
            },
            commands: Commands {
                pre_runner: self.pre_runner_cmd,
                register: self.register_cmd,
                run: self.run_cmd,
                deregister: self.deregister_cmd,
                cleanup: self.cleanup_cmd,
                reset: self.reset_cmd,
                readiness: self.readiness_cmd,
            },
            ec2: self.ec2.map(Ec2Rules::from),
            ci: self.ci.map(CiBinding::from),
            job_env: self.job_env,
            trusted: self.trusted,
            allow_exec: self.allow_exec,
        };
        rules.check()?;
        Ok(rules)
    }

    fn checkpoints(&self) -> Result<CheckpointRules, RuleError> {
        let usual = CheckpointRules::default();
        let hours = |hours: u64| Duration::from_secs(hours.saturating_mul(3600));
        Ok(CheckpointRules {
            lasts: span("checkpoint", self.checkpoint_minutes, self.checkpoint_seconds, usual.lasts)?,
            poll: span("poll", None, self.poll_seconds, usual.poll)?,
            poll_after: span("poll_after", None, self.poll_after_seconds, usual.poll_after)?,
            reset_every_jobs: self.reset_every_jobs.unwrap_or(usual.reset_every_jobs),
            reset_every: self.reset_every_hours.map_or(usual.reset_every, hours),
            reset_command: span(
                "reset_command",
                self.reset_command_minutes,
                self.reset_command_seconds,
                usual.reset_command,
            )?,
            readiness: span("readiness", self.readiness_minutes, self.readiness_seconds, usual.readiness)?,
        })
    }
}

/// Nobody means a pool for no team at all.
fn teams(named: Option<Vec<Owner>>) -> Result<Vec<Owner>, RuleError> {
    let wrong = |problem: String| Err(RuleError { field: "teams", problem });
    let Some(mut teams) = named else { return Ok(Vec::new()) };
    teams.sort();
    if teams.is_empty() {
        return wrong("must name a team; without it, all may use the pool".to_owned());
    }
    if let Some(twice) =
        teams.windows(2).find_map(|pair| (pair.first() == pair.last()).then(|| pair.first())?)
    {
        return wrong(format!("names {twice} twice; leave one out"));
    }
    if teams.contains(&Owner::operator()) {
        return wrong("names operator, who may use every pool; leave it out".to_owned());
    }
    Ok(teams)
}

/// A span is given in minutes or in seconds, not both.
fn span(
    field: &'static str,
    minutes: Option<u64>,
    seconds: Option<u64>,
    default: Duration,
) -> Result<Duration, RuleError> {
    match (minutes, seconds) {
        (None, None) => Ok(default),
        (Some(minutes), None) => Ok(Duration::from_secs(minutes.saturating_mul(60))),
        (None, Some(seconds)) => Ok(Duration::from_secs(seconds)),
        (Some(_), Some(_)) => {
            Err(RuleError { field, problem: "is given in minutes and in seconds; leave one out".to_owned() })
        }
    }
}
