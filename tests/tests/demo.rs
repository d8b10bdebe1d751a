//! The demo does what the README says of it, and leaves nothing behind.

use anyhow::{Result, ensure};
use motorpool_tests::serve::binary;
use std::process::Command;

#[test]
fn the_demo_tells_every_step_and_exits_well() -> Result<()> {
    let home = tempfile::tempdir()?;
    let output = Command::new(binary()?).arg("demo").env("TMPDIR", home.path()).output()?;
    let told = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    for step in
        ["cold: r-", "cleaned and idle", "warm and clean", "SIGKILL", "is whole again", "every step happened"]
    {
        ensure!(told.contains(step), "{step:?} is missing in:\n{told}");
    }
    ensure!(std::fs::read_dir(home.path())?.next().is_none(), "it left something behind");
    Ok(())
}
