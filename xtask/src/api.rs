//! `cargo xtask api`: schemathesis sends what the OpenAPI document allows, and what it forbids, to a real `motorpool serve`, once with each
//! role's token. What is wrong with an answer, schemathesis says; what it can't know stands in `xtask/schemathesis`.

mod serve;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cargo::Cargo;
use crate::clock::Stopwatch;
use crate::soak;
use crate::venv::Package;
use serve::Serve;

const PACKAGE: Package = Package {
    name: "schemathesis",
    extras: "",
    version: "4.32.5",
    beside: &[],
    needed_by: "the checks of the OpenAPI document",
};

/// One role takes about a minute; beyond this something hangs.
const ROLE_WITHIN: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(100);

/// Checks this command, or the one that it builds.
pub(crate) fn run(binary: Option<PathBuf>) -> Result<String> {
    let cargo = Cargo::find()?;
    let motorpool = match binary {
        Some(binary) => binary,
        None => soak::build(&cargo, cargo.root(), "motorpool", false)?,
    };
    let watch = Stopwatch::start();
    check(&cargo, &motorpool)?;
    Ok(format!("the API is as its document says, in {watch}"))
}

/// Stops at the first role with a finding, and says what was found.
pub(crate) fn check(cargo: &Cargo, motorpool: &Path) -> Result<()> {
    let python = PACKAGE.install(cargo)?;
    let directory = PACKAGE.home(cargo).join(format!("run-{}", std::process::id()));
    fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let serve = Serve::start(motorpool, &directory)?;
    serve.join_runner()?;
    // The operator comes last: he may remove the runner whose token another role has.
    for (role, token) in [
        ("nobody", None),
        ("a team", Some(serve::TEAM_TOKEN)),
        ("a runner", Some(serve::RUNNER_TOKEN)),
        ("the operator", Some(serve::ADMIN_TOKEN)),
    ] {
        let watch = Stopwatch::start();
        let log = directory.join("schemathesis.log");
        let mut command = schemathesis(cargo, &python, &serve, token);
        let ended = bounded(&mut command, &directory, &log)?;
        if !ended.success() {
            eprintln!("{}", fs::read_to_string(&log).unwrap_or_default());
            bail!("schemathesis found something as {role}; serve's log is {}", serve.log().display());
        }
        eprintln!("    as {role}: {watch}");
    }
    drop(serve);
    fs::remove_dir_all(&directory).with_context(|| format!("cannot remove {}", directory.display()))
}

fn schemathesis(cargo: &Cargo, python: &Path, serve: &Serve, token: Option<&str>) -> Command {
    let settings = cargo.root().join("xtask/schemathesis");
    let mut command = cargo.tool(python.with_file_name("st"));
    command.arg("--config-file").arg(settings.join("schemathesis.toml"));
    command.args(["--no-color", "run", &format!("{}/api/v1/openapi.json", serve.url())]);
    if let Some(token) = token {
        command.args(["--header", &format!("Authorization: Bearer {token}")]);
    }
    // Whatever proxy this host has, loopback is not behind it.
    command.env("SCHEMATHESIS_HOOKS", settings.join("hooks.py")).env("NO_PROXY", "127.0.0.1");
    command
}

fn bounded(command: &mut Command, directory: &Path, log: &Path) -> Result<ExitStatus> {
    let written = File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
    let also = written.try_clone().with_context(|| format!("cannot open {} twice", log.display()))?;
    let child = command.current_dir(directory).stdin(Stdio::null()).stdout(written).stderr(also).spawn();
    let mut child = Ended(child.context("cannot start schemathesis")?);
    for _ in 0..ROLE_WITHIN.as_millis() / PAUSE.as_millis() {
        if let Some(status) = child.0.try_wait().context("cannot look after schemathesis")? {
            return Ok(status);
        }
        thread::sleep(PAUSE);
    }
    bail!("schemathesis did not end within {} s; its log is {}", ROLE_WITHIN.as_secs(), log.display())
}

/// A process that does not outlive this value.
#[derive(Debug)]
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Neither can fail in a way that could be helped here.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
