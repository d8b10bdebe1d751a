//! The project's chores, as `cargo xtask …`. It starts other programs and judges them by how they end; it does not
//! know what they check.

mod cargo;
mod clock;
mod doctests;
mod test;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "The project's chores")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Run every check: rustfmt, clippy, cargo-deny, the build of the binaries, all tests
    ///
    /// It stops at the first one that fails. Missing tools (cargo-deny, cargo-nextest) are built once, into `tools` in
    /// the target directory.
    Test {
        /// Leave out cargo-deny, and the contract and end-to-end tests of `tests/`
        #[arg(long)]
        quick: bool,
    },
}

fn main() -> ExitCode {
    let Arguments { chore } = Arguments::parse();
    match chore {
        Chore::Test { quick } => match test::run(quick) {
            Ok(summary) => {
                eprintln!("cargo xtask test: {summary}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("cargo xtask test: FAILED: {error:#}");
                ExitCode::FAILURE
            }
        },
    }
}
