//! The agent's command line, for `motorpool-agent` and `motorpool agent` alike. It only translates.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use motorpool_domain::RunnerId;
use tracing_subscriber::EnvFilter;

use crate::driver::{self, AgentError};
use crate::work::{self, SupervisorCommand};

/// The control plane refused the agent's secret. Starting it again will not help.
const EXIT_REFUSED: u8 = 3;

/// By it the local backend finds what an agent left behind.
pub(crate) const RUNNER_DIR: &str = "MOTORPOOL_RUNNER_DIR";

#[derive(Debug, Args)]
pub struct AgentArgs {
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// Make this machine a runner
    Run(RunArgs),
    /// Run one command of an agent, ordered on stdin
    #[command(hide = true)]
    Supervise,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The control plane's address
    #[arg(long, value_name = "URL")]
    pub(crate) server: String,
    /// The id that the control plane knows this runner by
    #[arg(long, value_name = "ID")]
    pub(crate) runner: RunnerId,
    /// The agent's own directory: state, lock, logs, and work/ for jobs
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The bootstrap secret, deleted once it is redeemed
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    /// More certificates to trust, in PEM form
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// What ends this host, such as `systemctl poweroff`; without it only the agent ends
    #[arg(long, value_name = "CMD")]
    pub(crate) end_host_cmd: Option<String>,
    /// End the host if the control plane has not answered at all this long after the start
    #[arg(long, value_name = "SECONDS", default_value_t = 15 * 60)]
    pub(crate) first_contact_seconds: u64,
    /// Send the token over plain http:// to a host other than this one
    #[arg(long)]
    pub(crate) insecure_http: bool,
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// `supervisor_prefix` is what comes before `supervise` on this executable's command line: nothing for
/// `motorpool-agent`, `agent` for `motorpool`.
pub fn main(args: AgentArgs, supervisor_prefix: Vec<OsString>) -> ExitCode {
    let told = match args.command {
        AgentCommand::Run(args) => {
            log_to_stderr(args.log_format);
            run(&args, supervisor_prefix)
        }
        AgentCommand::Supervise => runtime().map(|runtime| runtime.block_on(work::supervise())),
    };
    told.unwrap_or_else(|error| {
        eprintln!("motorpool agent: {}", with_sources(&error));
        ExitCode::from(if error.is_refusal() { EXIT_REFUSED } else { 1 })
    })
}

fn run(args: &RunArgs, supervisor_prefix: Vec<OsString>) -> Result<ExitCode, AgentError> {
    let supervisor = SupervisorCommand::this_executable(supervisor_prefix).map_err(AgentError::Executable)?;
    runtime()?.block_on(driver::run(args, supervisor))
}

fn runtime() -> Result<tokio::runtime::Runtime, AgentError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(AgentError::Runtime)
}

fn log_to_stderr(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let installed = match format {
        LogFormat::Text => logs.with_ansi(io::stderr().is_terminal()).with_target(false).try_init(),
        LogFormat::Json => logs.json().try_init(),
    };
    // Whoever called us may have its own already.
    drop(installed);
}

fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Whole {
        #[command(flatten)]
        agent: AgentArgs,
    }

    #[test]
    fn the_command_line_is_sound_and_ids_are_checked_at_the_edge() {
        use clap::CommandFactory;
        Whole::command().debug_assert();
        let run = ["x", "run", "--server", "https://a.example", "--dir", "/d", "--runner"];
        assert!(Whole::try_parse_from(run.iter().copied().chain(["r-1"])).is_ok());
        assert!(Whole::try_parse_from(run.iter().copied().chain(["../r"])).is_err());
    }
}
