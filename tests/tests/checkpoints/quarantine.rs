//! A machine that can't be cleaned or does not get ready: it is out of use, paused, and a person is told once, until that person has let it out.

use crate::workshop::{Workshop, in_ci};
use anyhow::{Result, ensure};
use motorpool_control::{Caller, Page, SweepWish, WhichAlerts};
use motorpool_domain::runner::RunnerState;
use serde_json::json;

const MAC: &str = "mac-1";

/// The state of each incident that is of its quarantine. That an open one is told once, is shown in `alerts`.
async fn incidents(shop: &Workshop) -> Result<Vec<String>> {
    let page = shop.control.list_alerts(&Caller::Operator, WhichAlerts::All, Page::first(100)).await?;
    let its = page.alerts.into_iter().filter(|alert| alert.incident == "runner_quarantined");
    Ok(its.map(|alert| alert.state).collect())
}

#[tokio::test]
async fn a_machine_that_cannot_be_reset_or_is_not_ready_is_paused_and_told_of_once_until_a_person_lets_it_out()
-> Result<()> {
    for (fails, readiness) in [("reset", None), ("readiness", Some("ready"))] {
        let settings = json!({"heartbeat_seconds": 30, "readiness_cmd": readiness});
        let shop = Workshop::open(settings, &[MAC]).await?;
        let name = shop.create(MAC, "1").await?.name;
        shop.fails_at(MAC, Some(fails));
        shop.finalize(MAC, &name, "failure").await?;
        for _ in 0..10 {
            shop.works(MAC).await?;
            ensure!(shop.ci.is_paused(&in_ci(MAC)), "{fails}: it is brought no job, whatever becomes of it");
            shop.turn(60);
            shop.refresh().await?;
        }
        let RunnerState::Quarantined { why } = shop.runner(MAC).await?.state else {
            anyhow::bail!("{fails}: {:?}", shop.runner(MAC).await?)
        };
        ensure!(why.contains("could not be cleaned in 3 attempts"), "{why}");
        ensure!(fails != "readiness" || why.contains("not ready"), "{why}");
        let waits = shop.checkpoint(&name).await?;
        ensure!(
            waits.state.as_str() == "finalize_queued",
            "nobody says that its machine is clean: {waits:?}"
        );
        for _ in 0..10 {
            shop.turn(30);
            shop.control.refresh(&Caller::Operator, SweepWish::Now).await?;
            shop.works(MAC).await?;
        }
        ensure!(shop.ci.is_paused(&in_ci(MAC)), "{fails}: no sweep unpauses it");
        let told = incidents(&shop).await?;
        ensure!(told == ["open"], "{fails}: one incident, however often it is raised: {told:?}");

        shop.fails_at(MAC, None);
        shop.control.release_runner(&Caller::Operator, &MAC.parse()?).await?;
        ensure!(
            shop.ci.is_paused(&in_ci(MAC)) && shop.state(MAC).await? == "resetting",
            "it is not clean yet"
        );
        shop.works(MAC).await?;
        let clean = shop.runner(MAC).await?;
        ensure!(clean.state == RunnerState::Idle && clean.proof.is_some(), "{clean:?}");
        ensure!(!shop.ci.is_paused(&in_ci(MAC)), "{fails}: it takes jobs again");
        ensure!(shop.checkpoint(&name).await?.state.as_str() == "reset");
        let told = incidents(&shop).await?;
        ensure!(told == ["over"], "{fails}: {told:?}");
    }
    Ok(())
}
