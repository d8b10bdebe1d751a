//! The slim agent binary: the same agent as `motorpool agent`.

use std::process::ExitCode;

use clap::Parser;
use motorpool_agent::cli::{self, AgentArgs};

/// Motorpool's agent: makes a machine a runner, and ends its work in time.
#[derive(Parser)]
#[command(name = "motorpool-agent", version)]
struct Args {
    #[command(flatten)]
    agent: AgentArgs,
}

fn main() -> ExitCode {
    cli::main(Args::parse().agent, Vec::new())
}
