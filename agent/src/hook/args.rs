//! The arguments of the checkpoint verbs. They only translate.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use motorpool_domain::checkpoint::JobOutcome;
use motorpool_domain::{CheckpointName, JobId};
use motorpool_wire::socket::{
    CreateByHook, FinalizeByHook, HookSource, ReadinessByHook, SocketRequest, StatusByHook,
};

use crate::cli::SOCKET;

/// Where the shipped unit has it.
const DEFAULT_SOCKET: &str = "/run/motorpool/agent.sock";

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 done; 1 refused for now, or failed, or there is no agent; 2 wrong usage; 3 not allowed; \
                        4 no such checkpoint; 5 too soon after the last job, or too much at once. \
                        `ready` exits with 0 if the machine can take a job, and with 1 if not."
)]
pub struct CheckpointArgs {
    /// Where the agent listens
    #[arg(long, env = SOCKET, value_name = "PATH", default_value = DEFAULT_SOCKET, global = true)]
    pub(super) socket: PathBuf,
    #[command(subcommand)]
    pub(super) verb: CheckpointVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum CheckpointVerb {
    /// Before a job: promise it a machine that is cleaned afterwards; prints the checkpoint's name and nothing else
    Create(CreateArgs),
    /// After a job: say how it ended, and have the machine cleaned or reset
    Finalize(FinalizeArgs),
    /// Show a checkpoint of this machine
    Status(StatusArgs),
    /// Say whether this machine can take a job
    Ready,
}

#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// The job, as the CI system calls it; the same job again gets the same checkpoint
    #[arg(long, value_name = "ID")]
    job_id: JobId,
    /// Where the CI system has the job, if its id alone does not say: a project or repository
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    /// Which try of the job it is, where the CI system counts them beside its id
    #[arg(long, value_name = "NUMBER")]
    attempt: Option<u32>,
    /// Who calls, for people who look into it later
    #[arg(long, value_name = "NAME")]
    caller: Option<String>,
    /// This job's hook runs once, and other jobs may have its id: whoever asks again is another job
    #[arg(long)]
    once: bool,
}

#[derive(Debug, Args)]
pub(super) struct FinalizeArgs {
    /// The checkpoint's name, as create printed it
    #[arg(long, value_name = "NAME")]
    checkpoint: CheckpointName,
    /// How the job ended
    #[arg(long, value_enum)]
    status: Status,
    /// Who says so
    #[arg(long, value_enum, default_value_t = Source::Agent)]
    source: Source,
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// The checkpoint's name, as create printed it
    #[arg(long, value_name = "NAME")]
    checkpoint: CheckpointName,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Status {
    Success,
    Failure,
    Canceled,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Source {
    /// A hook of the CI system's
    Hook,
    /// The machine itself, or a person on it
    Agent,
}

pub(super) fn readiness() -> SocketRequest {
    SocketRequest::Readiness(ReadinessByHook {})
}

impl From<CreateArgs> for SocketRequest {
    fn from(args: CreateArgs) -> Self {
        let CreateArgs { job_id, project, attempt, caller, once } = args;
        let key = once.then(|| format!("{:032x}", rand::random::<u128>()));
        Self::Create(CreateByHook { job_id, project, attempt, caller, key })
    }
}

impl From<FinalizeArgs> for SocketRequest {
    fn from(args: FinalizeArgs) -> Self {
        let FinalizeArgs { checkpoint: checkpoint_name, status, source } = args;
        let status = match status {
            Status::Success => JobOutcome::Success,
            Status::Failure => JobOutcome::Failure,
            Status::Canceled => JobOutcome::Canceled,
        };
        let source = match source {
            Source::Hook => HookSource::Hook,
            Source::Agent => HookSource::Agent,
        };
        Self::Finalize(FinalizeByHook { checkpoint_name, status, source: Some(source) })
    }
}

impl From<StatusArgs> for SocketRequest {
    fn from(args: StatusArgs) -> Self {
        let StatusArgs { checkpoint: checkpoint_name } = args;
        Self::Status(StatusByHook { checkpoint_name })
    }
}
