//! The slim agent binary: the same agent as `motorpool agent`, and the verbs of `motorpool checkpoint`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use motorpool_agent::cli::{self, AgentCommand};
use motorpool_agent::hook::{self, CheckpointArgs};

/// Motorpool's agent: makes a machine a runner, and ends its work in time.
#[derive(Parser)]
#[command(name = "motorpool-agent", version)]
struct Args {
    /// Print the answers of checkpoint verbs as JSON; errors too
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Agent(AgentCommand),
    /// What a job's hooks call: a checkpoint before the job, its end afterwards
    Checkpoint(CheckpointArgs),
}

fn main() -> ExitCode {
    let Args { json, command } = Args::parse();
    match command {
        Command::Agent(command) => cli::main(command.into(), Vec::new()),
        Command::Checkpoint(args) => hook::main(args, json),
    }
}
