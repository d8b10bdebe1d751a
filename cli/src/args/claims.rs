//! What is asked for with a claim, and about one.

use clap::{Args, Subcommand};
use motorpool_domain::spec::Usage;
use motorpool_domain::{ClaimId, Owner, PoolName, Workflow};

use super::ConnectArgs;

/// What is asked of each runner of a claim.
#[derive(Debug, Args)]
pub(crate) struct WantArgs {
    /// The longest that the runners are needed, once ready; by default the pool's own limit
    #[arg(long, value_name = "MINUTES")]
    pub(crate) max_runtime_minutes: Option<u64>,
    /// How the provider sells the machine: spot or on-demand
    #[arg(long, value_parser = usage)]
    pub(crate) usage: Option<Usage>,
    /// Instance types by pattern, such as 'c* m6i.*'
    #[arg(long, value_name = "PATTERNS")]
    pub(crate) types: Option<String>,
    /// At least this class's CPUs and memory; classes are defined in the pools file
    #[arg(long, value_name = "CLASS")]
    pub(crate) resource_class: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ProvisionArgs {
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// The pool to take runners from
    #[arg(long)]
    pub(crate) pool: PoolName,
    /// What the workflow calls itself, with its attempt; the same again is the same claim
    #[arg(long)]
    pub(crate) workflow: Workflow,
    /// How many runners
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: u32,
    #[command(flatten)]
    pub(crate) want: WantArgs,
    /// Return as soon as the claim is made
    #[arg(long, conflicts_with = "timeout")]
    pub(crate) no_wait: bool,
    /// Stop waiting after this many seconds; the claim goes on
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct ClaimArgs {
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// The pool to take a runner from
    #[arg(long)]
    pub(crate) pool: PoolName,
    /// What the workflow calls itself, with its attempt
    #[arg(long)]
    pub(crate) workflow: Workflow,
    #[command(flatten)]
    pub(crate) want: WantArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// Whose runners are given back
    #[arg(long)]
    pub(crate) workflow: Workflow,
    /// Only the claim on this pool; else all that the workflow holds
    #[arg(long)]
    pub(crate) pool: Option<PoolName>,
    /// The team whose workflow it is; for the operator only
    #[arg(long)]
    pub(crate) owner: Option<Owner>,
}

#[derive(Debug, Args)]
pub(crate) struct ClaimsArgs {
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// Only those on this pool; all pools' if left out
    #[arg(long)]
    pub(crate) pool: Option<PoolName>,
    /// In the table, show those that have ended as well
    #[arg(long)]
    pub(crate) all: bool,
    #[command(subcommand)]
    pub(crate) verb: Option<ClaimsVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClaimsVerb {
    /// Show one claim
    Show {
        /// The claim's id
        claim: ClaimId,
    },
}

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// A claim's id (c-…), a workflow (then its latest claim), a job's checkpoint (job-…), or a runner
    #[arg(value_name = "CLAIM|WORKFLOW|CHECKPOINT|RUNNER")]
    pub(crate) subject: Workflow,
    /// Look for the workflow on this pool only
    #[arg(long)]
    pub(crate) pool: Option<PoolName>,
}

fn usage(text: &str) -> Result<Usage, String> {
    [Usage::Spot, Usage::OnDemand]
        .into_iter()
        .find(|usage| usage.name() == text)
        .ok_or_else(|| "must be spot or on-demand".to_owned())
}
