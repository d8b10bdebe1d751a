//! Packages from the npm registry that tests need, installed once into the target directory. What is in them, it does not know.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};

use crate::cargo::{Cargo, must_succeed};
use crate::clock::Stopwatch;

#[derive(Debug)]
pub(crate) struct Packages<'a> {
    /// What they are called in messages.
    pub(crate) name: &'a str,
    /// Each with its version.
    pub(crate) packages: &'a [String],
    /// What does not work without them.
    pub(crate) needed_by: &'a str,
}

impl Packages<'_> {
    /// Into `node_modules` of `home`; then `finish` does what is left to do there. Whoever else installs them at the same time is waited for.
    pub(crate) fn install(
        &self,
        cargo: &Cargo,
        home: &Path,
        finish: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        let Self { name, packages, needed_by } = self;
        fs::create_dir_all(home).with_context(|| format!("cannot make {}", home.display()))?;
        let lock =
            File::create(home.join("lock")).with_context(|| format!("cannot make a lock file for {name}"))?;
        lock.lock().with_context(|| format!("cannot wait for another installation of {name}"))?;
        let (modules, finished) = (home.join("node_modules"), home.join("installed"));
        if finished.exists() && modules.exists() {
            return Ok(());
        }

        let (watch, all) = (Stopwatch::start(), packages.join(", "));
        eprintln!("    missing: {name}; installing {all}, once");
        if modules.exists() {
            fs::remove_dir_all(&modules).context("cannot remove what is left of an installation")?;
        }
        fs::write(home.join("package.json"), r#"{"private":true}"#).context("cannot write package.json")?;
        let mut npm = cargo.tool("npm");
        // None of them needs a script, and a script could do anything.
        npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
        must_succeed(npm.args(*packages).current_dir(home)).with_context(|| {
            format!("{needed_by} need node (18.20 or later) with npm, and from the npm registry {all}")
        })?;
        finish(&modules)?;
        fs::write(&finished, all).with_context(|| format!("cannot note that {name} is installed"))?;
        eprintln!("    installed {name}: {watch}");
        Ok(())
    }
}
