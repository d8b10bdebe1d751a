//! Something that takes long to make, made once by a script into `tools` in the target directory, and again when its recipe changes. It does not
//! know what is made.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::cargo::Cargo;
use crate::clock::Stopwatch;

#[derive(Debug)]
pub(super) struct Recipe<'a> {
    /// Of the folder in `tools`.
    pub(super) name: &'a str,
    /// What is made, for people to read.
    pub(super) what: &'a str,
    /// Of `sh`, with the environment below, in that folder.
    pub(super) script: &'a str,
    pub(super) environment: &'a [(&'a str, &'a str)],
    /// All else that what is made depends on.
    pub(super) ingredients: &'a str,
}

impl Recipe<'_> {
    /// The folder. Whoever else makes it at the same time is waited for.
    pub(super) fn made(&self, cargo: &Cargo) -> Result<PathBuf> {
        let Self { name, what, script, environment, ingredients } = self;
        let recipe = format!("{environment:?}\n{script}\n{ingredients}");
        let home = cargo.target_directory().join("tools").join(name);
        fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
        let lock =
            File::create(home.join("lock")).with_context(|| format!("cannot make a lock file for {what}"))?;
        lock.lock().with_context(|| format!("cannot wait for whoever makes {what}"))?;
        let made_by = home.join("recipe");
        if fs::read_to_string(&made_by).is_ok_and(|made_by| made_by == recipe) {
            return Ok(home);
        }

        let watch = Stopwatch::start();
        eprintln!("    {what} is missing or of another recipe: making it, once");
        if made_by.exists() {
            fs::remove_file(&made_by).with_context(|| format!("cannot forget the recipe of {what}"))?;
        }
        let mut make = cargo.tool("sh");
        make.args(["-c", script, "make"]).current_dir(&home).stdin(Stdio::null());
        make.envs(environment.iter().copied());
        must_succeed_quietly(&mut make, what, &home.join("make.log"))?;
        fs::write(&made_by, recipe).with_context(|| format!("cannot note the recipe of {what}"))?;
        eprintln!("    {what} is made: {watch}");
        Ok(home)
    }
}

fn must_succeed_quietly(command: &mut Command, what: &str, log: &Path) -> Result<()> {
    let written = File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
    let also = written.try_clone().with_context(|| format!("cannot open {} twice", log.display()))?;
    let status =
        command.stdout(written).stderr(also).status().with_context(|| format!("cannot make {what}"))?;
    ensure!(status.success(), "{what} could not be made; {} says why", log.display());
    Ok(())
}
