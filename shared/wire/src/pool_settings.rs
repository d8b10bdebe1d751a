//! A pool's settings as people write them, in `pools.toml` or `PUT /pools/{pool}`. What may hold is decided in `domain::pool`.

use motorpool_domain::pool::{BackendKind, Clean, Commands, Dispatch, Limits, RuleError, Rules};
use motorpool_domain::spec::{Offer, Spec, Usage};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolSettings {
    #[schema(value_type = String, example = "local")]
    pub backend: BackendKind,
    #[serde(default = "by_claim")]
    #[schema(value_type = String, example = "claim")]
    pub dispatch: Dispatch,
    /// By default `cleanup`, the one that suits every backend of this version.
    #[serde(default = "by_cleanup")]
    #[schema(value_type = String, example = "cleanup")]
    pub clean: Clean,
    #[serde(default = "hundred")]
    pub max: u32,
    #[serde(default)]
    pub min_idle: u32,

    pub idle_minutes: Option<u64>,
    pub idle_seconds: Option<u64>,
    pub created_minutes: Option<u64>,
    pub created_seconds: Option<u64>,
    pub claimed_minutes: Option<u64>,
    pub claimed_seconds: Option<u64>,
    pub wait_minutes: Option<u64>,
    pub wait_seconds: Option<u64>,
    pub releasing_minutes: Option<u64>,
    pub releasing_seconds: Option<u64>,
    pub resetting_minutes: Option<u64>,
    pub resetting_seconds: Option<u64>,
    pub terminating_minutes: Option<u64>,
    pub terminating_seconds: Option<u64>,
    pub max_runtime_minutes: Option<u64>,
    pub max_runtime_seconds: Option<u64>,
    pub command_minutes: Option<u64>,
    pub command_seconds: Option<u64>,
    pub grace_minutes: Option<u64>,
    pub grace_seconds: Option<u64>,
    pub heartbeat_seconds: Option<u64>,

    pub instance_type: Option<String>,
    #[schema(value_type = Option<String>)]
    pub usage: Option<Usage>,
    pub cpu: Option<u32>,
    pub memory_mb: Option<u64>,

    pub pre_runner_cmd: Option<String>,
    pub register_cmd: Option<String>,
    pub run_cmd: Option<String>,
    pub deregister_cmd: Option<String>,
    pub cleanup_cmd: Option<String>,
}

fn by_claim() -> Dispatch {
    Dispatch::Claim
}

fn by_cleanup() -> Clean {
    Clean::Cleanup
}

fn hundred() -> u32 {
    100
}

impl PoolSettings {
    /// The rules that these settings amount to. `host` is the hardware of a pool that does not name its own.
    pub fn rules(self, host: Spec) -> Result<Rules, RuleError> {
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
        let rules = Rules {
            backend: self.backend,
            dispatch: self.dispatch,
            clean: self.clean,
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
            },
        };
        rules.check()?;
        Ok(rules)
    }
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
