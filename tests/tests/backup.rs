//! `motorpool backup`: a ledger is copied while its serve goes on, and another serve starts from the copy.

use anyhow::{Context, Result, ensure};
use motorpool_tests::harness::serve::{Serve, binary, fresh_dir};
use std::fs;
use std::process::Command;

const POOLS: &str = "[pools.p]\nbackend = \"bare_metal\"\nclean = \"keep\"\nmax = 3\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_serve_starts_from_a_copy_that_was_made_while_another_ran() -> Result<()> {
    let serve = Serve::start(POOLS)?;
    let before = serve.api().provision("gh-1", "p", 1).await?;

    let (copies, second) = (fresh_dir()?, fresh_dir()?);
    let copy = copies.path().join("copy.db");
    let backup = |to: &std::path::Path| {
        Command::new(binary()?)
            .arg("backup")
            .arg(to)
            .arg("--data-dir")
            .arg(serve.data_dir())
            .output()
            .context("backup")
    };
    let made = backup(&copy)?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let again = backup(&copy)?;
    ensure!(!again.status.success(), "a file that is there was written over");
    serve.api().provision("gh-2", "p", 1).await?.get("claim").context("the first serve goes on")?;

    let data = second.path().join("data");
    fs::create_dir(&data)?;
    fs::rename(&copy, data.join("ledger.db"))?;
    let restored = Serve::start_in(second, POOLS, Vec::new())?;
    let id = before["claim"].as_str().context("the claim's id")?;
    let after = restored.api().claim(id).await?;
    ensure!(after["workflow"] == "gh-1" && after["state"] == before["state"], "{after}");
    Ok(())
}

#[test]
fn a_directory_without_a_ledger_is_told_of() -> Result<()> {
    let dir = fresh_dir()?;
    let refused = Command::new(binary()?)
        .arg("backup")
        .arg(dir.path().join("copy.db"))
        .arg("--data-dir")
        .arg(dir.path())
        .output()?;
    let said = String::from_utf8(refused.stderr)?;
    ensure!(!refused.status.success() && said.contains("--data-dir"), "{said}");
    ensure!(fs::read_dir(dir.path())?.next().is_none(), "something was left behind");
    Ok(())
}
