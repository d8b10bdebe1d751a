//! What the use cases cost in calls to AWS, counted at the connector: figures of the design, held.

use anyhow::{Context, Result};
use motorpool_ledger::embedded::EmbeddedEngine;
use motorpool_ledger::{DynamoLedger, create_table_on_aws};
use motorpool_queues::{InProcessQueue, SqsQueues};
use motorpool_tests::counting::{Counting, ledger_in};
use motorpool_tests::world::{World, pool};
use motorpool_tests::{emulated_aws, seeded};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

type Calls = BTreeMap<String, u32>;

/// A world on emulated DynamoDB and SQS, with `idle` runners, and its counter.
async fn on_aws(idle: u32) -> Result<(World, Counting)> {
    let config = emulated_aws::config().await?;
    let counting = Counting::new(config.http_client().context("no HTTP client")?);
    let config = config.into_builder().http_client(counting.clone()).build();
    let name = emulated_aws::fresh_name("calls");
    create_table_on_aws(&config, &name).await?;
    let ledger = Arc::new(DynamoLedger::on_aws(&config, &name));
    let queue = Arc::new(SqsQueues::on_aws(&config, &name));
    let world = World::on(ledger, queue, json!({"max": 20, "min_idle": idle, "idle_minutes": 60})).await?;
    world.refresh().await?;
    world.agents_work().await?;
    counting.take();
    Ok((world, counting))
}

fn of(calls: &Calls, operation: &str) -> u32 {
    calls.get(operation).copied().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_claim_costs_one_receive_one_transaction_and_one_delete() -> Result<()> {
    let (world, counting) = on_aws(2).await?;
    let claim = world.provision("gh-1", 1).await?;
    assert!(claim.runners.iter().all(|member| member.warm) && claim.short == 0, "{claim:?}");
    let calls = counting.take();
    assert_eq!(of(&calls, "ReceiveMessage"), 1, "{calls:?}");
    assert_eq!(of(&calls, "TransactWriteItems"), 1, "{calls:?}");
    assert_eq!(of(&calls, "DeleteMessage"), 1, "{calls:?}");
    for other in ["PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "SendMessage", "Scan"] {
        assert_eq!(of(&calls, other), 0, "{other}: {calls:?}");
    }
    eprintln!("a warm claim: {calls:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_warm_ones_cost_ten_transactions_and_two_receives_at_most() -> Result<()> {
    let (world, counting) = on_aws(10).await?;
    let claim = world.provision("gh-1", 10).await?;
    assert!(claim.runners.iter().all(|member| member.warm) && claim.short == 0, "{claim:?}");
    let calls = counting.take();
    assert!(of(&calls, "ReceiveMessage") <= 2, "{calls:?}");
    assert!(of(&calls, "TransactWriteItems") <= 10, "{calls:?}");
    assert_eq!(of(&calls, "Scan"), 0, "{calls:?}");
    eprintln!("ten warm ones: {calls:?}");
    Ok(())
}

/// The embedded engine offers no Scan at all; here it is seen that nobody asks for one.
#[tokio::test(flavor = "multi_thread")]
async fn no_use_case_scans() -> Result<()> {
    let (world, counting) = on_aws(1).await?;
    let caller = motorpool_control::Caller::Operator;
    let control = &world.control;
    let claim = world.provision("gh-1", 2).await?;
    world.agents_work().await?;
    world.claim(&claim).await?;
    control.why(&caller, &claim.claim).await?;
    control.list_pools(&caller).await?;
    let page = || motorpool_control::Page::first(10);
    control.list_claims(&caller, &pool()?, page()).await?;
    let runners = control.list_runners(&caller, &pool()?, None, page()).await?;
    let runner = runners.runners.first().context("no runner")?;
    control.view_runner(&caller, &runner.runner).await?;
    control.audit(&caller, runner.runner.as_str(), page()).await?;
    control.release(&caller, serde_json::from_value(json!({"workflow": "gh-1"}))?).await?;
    world.agents_work().await?;
    world.sweep().await?;
    let calls = counting.take();
    assert!(of(&calls, "Query") > 0 && of(&calls, "TransactWriteItems") > 0, "{calls:?}");
    assert_eq!(of(&calls, "Scan"), 0, "{calls:?}");
    Ok(())
}

/// On the embedded engine, where ten thousand records are made in seconds.
#[tokio::test(flavor = "multi_thread")]
async fn the_due_pass_costs_the_same_at_100_and_10_000_runners() -> Result<()> {
    let few = due_pass_among(100).await?;
    let many = due_pass_among(10_000).await?;
    assert_eq!(few, many);
    eprintln!("a pass with 10 due: {few:?}");
    Ok(())
}

/// The calls of one pass in which ten idle runners of so many have been idle for too long.
async fn due_pass_among(count: usize) -> Result<Calls> {
    let engine = EmbeddedEngine::in_memory()?;
    let (ledger, counting) = ledger_in(&engine).await?;
    let settings = json!({"max": 1_000, "heartbeat_seconds": 3600});
    let world = World::on(Arc::clone(&ledger), Arc::new(InProcessQueue::default()), settings).await?;
    world.refresh().await?;
    let now = world.now();
    let minutes = |number| Duration::from_secs(if number < 10 { 60 } else { 3600 });
    let runner = |number| seeded::idle(&pool()?, number, false, minutes(number), now);
    let runners = (0..count).map(runner).collect::<Result<Vec<_>>>()?;
    seeded::write(&ledger, &runners, now).await?;
    // Long enough for the first ten, not for the rest, and no sweep yet.
    world.clock.turn(Duration::from_secs(60));
    counting.take();
    let report = world.refresh().await?;
    anyhow::ensure!(report.examined == 10 && report.reaped == 10 && !report.swept, "{report:?}");
    Ok(counting.take())
}
