//! `cargo xtask soak`: the simulator over as many seeds as asked. What it checks is the simulator's to say.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cargo::{Cargo, must_succeed, output};
use crate::clock::Stopwatch;
use crate::test::executable;

pub(crate) const SIMULATOR: &str = "motorpool-simulator";

#[derive(Debug, clap::Args)]
pub(crate) struct Soak {
    /// How many seeds
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// On SQLite in a file instead of the ledger in memory
    #[arg(long)]
    embedded: bool,
    /// Teams that ask for more than there is
    #[arg(long, conflicts_with = "embedded")]
    crowded: bool,
    /// Jobs that a CI system hands out by itself
    #[arg(long, conflicts_with_all = ["embedded", "crowded"])]
    jobs: bool,
    /// Print the whole trace of the first seed, and nothing else
    #[arg(long)]
    trace: bool,
    /// With optimisation: minutes to build, and twice as fast
    #[arg(long)]
    release: bool,
}

pub(crate) fn run(soak: &Soak) -> Result<String> {
    let Soak { seeds, from, embedded, crowded, jobs, trace, release } = soak;
    let cargo = Cargo::find()?;
    let simulator = build(&cargo, cargo.root(), SIMULATOR, *release)?;
    let watch = Stopwatch::start();
    let mut run = cargo.tool(simulator);
    run.args(["--seeds", &seeds.to_string(), "--from", &from.to_string()]);
    let options =
        [(*embedded, "--embedded"), (*crowded, "--crowded"), (*jobs, "--jobs"), (*trace, "--trace")];
    for (wanted, option) in options {
        if wanted {
            run.arg(option);
        }
    }
    must_succeed(&mut run)?;
    Ok(format!("seeds {from} to {} hold, in {watch}", from + seeds.saturating_sub(1)))
}

/// The simulator of the tree at `root`. Of the whole workspace, since that is how `cargo xtask test` builds: what comes from
/// outside is there already.
pub(crate) fn build(cargo: &Cargo, root: &Path, binary: &str, release: bool) -> Result<PathBuf> {
    let mut build = cargo.command(["build", "--workspace", "--bin", binary]);
    build.arg("--manifest-path").arg(root.join("Cargo.toml"));
    build.arg("--target-dir").arg(cargo.target_directory());
    if release {
        build.arg("--release");
    }
    let said = output(build.arg("--message-format=json-render-diagnostics"))?;
    let said = String::from_utf8(said).context("cargo build wrote something that is not UTF-8")?;
    let found = said.lines().find_map(|line| executable(line, binary));
    found.with_context(|| format!("cargo build made no {binary}"))
}
