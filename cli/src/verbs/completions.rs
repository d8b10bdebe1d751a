//! `completions`: the script that a shell wants.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::errors::Failure;
use crate::output;

pub(crate) fn run(args: CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "motorpool", &mut script);
    output::write(&String::from_utf8_lossy(&script))
}
