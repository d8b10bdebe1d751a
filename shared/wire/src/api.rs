//! The bodies of the pool layer's routes. Requests refuse fields that they do not know: they could be typos.

use crate::registry::CredentialKind;
use crate::schema;
use motorpool_domain::audit::AuditEntry;
use motorpool_domain::ci::CiSystem;
use motorpool_domain::runner::StateName;
use motorpool_domain::spec::Usage;
use motorpool_domain::{ClaimId, Epoch, Label, Owner, PoolName, RunnerId, Workflow};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProvisionRequest {
    /// What the workflow calls itself, with its attempt.
    #[schema(value_type = schema::Workflow)]
    pub workflow: Workflow,
    #[schema(value_type = schema::PoolName)]
    pub pool: PoolName,
    #[serde(default = "one")]
    #[schema(value_type = schema::RunnerCount)]
    pub count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Minutes>)]
    pub max_runtime_minutes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Usage>)]
    pub usage: Option<Usage>,
    /// Patterns such as `c* m*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::TypeGlobs>)]
    pub allowed_instance_types: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_class: Option<String>,
}

fn one() -> u32 {
    1
}

/// One idle runner now, or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    #[schema(value_type = schema::Workflow)]
    pub workflow: Workflow,
    #[schema(value_type = schema::PoolName)]
    pub pool: PoolName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Minutes>)]
    pub max_runtime_minutes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Usage>)]
    pub usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::TypeGlobs>)]
    pub allowed_instance_types: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_class: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    #[schema(value_type = schema::Workflow)]
    pub workflow: Workflow,
    /// Only the claim on this pool; else all that the workflow holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::PoolName>)]
    pub pool: Option<PoolName>,
    /// Whose workflow it is: for the operator, who may release anybody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Owner>)]
    pub owner: Option<Owner>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimView {
    #[schema(value_type = schema::ClaimId)]
    pub claim: ClaimId,
    #[schema(value_type = schema::Owner)]
    pub owner: Owner,
    #[schema(value_type = schema::Workflow)]
    pub workflow: Workflow,
    #[schema(value_type = schema::PoolName)]
    pub pool: PoolName,
    /// Jobs that ask for this label run on this claim's runners, and no others do.
    #[schema(value_type = schema::Label)]
    pub label: Label,
    pub count: u32,
    /// `pending`, `ready`, `released` or `failed`.
    pub state: String,
    pub short: u32,
    /// Why it waits, or how it ended, in plain words.
    pub why: String,
    pub runners: Vec<MemberView>,
    pub opened_at_ms: u64,
    /// How long until it fails (pending) or ends (ready).
    pub threshold_in_ms: Option<u64>,
    /// The workflow's claims on other pools that the same release ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::ClaimId>)]
    pub also: Vec<ClaimId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberView {
    #[schema(value_type = schema::RunnerId)]
    pub runner: RunnerId,
    #[schema(value_type = schema::StateName)]
    pub state: StateName,
    #[schema(value_type = u64)]
    pub epoch: Epoch,
    /// It came from the pool, and was not launched for this claim.
    pub warm: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimsPage {
    pub claims: Vec<ClaimView>,
    pub next: Option<String>,
}

/// A claim's story: what it waits for or how it ended, and what happened so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhyView {
    #[schema(value_type = schema::ClaimId)]
    pub claim: ClaimId,
    pub state: String,
    pub why: String,
    /// One line for each runner that it has.
    pub runners: Vec<String>,
    #[schema(value_type = Vec<Object>)]
    pub history: Vec<AuditEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct RefreshReport {
    /// Records that were due and looked at.
    pub examined: u32,
    /// Runners that were terminated, reset or quarantined for their threshold or silence.
    pub reaped: u32,
    pub announced: u32,
    pub launched: u32,
    /// Whether the sweep ran as well.
    pub swept: bool,
    /// Most heartbeats are missing at once: nobody was reaped for silence.
    pub braked: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolView {
    #[schema(value_type = schema::PoolName)]
    pub pool: PoolName,
    pub backend: String,
    pub dispatch: String,
    pub clean: String,
    pub max: u32,
    pub min_idle: u32,
    /// Slots taken: live runners and launch intents. Never above `max`.
    pub used: u32,
    pub counts: BTreeMap<String, u32>,
    /// Claims that wait for something.
    pub waiting: u32,
    /// Jobs' checkpoints that have not come to their end.
    #[serde(default)]
    pub pending_checkpoints: u32,
    pub retired: bool,
    pub ci: Option<CiView>,
    /// `file` or `api`: where it may be changed.
    pub source: String,
    /// What may hold, but hardly does what is meant, with how often this control plane refreshes.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The teams that may use it, if not all may. Only the operator is told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::Owner>)]
    pub teams: Vec<Owner>,
}

impl PoolView {
    /// How many of its runners are in this state.
    pub fn count(&self, state: StateName) -> u32 {
        self.counts.get(state.as_str()).copied().unwrap_or_default()
    }
}

/// How a pool stands with its CI system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CiView {
    #[schema(value_type = schema::CiSystem)]
    pub system: CiSystem,
    pub scope: String,
    /// Calls left until `rate_resets_in_ms`, as the CI system last said.
    pub rate_remaining: Option<u64>,
    pub rate_resets_in_ms: Option<u64>,
    /// What went wrong with it last, if it did not go well since.
    #[serde(default)]
    pub trouble: Option<CiTroubleView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CiTroubleView {
    /// What was attempted, and the CI system's own words.
    pub what: String,
    /// It will be so until somebody has mended something.
    pub refused: bool,
    pub ms_ago: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolsPage {
    pub pools: Vec<PoolView>,
}

/// What a pool with these settings would launch, where, and at about what price. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlanView {
    #[schema(value_type = schema::PoolName)]
    pub pool: PoolName,
    pub max: u32,
    pub min_idle: u32,
    /// In the order in which they are tried.
    pub rungs: Vec<CapacityOptionView>,
    /// Why the pool can't be changed so now, though its settings are sound.
    #[serde(default)]
    pub refused: Option<String>,
    /// As a pool with these settings would have them.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// What the provider knows to be wrong with the settings. While there is anything, there are no rungs.
    #[serde(default)]
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CapacityOptionView {
    pub instance_type: String,
    pub usage: String,
    pub zone: Option<String>,
    pub cpu: u32,
    pub memory_mb: u64,
    /// About what it costs an hour, in US dollars.
    pub hourly_usd: Option<f64>,
    /// Why it is passed over at present.
    pub empty: Option<String>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunnerView {
    #[schema(value_type = schema::RunnerId)]
    pub runner: RunnerId,
    #[schema(value_type = schema::PoolName)]
    pub pool: PoolName,
    #[schema(value_type = schema::StateName)]
    pub state: StateName,
    /// False once it is removed or gone: it is shown for some days, and its id may be registered again.
    #[serde(default = "yes")]
    pub active: bool,
    #[schema(value_type = u64)]
    pub epoch: Epoch,
    #[schema(value_type = Option<schema::ClaimId>)]
    pub claim: Option<ClaimId>,
    /// How it proves who it is.
    #[serde(default)]
    #[schema(value_type = schema::CredentialKind)]
    pub credential: CredentialKind,
    /// Its own commands, in the place of its pool's.
    #[serde(default)]
    pub cleanup_cmd: Option<String>,
    #[serde(default)]
    pub reset_cmd: Option<String>,
    #[serde(default)]
    pub readiness_cmd: Option<String>,
    /// What its CI system knows it by, where it was registered there by hand.
    #[serde(default)]
    pub ci_runner: Option<String>,
    pub instance_type: String,
    pub usage: String,
    pub cpu: u32,
    pub memory_mb: u64,
    pub kept: bool,
    pub draining: bool,
    pub provider_id: Option<String>,
    pub zone: Option<String>,
    /// About what it costs an hour, in US dollars.
    pub hourly_usd: Option<f64>,
    /// About what it has cost so far.
    pub cost_usd: Option<f64>,
    /// Since its launch was decided.
    pub age_ms: u64,
    /// The version of the CI system's runner program on it.
    pub program_version: Option<String>,
    /// The program is older than the pool's minimum.
    pub program_outdated: bool,
    /// Why it is being cleaned, quarantined or terminated; or what the provider is asked for.
    pub why: Option<String>,
    /// How it is known to be clean.
    pub proof: Option<String>,
    pub in_state_ms: u64,
    pub seen_ms_ago: Option<u64>,
    pub threshold_in_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunnersPage {
    pub runners: Vec<RunnerView>,
    pub next: Option<String>,
}

/// A machine of the operator's own joins a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterRunnerRequest {
    #[schema(value_type = schema::RunnerId)]
    pub runner_id: RunnerId,
    #[schema(value_type = schema::PoolName)]
    pub pool: PoolName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::InstanceType>)]
    pub instance_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Cpus>)]
    pub cpu: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Megabytes>)]
    pub memory_mb: Option<u64>,
    /// In the place of its pool's, where this machine needs another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Command>)]
    pub cleanup_cmd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Command>)]
    pub reset_cmd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Command>)]
    pub readiness_cmd: Option<String>,
    /// What its CI system knows it by, if it was registered there by hand: GitLab's number, GitHub's or Jenkins' name. With
    /// the credential `token`, a pool of GitLab's needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub ci_runner: Option<String>,
    /// How its runner proves who it is: `bootstrap` by default. `token` is for pools with `dispatch = "hook"`.
    #[serde(default)]
    #[schema(value_type = schema::CredentialKind)]
    pub credential: CredentialKind,
}

/// The secret or token is shown once: nobody can ask for it again.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegisteredRunner {
    #[schema(value_type = schema::RunnerId)]
    pub runner: RunnerId,
    #[schema(value_type = schema::PoolName)]
    pub pool: PoolName,
    /// For the agent's `--secret-file`, until `valid_for_ms` have passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap_secret: Option<String>,
    /// In its place where the runner was registered with `"credential": "token"`: good until it is renewed, or the runner is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    pub valid_for_ms: Option<u64>,
    /// What its machine waits for before it can take a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl std::fmt::Debug for RegisteredRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegisteredRunner").field("runner", &self.runner).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    pub subject: String,
    #[schema(value_type = Vec<Object>)]
    pub entries: Vec<AuditEntry>,
    pub next: Option<String>,
}

/// An incident that people are told of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertView {
    /// Its kind, by a name that programs may rely on, such as `runner_quarantined`.
    pub incident: String,
    /// Which runner, pool, queue or kind of record it is about; nothing, if it is about all of them.
    pub subject: Option<String>,
    /// `open` or `over`.
    pub state: String,
    /// What is the matter, in plain words.
    pub text: String,
    /// What is known beside that.
    pub details: String,
    pub opened_ms_ago: u64,
    pub over_ms_ago: Option<u64>,
    /// How often it was raised since it opened, at most once in ten minutes.
    pub raised: u64,
    /// What people have heard of it: `nothing`, `opened` or `over`.
    pub told: String,
    /// How often it was tried to tell them the next.
    pub attempts: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertsPage {
    /// Somebody is told of incidents; else they are only logged and listed here.
    pub sent: bool,
    pub alerts: Vec<AlertView>,
    pub next: Option<String>,
}
