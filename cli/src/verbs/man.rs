//! `man`: a page for the command and for each verb.

use clap::CommandFactory;

use crate::args::{Cli, ManArgs};
use crate::errors::Failure;

pub(crate) fn run(args: ManArgs) -> Result<(), Failure> {
    let ManArgs { out } = args;
    std::fs::create_dir_all(&out)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &out))
        .map_err(|error| Failure::failed(format!("cannot write man pages to {}: {error}", out.display()), ""))
}
