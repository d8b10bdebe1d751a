//! A Python package in an environment of its own in the target directory, installed once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::cargo::{Cargo, must_succeed};
use crate::clock::Stopwatch;

/// A package of the Python package index, at one version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    /// With its brackets: `[server]`.
    pub(crate) extras: &'static str,
    pub(crate) version: &'static str,
    /// What it needs and does not ask for, as pip names it.
    pub(crate) beside: &'static [&'static str],
    /// What can't be tested without it: `the tests over AWS`.
    pub(crate) needed_by: &'static str,
}

impl Package {
    /// Where it lives, and whatever is written beside it.
    pub(crate) fn home(&self, cargo: &Cargo) -> PathBuf {
        cargo.target_directory().join("tools").join(format!("{}-{}", self.name, self.version))
    }

    /// The program of the environment that has it. Whoever else installs it at the same time is waited for.
    pub(crate) fn install(&self, cargo: &Cargo) -> Result<PathBuf> {
        let Self { name, extras, version, beside, needed_by } = *self;
        let home = self.home(cargo);
        fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
        let lock =
            File::create(home.join("lock")).with_context(|| format!("cannot make a lock file for {name}"))?;
        lock.lock().with_context(|| format!("cannot wait for another installation of {name}"))?;
        let (environment, finished) = (home.join("venv"), home.join("installed"));
        let python = environment.join("bin/python");
        if finished.exists() && python.exists() {
            return Ok(python);
        }

        let watch = Stopwatch::start();
        eprintln!("    {name} is missing: installing {name} {version}, once");
        if environment.exists() {
            fs::remove_dir_all(&environment).context("cannot remove what is left of an installation")?;
        }
        ensure_venv(cargo)?;
        must_succeed(cargo.tool("python3").args(["-m", "venv"]).arg(&environment)).with_context(|| {
            format!(
                "{needed_by} need python3 (3.10 or later) with its modules venv and ensurepip; \
                 on Debian and Ubuntu: apt-get install python3-venv"
            )
        })?;
        let package = format!("{name}{extras}=={version}");
        let mut pip = cargo.tool(&python);
        pip.args(["-m", "pip", "install", "--quiet", &package]).args(beside);
        must_succeed(&mut pip).with_context(|| {
            format!("{needed_by} need {name} from the Python package index; pip could not install it")
        })?;
        fs::write(&finished, version).with_context(|| format!("cannot note that {name} is installed"))?;
        eprintln!("    {name} {version} is installed: {watch}");
        Ok(python)
    }
}

/// A Python program that plays AWS. Nothing in its environment may lead it, or what it starts, to a real account, or to the other control
/// planes of this host.
pub(crate) fn emulator(cargo: &Cargo, python: &Path, program: &str) -> Command {
    let mut command = cargo.tool(python);
    for (name, _) in std::env::vars_os() {
        let name_is = |prefix: &[u8]| name.as_encoded_bytes().starts_with(prefix);
        if name_is(b"AWS_") || name_is(b"MOTORPOOL_") {
            command.env_remove(&name);
        }
    }
    command
        .args(["-c", &format!("{END_WITH_PARENT}{program}")])
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_DEFAULT_REGION", "us-east-1");
    command
}

/// Its stdin is closed when whoever started it ends, however that ends.
const END_WITH_PARENT: &str = "
import os, signal, sys, threading
def end_with_parent():
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=end_with_parent, daemon=True).start()
";

/// Debian keeps what makes an environment in a package of its own. Who may install it has it installed; anybody else is told by the
/// next step's error.
fn ensure_venv(cargo: &Cargo) -> Result<()> {
    let succeeds = |program: &str, arguments: &[&str]| {
        let mut command = cargo.tool(program);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let there = succeeds("python3", &["-c", "import ensurepip, venv"]);
    let may_install = succeeds("sh", &["-c", "test \"$(id -u)\" = 0 && command -v apt-get"]);
    if there || !may_install {
        return Ok(());
    }
    const INSTALL: [&str; 4] = ["install", "-y", "-q", "python3-venv"];
    eprintln!("    python3 has no venv: installing the package python3-venv");
    if !succeeds("apt-get", &INSTALL) {
        must_succeed(cargo.tool("apt-get").args(["update", "-q"]))?;
        must_succeed(cargo.tool("apt-get").args(INSTALL))?;
    }
    Ok(())
}
