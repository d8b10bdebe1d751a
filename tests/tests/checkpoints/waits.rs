//! What waits for a CI system: people are told of whatever waits too long, one machine that waits holds up no other, and a job that ran into the end of
//! another one shortens the wait.

use crate::workshop::Workshop;
use anyhow::{Context, Result, ensure};
use motorpool_control::store::{RunnerWrite, Written};
use motorpool_control::{Caller, Page, WhichAlerts};
use motorpool_domain::checkpoint::{FinalizeSource, JobOutcome};
use motorpool_domain::runner::{Runner, RunnerState};
use motorpool_domain::{Actor, AuditEntry};
use serde_json::json;

/// Each incident so far: what it is of, and whether it is open or over.
async fn incidents(shop: &Workshop) -> Result<Vec<String>> {
    let page = shop.control.list_alerts(&Caller::Operator, WhichAlerts::All, Page::first(100)).await?;
    let said = |alert: motorpool_wire::api::AlertView| {
        format!("{} {} {}", alert.incident, alert.subject.unwrap_or_default(), alert.state)
    };
    Ok(page.alerts.into_iter().map(said).collect())
}

#[tokio::test]
async fn that_a_machine_was_taken_from_its_job_is_said_by_nobody_and_nobody_is_told_of_it() -> Result<()> {
    let shop = Workshop::open(json!({}), &["mac-1"]).await?;
    let name = shop.create("mac-1", "1").await?.name;
    let before = shop.runner("mac-1").await?;
    let state = RunnerState::Quarantined { why: "its token was copied".to_owned() };
    let after = Runner { state, threshold: None, rev: before.rev + 1, ..before.clone() };
    let entry = AuditEntry::of(shop.world.now(), Actor::Control, "transition", "its token was copied");
    let write = RunnerWrite { before: &before, after: &after, look_at: None, entry: &entry };
    ensure!(shop.world.store.write_runner(write).await? == Written::Done);
    shop.control.attend_to(&before.id).await?;
    let left = shop.checkpoint(&name).await?;
    let finalized = left.finalized.context("its job had no end")?;
    ensure!((finalized.status, finalized.source) == (JobOutcome::Canceled, FinalizeSource::Gc), "{left:?}");
    ensure!(left.state.as_str() == "finalize_queued" && !left.is_forgotten(), "{left:?}");
    ensure!(incidents(&shop).await?.is_empty(), "{:?}", incidents(&shop).await?);
    Ok(())
}
