//! The `motorpool` command. It picks the verb, and tells how it ended; everything else is in the verb's own module.

mod args;
mod client;
mod clock;
mod demo;
mod doctor;
mod errors;
mod open_files;
mod output;
mod pools_file;
mod private_file;
mod serve;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Verb};
use errors::Failure;
use output::Report;

fn main() -> ExitCode {
    let Cli { json, open_files, verb } = Cli::parse();
    if let Some(most) = open_files {
        open_files::lower(most);
    }
    let ended = match verb {
        // The agent has a runtime and exit codes of its own.
        Verb::Agent(args) => return motorpool_agent::cli::main(args, vec!["agent".into()]),
        // So have the hooks of jobs, which talk to an agent and not to the server.
        Verb::Checkpoint(args) => return motorpool_agent::hook::main(args, json),
        Verb::Completions(args) => verbs::completions::run(args),
        Verb::Man(args) => verbs::man::run(args),
        Verb::Backup(args) => told(verbs::backup::run(args), json),
        Verb::Token => told(Ok(verbs::token::run()), json),
        Verb::Serve(args) => block_on(serve::run(args)),
        Verb::Demo(args) => block_on(demo::run(args)),
        Verb::Pools(args) => told(block_on(verbs::pools::run(args)), json),
        Verb::Runners(args) => told(block_on(verbs::runners::run(args)), json),
        Verb::Provision(args) => told(block_on(verbs::provision::run(args)), json),
        Verb::Claim(args) => told(block_on(verbs::claim::run(args)), json),
        Verb::Release(args) => told(block_on(verbs::release::run(args)), json),
        Verb::Claims(args) => told(block_on(verbs::claims::run(args)), json),
        Verb::Why(args) => told(block_on(verbs::why::run(args)), json),
        Verb::Refresh(args) => told(block_on(verbs::refresh::run(args)), json),
        Verb::Audit(args) => told(block_on(verbs::audit::run(args)), json),
        Verb::Alerts(args) => told(block_on(verbs::alerts::run(args)), json),
        Verb::Doctor(args) => told(block_on(doctor::run(args)), json),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

/// A verb that failed in the end may still have something to show.
fn told(report: Result<Report, Failure>, json: bool) -> Result<(), Failure> {
    let report = report?;
    report.print(json)?;
    report.failure.map_or(Ok(()), Err)
}

fn block_on<T>(verb: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    // Two at least: while one is at the disk, the other hears what comes in.
    let workers = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}"), ""))?
        .block_on(verb)
}
