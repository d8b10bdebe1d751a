//! The whole of it: a runner is quarantined on `serve`, a receiver is told, and told again when a person has released it.

use crate::receiver::{Receiver, SECRET};
use anyhow::{Context, Result, ensure};
use motorpool_tests::fakes::fake_agent::FakeAgent;
use motorpool_tests::harness::serve::{ADMIN_TOKEN, Serve, binary, fresh_dir};
use motorpool_tests::harness::story::{refreshed_to, refreshed_until};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Refresh comes by hand alone.
fn serve(receiver: &Receiver, more: &str) -> Result<Serve> {
    let dir = fresh_dir()?;
    let secret = dir.path().join("alerts-secret");
    std::fs::write(&secret, SECRET)?;
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600))?;
    let pools = format!(
        "refresh_seconds = 3600\nsweep_seconds = 86400\n\
         [alerts]\nurl = \"{}\"\nformat = \"json\"\nsecret_file = \"alerts-secret\"\nallow_private = true\n\
         [pools.p]\nbackend = \"bare_metal\"\ncleanup_cmd = \"true\"\nheartbeat_seconds = 1\n{more}",
        receiver.url
    );
    Serve::start_in(dir, &pools, Vec::new())
}

/// What the command says, as JSON.
fn command(serve: &Serve, args: &[&str]) -> Result<Value> {
    let output = Command::new(binary()?)
        .args(args)
        .args(["--json", "--server", serve.api().base()])
        .env("MOTORPOOL_ADMIN_TOKEN", ADMIN_TOKEN)
        .output()
        .context("the command")?;
    ensure!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quarantine_is_told_once_and_once_that_a_person_has_released_it() -> Result<()> {
    let receiver = Receiver::start().await?;
    let serve = serve(&receiver, "")?;
    let api = serve.api();
    let mut agent = FakeAgent::idle(api, "p", "m-1", json!({})).await?;
    refreshed_to(api, "m-1", "quarantined").await?;
    let took = async |count: usize| Ok((receiver.took().len() >= count).then_some(()));
    refreshed_until(api, "the receiver is told", async || took(1).await).await?;
    for _ in 0..3 {
        api.post("refresh?sweep=now", json!({})).await?.expect(200)?;
    }
    assert_eq!(receiver.took(), ["runner_quarantined m-1 opened"]);
    let open = command(&serve, &["alerts"])?;
    ensure!(open["sent"] == true && open["alerts"][0]["subject"] == "m-1", "{open}");
    ensure!(open["alerts"][0]["details"] == "its agent fell silent while idle", "{open}");

    command(&serve, &["runners", "release", "m-1"])?;
    refreshed_until(api, "the receiver is told that it is over", async || took(2).await).await?;
    agent.work_until("idle").await?;
    for _ in 0..3 {
        api.post("refresh?sweep=now", json!({})).await?.expect(200)?;
    }
    assert_eq!(receiver.took(), ["runner_quarantined m-1 opened", "runner_quarantined m-1 over"]);
    assert_eq!(receiver.sent().len(), 2, "{:?}", receiver.sent());
    let open = command(&serve, &["alerts"])?;
    ensure!(open["alerts"] == json!([]), "{open}");
    let all = command(&serve, &["alerts", "--all"])?;
    ensure!(all["alerts"][0]["state"] == "over" && all["alerts"][0]["told"] == "over", "{all}");
    let log = serve.log();
    ensure!(log.contains("a runner is quarantined: a person must look"), "the line that operators filter on");
    ensure!(!log.contains(SECRET), "the secret is in the log");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_says_when_incidents_are_only_logged() -> Result<()> {
    let receiver = Receiver::start().await?;
    let told = serve(&receiver, "")?;
    let only_logged = Serve::start("[pools.p]\nbackend = \"bare_metal\"\ncleanup_cmd = \"true\"\n")?;
    for (serve, expected) in [(&told, "ok"), (&only_logged, "warn")] {
        let report = command(serve, &["doctor"])?;
        let checks = report["checks"].as_array().context("checks")?;
        let of_alerts =
            |check: &&Value| check["what"].as_str().is_some_and(|what| what.contains("incidents"));
        let check = checks.iter().find(of_alerts).context("no check of alerts")?;
        ensure!(check["verdict"] == expected, "{check}");
    }
    Ok(())
}
