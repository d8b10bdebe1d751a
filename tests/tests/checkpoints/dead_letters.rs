//! Notices that nobody can use: they are set aside with one alert and hold up no other; and one that is sent again days later changes nothing.

use crate::workshop::{Workshop, in_ci};
use anyhow::{Context, Result, ensure};
use motorpool_control::ports::queue::QueueName;
use motorpool_control::{Caller, Control, Page, Parts, SweepWish, WhichAlerts};
use motorpool_queues::InProcessQueue;
use motorpool_wire::queue::FinalizeNotice;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Longer than a notice that could not be attended to stays hidden.
const UNTIL_IT_COMES_AGAIN: Duration = QueueName::Finalize.hidden().saturating_add(Duration::from_secs(1));

/// The incidents of dead letters, each with its state and how often it was raised.
pub(crate) async fn incidents(control: &Control) -> Result<Vec<(Option<String>, String, u64)>> {
    let page = control.list_alerts(&Caller::Operator, WhichAlerts::All, Page::first(100)).await?;
    let dead = page.alerts.into_iter().filter(|alert| alert.incident == "dead_letters");
    Ok(dead.map(|alert| (alert.subject, alert.state, alert.raised)).collect())
}

#[tokio::test(start_paused = true)]
async fn fault_18_a_poison_notice_is_set_aside_with_one_alert_and_the_rest_goes_on() -> Result<()> {
    let shop = Workshop::open(json!({}), &["mac-1"]).await?;
    let queue = &shop.world.queue;
    queue.send(&QueueName::Finalize, "poison".to_owned()).await?;
    let name = shop.create("mac-1", "1").await?.name;
    shop.finalize("mac-1", &name, "failure").await?;
    let together = shop.control.attend_to_notices(Duration::ZERO).await?;
    ensure!(together >= 2, "the poison is first in a batch with the notice of mac-1: {together}");
    ensure!(shop.ci.is_paused(&in_ci("mac-1")), "the notice behind it was attended to");
    shop.works("mac-1").await?;
    ensure!(shop.checkpoint(&name).await?.state.as_str() == "reset");
    for _ in 0..QueueName::Finalize.max_receives() {
        ensure!(queue.dead_letters(&QueueName::Finalize, 1).await?.is_empty(), "it is set aside too early");
        tokio::time::advance(UNTIL_IT_COMES_AGAIN).await;
        shop.control.attend_to_notices(Duration::ZERO).await?;
    }
    ensure!(queue.dead_letters(&QueueName::Finalize, 10).await? == ["poison"]);
    for _ in 0..3 {
        shop.control.refresh(&Caller::Operator, SweepWish::Now).await?;
        shop.turn(30);
    }
    let finalize = Some("finalize".to_owned());
    let found = incidents(&shop.control).await?;
    ensure!(found == [(finalize.clone(), "open".to_owned(), 1)], "one incident, raised once: {found:?}");
    // A serve that starts anew has no dead letters.
    let (queue, ci) = (Arc::new(InProcessQueue::default()), shop.systems());
    let restarted = Control::new(Parts { queue, ci, ..shop.world.parts() });
    for _ in 0..20 {
        shop.turn(60);
        restarted.refresh(&Caller::Operator, SweepWish::Now).await?;
    }
    let found = incidents(&restarted).await?;
    ensure!(found == [(finalize, "over".to_owned(), 1)], "{found:?}");
    Ok(())
}

#[tokio::test]
async fn fault_19_a_notice_that_is_sent_again_days_later_changes_nothing() -> Result<()> {
    let shop = Workshop::open(json!({"max_runtime_minutes": 10_000}), &["mac-1"]).await?;
    let first = shop.create("mac-1", "1").await?.name;
    shop.finalize("mac-1", &first, "failure").await?;
    let runner = shop.runner("mac-1").await?;
    let notice = serde_json::to_string(&FinalizeNotice { runner: runner.id.clone(), epoch: runner.epoch })?;
    shop.works("mac-1").await?;
    let ended = shop.checkpoint(&first).await?;
    shop.turn(3 * 24 * 3_600);
    // Once while the machine waits for a job, and once while it has one.
    for job in [None, Some("2")] {
        if let Some(job) = job {
            shop.create("mac-1", job).await?;
        }
        let before = shop.runner("mac-1").await?;
        shop.world.queue.send(&QueueName::Finalize, notice.clone()).await?;
        ensure!(shop.control.attend_to_notices(Duration::ZERO).await? > 0, "it comes");
        ensure!(shop.control.attend_to_notices(Duration::ZERO).await? == 0, "and is done with");
        let after = shop.runner("mac-1").await?;
        ensure!(after == before, "{before:?}\n{after:?}");
        ensure!(!shop.ci.is_paused(&in_ci("mac-1")), "its CI system may go on");
    }
    ensure!(shop.checkpoint(&first).await? == ended);
    let holds = shop.runner("mac-1").await?.checkpoint.context("the second job's")?;
    ensure!(holds != first, "{holds}");
    Ok(())
}
