//! The demo does what the README says of it, fails where it is not so, and leaves nothing behind.

use anyhow::{Result, ensure};
use motorpool_tests::harness::serve::binary;
use std::process::{Command, Output};

/// The demo's end, and that nothing is left of it.
fn demo(args: &[&str]) -> Result<Output> {
    let home = tempfile::tempdir()?;
    let output = Command::new(binary()?).arg("demo").args(args).env("TMPDIR", home.path()).output()?;
    ensure!(std::fs::read_dir(home.path())?.next().is_none(), "it left something behind");
    Ok(output)
}

#[test]
fn the_demo_tells_every_step_and_exits_well() -> Result<()> {
    let output = demo(&[])?;
    let told = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    for step in [
        "cold: r-",
        "demo-1 left litter in the work directory of each",
        "cleaned and idle",
        "warm and clean",
        "it found no litter of demo-1",
        "SIGKILL",
        "is whole again",
        "every step happened",
    ] {
        ensure!(told.contains(step), "{step:?} is missing in:\n{told}");
    }
    Ok(())
}

/// Where nothing is cleaned, the second use finds the first one's litter.
#[test]
fn inv_13_the_demo_fails_where_a_runner_comes_unclean() -> Result<()> {
    let output = demo(&["--without-cleaning"])?;
    let (told, why) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    ensure!(!output.status.success(), "it did not notice:\n{told}");
    ensure!(told.contains("demo-1 left litter"), "{told}");
    ensure!(!told.contains("warm and clean"), "{told}");
    ensure!(why.contains("not so: demo-2 found r-") && why.contains("litter of c-"), "{why}");
    Ok(())
}
