//! The agent's command line, for `motorpool-agent` and `motorpool agent` alike. It only translates.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::BoolishValueParser;
use clap::{Args, Subcommand, ValueEnum};
use motorpool_domain::{LaunchId, RunnerId};
use tracing_subscriber::EnvFilter;

use crate::driver::{self, AgentError};
use crate::imds;
use crate::jobs::JobArgs;
use crate::socket::SocketArgs;
use crate::work::{self, SupervisorCommand};

/// The control plane refused the agent's secret. Starting it again will not help.
const EXIT_REFUSED: u8 = 3;

/// Sets the flag `--insecure-http`, of the agent and of the control plane's own commands.
pub const INSECURE_HTTP: &str = "MOTORPOOL_INSECURE_HTTP";

/// Tells a job's hooks where the agent of their machine listens.
pub(crate) const SOCKET: &str = "MOTORPOOL_SOCKET";

/// By it the local backend finds what an agent left behind.
pub(crate) const RUNNER_DIR: &str = "MOTORPOOL_RUNNER_DIR";

#[derive(Debug, Args)]
pub struct AgentArgs {
    #[command(subcommand)]
    command: AgentCommand,
}

impl From<AgentCommand> for AgentArgs {
    fn from(command: AgentCommand) -> Self {
        Self { command }
    }
}

#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Make this machine a runner
    Run(Box<RunArgs>),
    /// Run one command of an agent, ordered on stdin
    #[command(hide = true)]
    Supervise,
    /// Become the first process of a job, told on stdin
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Enter,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// The control plane's address
    #[arg(long, value_name = "URL")]
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) who: WhoArgs,
    #[command(flatten)]
    pub(crate) jobs: JobArgs,
    #[command(flatten)]
    pub(crate) socket: SocketArgs,
    /// The agent's own directory: state, lock, logs, and work/ for jobs
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The bootstrap secret, deleted once it is redeemed
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    /// Where the CI system's runner program is, for this agent alone; scripts find it as $MOTORPOOL_PROGRAM_DIR
    #[arg(long, value_name = "DIR", default_value = "/opt/motorpool/runner")]
    pub(crate) program_dir: PathBuf,
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
    #[arg(long, env = INSECURE_HTTP, value_parser = BoolishValueParser::new())]
    pub(crate) insecure_http: bool,
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// Either an id, or what it follows from on EC2.
#[derive(Debug, Args)]
pub(crate) struct WhoArgs {
    /// The id that the control plane knows this runner by
    #[arg(
        long,
        value_name = "ID",
        required_unless_present = "ec2",
        conflicts_with_all = ["ec2", "launch", "from", "metadata_url"]
    )]
    runner: Option<RunnerId>,
    /// This is an EC2 instance: its metadata service says which of its launch it is, and what will be done to it
    #[arg(long, requires_all = ["launch", "from"])]
    ec2: bool,
    /// The launch that this instance came of
    #[arg(long, value_name = "ID", requires = "ec2")]
    launch: Option<LaunchId>,
    /// The number within the launch of the runner with launch index 0
    #[arg(long, value_name = "NUMBER", requires = "ec2")]
    from: Option<u32>,
    /// Where the metadata service is, for tests
    #[arg(long, value_name = "URL", hide = true, requires = "ec2", default_value = imds::ADDRESS)]
    metadata_url: String,
}

/// How this agent knows which runner it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Who<'a> {
    Told(&'a RunnerId),
    Ec2 { launch: &'a LaunchId, from: u32, metadata_url: &'a str },
}

impl WhoArgs {
    pub(crate) fn is_ec2(&self) -> bool {
        self.ec2
    }

    pub(crate) fn who(&self) -> Option<Who<'_>> {
        let Self { runner, ec2, launch, from, metadata_url } = self;
        match (runner, ec2, launch, from) {
            (Some(runner), false, None, None) => Some(Who::Told(runner)),
            (None, true, Some(launch), Some(from)) => Some(Who::Ec2 { launch, from: *from, metadata_url }),
            (Some(_) | None, _, _, _) => None,
        }
    }
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
        #[cfg(target_os = "linux")]
        AgentCommand::Enter => Ok(work::enter()),
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

    fn parse(more: &[&str]) -> Result<RunArgs, clap::Error> {
        let run = ["x", "run", "--server", "https://a.example", "--dir", "/d"];
        let whole = Whole::try_parse_from(run.iter().chain(more))?;
        match whole.agent.command {
            AgentCommand::Run(args) => Ok(*args),
            AgentCommand::Supervise | AgentCommand::Enter => panic!("it is run"),
        }
    }

    #[test]
    fn the_command_line_is_sound_and_ids_are_checked_at_the_edge() {
        use clap::CommandFactory;
        Whole::command().debug_assert();
        assert!(parse(&["--runner", "r-1"]).is_ok());
        assert!(parse(&["--runner", "../r"]).is_err());
    }

    #[test]
    fn a_runner_is_told_who_it_is_or_finds_out_on_ec2_and_not_both() {
        let ec2 = ["--ec2", "--launch", "l-abc", "--from", "2"];
        let (runner, launch) = (RunnerId::parse("r-1").unwrap(), LaunchId::parse("l-abc").unwrap());
        assert_eq!(parse(&["--runner", "r-1"]).unwrap().who.who(), Some(Who::Told(&runner)));
        let expected = Who::Ec2 { launch: &launch, from: 2, metadata_url: imds::ADDRESS };
        assert_eq!(parse(&ec2).unwrap().who.who(), Some(expected));
        for (wrong, says) in [
            (vec![], "--runner"),
            (vec!["--ec2"], "--launch"),
            (vec!["--ec2", "--launch", "l-abc"], "--from"),
            (vec!["--launch", "l-abc", "--from", "0"], "--ec2"),
            (vec!["--runner", "r-1", "--ec2", "--launch", "l-abc", "--from", "0"], "cannot be used with"),
            (vec!["--runner", "r-1", "--metadata-url", "http://127.0.0.1"], "cannot be used with"),
            (vec!["--ec2", "--launch", "abc", "--from", "0"], "a launch's id must be"),
        ] {
            let error = parse(&wrong).unwrap_err().to_string();
            assert!(error.contains(says), "{wrong:?}: {error}");
        }
    }
}
