//! `cargo xtask test`: the checks in their order, up to the first that fails. What is left out is said in the summary.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::api;
use crate::cargo::{Cargo, must_succeed, output};
use crate::clock::Stopwatch;
use crate::doctests;
use crate::flaky::Report;
use crate::ministack;
use crate::moto;
use crate::packages;
use crate::planted::{self, Planted};
use crate::prism::Prism;
use crate::proxmoxer;
use crate::tools::{DENY, NEXTEST};
use crate::webhook_examples;

/// The advisory database is a few megabytes; beyond this the network counts as unreachable.
const ADVISORIES_WITHIN: Duration = Duration::from_secs(120);

/// Tests that need a network of their own are not wanted. They fail where they can't run, unless this is set.
const LEAVE_OUT_NETWORK: &str = "MOTORPOOL_LEAVE_OUT_NETWORK";
/// The same of tests that give jobs users of their own.
const LEAVE_OUT_USERS: &str = "MOTORPOOL_LEAVE_OUT_USERS";

/// Runs the checks and returns the summary.
pub(crate) fn run(quick: bool) -> Result<String> {
    let watch = Stopwatch::start();
    let cargo = Cargo::find()?;
    let mut left_out = Vec::new();

    step("rustfmt", || must_succeed(&mut cargo.command(["fmt", "--all", "--check"])))?;
    step("clippy", || {
        // As the README builds it, and with all that there is: what is behind a feature is seen by the second alone.
        for more in [&[][..], &["--all-features"]] {
            let mut clippy = cargo.command(["clippy", "--workspace", "--all-targets"]);
            must_succeed(clippy.args(more).args(["--", "-D", "warnings"]))?;
        }
        Ok(())
    })?;
    if quick {
        left_out.push(
            "cargo-deny, the API's document, the planted bugs and the tests of tests/ (--quick)".to_owned(),
        );
    } else {
        let deny = step("cargo-deny", || deny(&cargo))?;
        left_out.extend(step("advisories", || advisories(&cargo, &deny))?);
    }
    let binaries = step("binaries", || build(&cargo))?;
    for (variable, what) in [
        (LEAVE_OUT_NETWORK, "a machine whose network is cut"),
        (LEAVE_OUT_USERS, "jobs with users of their own"),
    ] {
        if std::env::var_os(variable).is_some_and(|value| !value.is_empty()) {
            left_out.push(format!("{what} ({variable})"));
        }
    }
    let flaky = step("tests", || tests(&cargo, &binaries, quick))?;
    if doctests::exist(cargo.libraries())? {
        step("doc tests", || {
            let mut test = cargo.command(["test", "--workspace", "--doc"]);
            must_succeed(binaries.name_in(&mut test))
        })?;
    }

    if !quick {
        step("the API's document", || api::check(&cargo, &binaries.motorpool))?;
        step("planted bugs", || planted::run(&Planted::quick()))?;
    }

    let mut summary = format!("ok in {watch}");
    if !left_out.is_empty() {
        summary.push_str(&format!("; LEFT OUT: {}", left_out.join("; ")));
    }
    if !flaky.is_empty() {
        summary.push_str(&format!("; {}", flaky_in_words(&flaky)));
    }
    Ok(summary)
}

fn flaky_in_words(flaky: &[String]) -> String {
    format!("FLAKY, passed only when tried again: {}", flaky.join(", "))
}

fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("==> {name}");
    let watch = Stopwatch::start();
    let done = work().with_context(|| format!("{name}, after {watch}"))?;
    eprintln!("<== {name}: {watch}");
    Ok(done)
}

/// The checks that need no network. Returns the program.
fn deny(cargo: &Cargo) -> Result<OsString> {
    let program = DENY.ensure(cargo)?;
    must_succeed(cargo.tool(&program).args(["check", "licenses", "bans", "sources"]))?;
    Ok(program)
}

/// Checks the tree against the advisory database, or returns what to say where that cannot be had.
fn advisories(cargo: &Cargo, deny: &OsString) -> Result<Option<String>> {
    let mut fetch = cargo.tool(deny);
    fetch.args(["fetch", "db"]);
    // Ask nobody for a password, and give up on a connection that is silent.
    fetch
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_HTTP_LOW_SPEED_LIMIT", "1")
        .env("GIT_HTTP_LOW_SPEED_TIME", "30");
    if let Some(why) = why_unreachable(fetch)? {
        eprintln!("{why}");
        eprintln!(
            "    SKIPPED: the advisory database cannot be fetched, so known vulnerabilities were NOT looked for"
        );
        return Ok(Some("advisories (their database cannot be fetched)".to_owned()));
    }
    must_succeed(cargo.tool(deny).args(["check", "--disable-fetch", "advisories"]))?;
    Ok(None)
}

/// Runs a fetch within bounds; what it said on stderr if it failed.
fn why_unreachable(mut fetch: Command) -> Result<Option<String>> {
    let mut child = fetch
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the fetch of the advisory database")?;
    let mut stderr = child.stderr.take().context("the fetch has no stderr")?;
    let (ended, wait) = mpsc::channel();
    thread::spawn(move || {
        let mut said = Vec::new();
        // Whatever was read before an error is still worth showing. Nobody listens after the time is over.
        let _ = stderr.read_to_end(&mut said);
        let _ = ended.send(String::from_utf8_lossy(&said).into_owned());
    });
    let Ok(said) = wait.recv_timeout(ADVISORIES_WITHIN) else {
        child.kill().context("cannot end the fetch of the advisory database")?;
        child.wait().context("cannot wait for the fetch of the advisory database")?;
        return Ok(Some(format!("    no answer within {} s", ADVISORIES_WITHIN.as_secs())));
    };
    let status = child.wait().context("cannot wait for the fetch of the advisory database")?;
    Ok((!status.success()).then(|| said.trim_end().to_owned()))
}

/// What serve is tested with. The functions are left without: each would be hundreds of megabytes to carry to the emulator.
const FEATURES: [&str; 2] = ["--features", "motorpool/ec2"];

const BINARIES: [&str; 9] = [
    "motorpool",
    "motorpool-agent",
    "provision",
    "claim",
    "release",
    "finalize",
    "refresh",
    "webhook",
    "gateway",
];

#[derive(Debug)]
struct Binaries {
    motorpool: PathBuf,
    agent: PathBuf,
    /// The directory that has all functions.
    functions: PathBuf,
}

impl Binaries {
    /// Tells a test run where they are.
    fn name_in<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let Self { motorpool, agent, functions } = self;
        command
            .env("MOTORPOOL_BIN", motorpool)
            .env("MOTORPOOL_AGENT_BIN", agent)
            .env("MOTORPOOL_FUNCTIONS_DIR", functions)
    }
}

fn build(cargo: &Cargo) -> Result<Binaries> {
    // Of the whole workspace, as the tests are: then what they share with these is built once.
    let mut build = cargo.command(["build", "--workspace"]);
    build.args(FEATURES);
    for binary in BINARIES {
        build.args(["--bin", binary]);
    }
    let said = output(build.arg("--message-format=json-render-diagnostics"))?;
    let said = String::from_utf8(said).context("cargo build wrote something that is not UTF-8")?;
    let built = |name: &str| {
        let found = said.lines().find_map(|line| executable(line, name));
        found.with_context(|| format!("cargo build made no binary {name}"))
    };
    let functions = built("gateway")?.parent().context("the functions' directory")?.to_owned();
    Ok(Binaries { motorpool: built("motorpool")?, agent: built("motorpool-agent")?, functions })
}

/// Where a binary of this name is, if a line of cargo's JSON says that it was made or is fresh.
pub(crate) fn executable(line: &str, name: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_it = message.pointer("/target/name")? == name;
    let path = message.get("executable")?.as_str()?;
    is_it.then(|| PathBuf::from(path))
}

/// Returns the tests that were flaky. Where others failed, the error names both.
fn tests(cargo: &Cargo, binaries: &Binaries, quick: bool) -> Result<Vec<String>> {
    let report = Report::fresh(cargo)?;
    let ran = nextest(cargo, binaries, quick);
    match (ran, report.flaky()) {
        (Ok(()), flaky) => flaky,
        (Err(error), Ok(flaky)) if !flaky.is_empty() => Err(error.context(flaky_in_words(&flaky))),
        // Whatever ended the run may have come before the report.
        (Err(error), Ok(_) | Err(_)) => Err(error),
    }
}

fn nextest(cargo: &Cargo, binaries: &Binaries, quick: bool) -> Result<()> {
    let mut nextest = cargo.tool(NEXTEST.ensure(cargo)?);
    nextest.args(["nextest", "run", "--workspace"]).args(FEATURES);
    if quick {
        for package in ["motorpool-tests", "motorpool-ci-tests", "motorpool-ec2-tests", "motorpool-pve-tests"]
        {
            nextest.args(["--exclude", package]);
        }
        return must_succeed(binaries.name_in(&mut nextest));
    }
    packages::ensure(cargo)?;
    nextest.env(webhook_examples::EXAMPLES, webhook_examples::ensure(cargo)?);
    // One for all tests; it ends with this function, whatever becomes of them.
    let aws = ministack::start(cargo, None)?;
    nextest.env(ministack::ENDPOINT, aws.endpoint());
    let ec2 = moto::start(cargo, None)?;
    nextest.env(moto::ENDPOINT, ec2.endpoint());
    let ci = Prism::start(cargo)?;
    nextest.envs(ci.variables());
    nextest.env(proxmoxer::PYTHON, proxmoxer::ensure(cargo)?);
    must_succeed(binaries.name_in(&mut nextest)).with_context(|| {
        let (aws, ec2, ci) = (aws.log().display(), ec2.log().display(), ci.logs());
        format!("the logs of the AWS emulators are {aws} and {ec2}, those of the CI vendors' APIs are {ci}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_in_cargos_messages() {
        let library =
            r#"{"reason":"compiler-artifact","target":{"name":"motorpool-agent"},"executable":null}"#;
        let binary = r#"{"reason":"compiler-artifact","target":{"name":"motorpool-agent"},"executable":"/t/debug/motorpool-agent"}"#;
        assert_eq!(executable(library, "motorpool-agent"), None);
        assert_eq!(executable(binary, "motorpool-agent"), Some(PathBuf::from("/t/debug/motorpool-agent")));
        assert_eq!(executable(binary, "motorpool"), None);
        assert_eq!(executable("not json", "motorpool"), None);
    }

    #[test]
    fn a_fetch_that_fails_says_why() -> Result<()> {
        let mut fails = Command::new(env!("CARGO"));
        fails.arg("--no-such-option");
        assert!(why_unreachable(fails)?.is_some_and(|why| why.contains("no-such-option")));
        let mut works = Command::new(env!("CARGO"));
        works.arg("--version").stdout(Stdio::null());
        assert_eq!(why_unreachable(works)?, None);
        Ok(())
    }
}
