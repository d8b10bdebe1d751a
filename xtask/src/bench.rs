//! `cargo xtask bench [NAME…]`: builds the release binaries, and runs the benchmarks on them. Figures go to stdout, one JSON object a
//! line; all else to stderr.

use anyhow::Result;

use crate::cargo::{Cargo, must_succeed};

/// The benchmark, and what it measures.
const BINARIES: [&str; 5] = ["motorpool-bench", "motorpool", "motorpool-agent", "gateway", "hello"];

pub(crate) fn run(names: &[String]) -> Result<String> {
    let cargo = Cargo::find()?;
    // Of the whole workspace, so that what they share is built once.
    let mut build = cargo.command(["build", "--release", "--workspace"]);
    for binary in BINARIES {
        build.args(["--bin", binary]);
    }
    must_succeed(&mut build)?;
    let release = cargo.target_directory().join("release");
    let mut bench = cargo.tool(release.join("motorpool-bench"));
    bench.args(names).env("MOTORPOOL_BIN", release.join("motorpool"));
    must_succeed(&mut bench)?;
    Ok("done".to_owned())
}
