//! The project's chores, as `cargo xtask …`. It starts other programs and judges them by how they end; it does not
//! know what they check.

mod api;
mod bench;
mod cargo;
mod clock;
mod doctests;
mod flaky;
mod ministack;
mod moto;
mod npm;
mod packages;
mod planted;
mod prism;
mod proxmoxer;
mod server;
mod soak;
mod test;
mod tools;
mod venv;
mod vm;
mod webhook_examples;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use cargo::Cargo;
use prism::Prism;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "The project's chores")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Check that a real `motorpool serve` keeps to its OpenAPI document, as each role
    ///
    /// It is schemathesis, installed once into `tools` in the target directory, that asks and judges.
    Api {
        /// The command `motorpool` to check; without it, it is built
        #[arg(long)]
        binary: Option<PathBuf>,
    },
    /// Run AWS emulators on loopback until Ctrl-C, for tests that are started by hand
    ///
    /// They are ministack, and moto for EC2, installed once into `tools` in the target directory. Any endpoint like LocalStack's
    /// would do for the tests as well: they only need to be told by MOTORPOOL_AWS_ENDPOINT and MOTORPOOL_MOTO_ENDPOINT.
    Aws {
        /// The port of ministack; without it, one that is free
        #[arg(long)]
        port: Option<u16>,
    },
    /// Measure: each benchmark prints one JSON object a line, ours beside its floor
    Bench {
        /// Only these: claim, sync, refresh, function
        names: Vec<String>,
    },
    /// Run GitHub's and GitLab's APIs on loopback until Ctrl-C, for tests that are started by hand
    ///
    /// They are Prism over the vendors' descriptions, installed once into `tools` in the target directory: they answer as the
    /// description says, and reject a request that does not fit it.
    Ci,
    /// Plant known bugs in a copy of the tree, and demand that each is found by what it is to break: by the simulator within 1,000 seeds, or by the tests that it names
    Planted(planted::Planted),
    /// Run the simulator over as many seeds as asked
    ///
    /// It ends at the first seed that breaks an invariant, with its story; `--from N --seeds 1` runs that one again.
    Soak(soak::Soak),
    /// Run every check: rustfmt, clippy, cargo-deny, the build of the binaries, all tests, the API against its document, the planted bugs
    ///
    /// It stops at the first one that fails. Missing tools (cargo-deny, cargo-nextest) and the AWS emulator are made
    /// once, into `tools` in the target directory.
    Test {
        /// Leave out cargo-deny, the API's document, the planted bugs, and the contract and end-to-end tests of `tests/`
        #[arg(long)]
        quick: bool,
    },
    /// Boot machines in QEMU: small ones that are taken back to snapshots, and EC2 instances by their user data, that install their agent, work and end
    ///
    /// It takes minutes: QEMU emulates in software. Needs Debian; QEMU, mmdebstrap and moto are installed, and the machines' images are made, once.
    Vm {
        /// Only these
        machines: Vec<vm::Machines>,
    },
}

fn main() -> ExitCode {
    let Arguments { chore } = Arguments::parse();
    let (name, outcome) = match chore {
        Chore::Api { binary } => ("api", api::run(binary)),
        Chore::Aws { port } => ("aws", aws(port)),
        Chore::Bench { names } => ("bench", bench::run(&names)),
        Chore::Ci => ("ci", ci()),
        Chore::Planted(asked) => ("planted", planted::run(&asked)),
        Chore::Soak(asked) => ("soak", soak::run(&asked)),
        Chore::Test { quick } => ("test", test::run(quick)),
        Chore::Vm { machines } => ("vm", vm::run(&machines)),
    };
    match outcome {
        Ok(summary) => {
            eprintln!("cargo xtask {name}: {summary}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cargo xtask {name}: FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn aws(port: Option<u16>) -> Result<String> {
    let cargo = Cargo::find()?;
    let (aws, ec2) = (ministack::start(&cargo, port)?, moto::start(&cargo, None)?);
    for (name, variable, server) in [("ministack", ministack::ENDPOINT, &aws), ("moto", moto::ENDPOINT, &ec2)]
    {
        let endpoint = server.endpoint();
        eprintln!("{name} answers at {endpoint} until Ctrl-C; its log is {}", server.log().display());
        say(&format!("export {variable}={endpoint}"));
    }
    Ok(format!("ministack ended with {}", aws.wait()?))
}

fn ci() -> Result<String> {
    let cargo = Cargo::find()?;
    let examples = webhook_examples::ensure(&cargo)?;
    let servers = Prism::start(&cargo)?;
    eprintln!("Prism answers for GitHub and GitLab until Ctrl-C; its logs are {}", servers.logs());
    for (name, url) in servers.variables() {
        say(&format!("export {name}={url}"));
    }
    say(&format!("export {}={}", webhook_examples::EXAMPLES, examples.display()));
    Ok(format!("Prism ended with {}", servers.wait()?))
}

/// For a shell to read.
#[expect(clippy::print_stdout, reason = "the line is what the chore is asked for")]
fn say(line: &str) {
    println!("{line}");
}
