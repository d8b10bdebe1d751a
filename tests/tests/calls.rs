//! What the use cases cost in calls to AWS, counted at the connector: the figures of docs/benchmarks.md, each of them, and no other call.

use anyhow::{Context, Result, bail};
use motorpool_control::WhichRunners;
use motorpool_domain::runner::{Removal, StateName};
use motorpool_ledger::MemoryLedger;
use motorpool_ledger::dynamodb::{DynamoLedger, create_table_on_aws};
use motorpool_queues::{InProcessQueue, SqsQueues};
use motorpool_tests::fakes::counted::Counted;
use motorpool_tests::fakes::counting::Counting;
use motorpool_tests::harness::world::{World, pool};
use motorpool_tests::harness::{emulated_aws, seeded};
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

const BENCHMARKS: &str = include_str!("../../docs/benchmarks.md");

/// The page's row of this use case, in the table of calls to AWS.
fn documented(use_case: &str) -> Result<Calls> {
    let row = BENCHMARKS.lines().find(|line| line.starts_with(&format!("| {use_case} |")));
    let cells: Vec<&str> = row.context("no such row")?.trim_matches('|').split('|').map(str::trim).collect();
    let [_, receive, transactions, delete, reads] = cells[..] else { bail!("another table: {cells:?}") };
    let mut calls = listed(reads)?;
    for (operation, count) in
        [("ReceiveMessage", receive), ("TransactWriteItems", transactions), ("DeleteMessage", delete)]
    {
        calls.insert(operation.to_owned(), count.parse()?);
    }
    Ok(calls)
}

/// As in `3 GetItem, 1 Query`.
fn listed(calls: &str) -> Result<Calls> {
    let one = |call: &str| {
        let (count, operation) = call.split_once(' ').with_context(|| format!("not a count: {call:?}"))?;
        Ok((operation.to_owned(), count.parse()?))
    };
    calls.split(", ").map(one).collect()
}

fn of(calls: &Calls, operation: &str) -> u32 {
    calls.get(operation).copied().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_claim_costs_the_calls_that_the_benchmarks_page_tells() -> Result<()> {
    for count in [1, 10] {
        let (world, counting) = on_aws(count).await?;
        let claim = world.provision("gh-1", count).await?;
        assert!(claim.runners.iter().all(|member| member.warm) && claim.short == 0, "{claim:?}");
        assert_eq!(counting.take(), documented(&format!("warm claim of {count}"))?);
    }
    Ok(())
}

/// The port offers none; here it is seen that the adapter asks for none either.
#[tokio::test(flavor = "multi_thread")]
async fn no_use_case_scans() -> Result<()> {
    let (world, counting) = on_aws(3).await?;
    let caller = motorpool_control::Caller::Operator;
    let control = &world.control;
    let claim = world.provision("gh-1", 2).await?;
    world.agents_work().await?;
    world.claim(&claim).await?;
    control.why(&caller, &claim.claim).await?;
    control.list_pools(&caller).await?;
    let page = || motorpool_control::Page::first(10);
    control.list_claims(&caller, &pool()?, page()).await?;
    let runners = control.list_runners(&caller, &WhichRunners::of_pool(&pool()?, None), page()).await?;
    let runner = runners.runners.first().context("no runner")?;
    control.view_runner(&caller, &runner.runner).await?;
    control.audit(&caller, runner.runner.as_str(), page()).await?;
    control.ready().await?;
    control.view_pool(&caller, &pool()?).await?;
    let one = serde_json::from_value(json!({"workflow": "gh-2", "pool": "small"}))?;
    control.claim_now(&caller, one).await?;
    control.begin_listening().await?;
    control.announce_all_idle().await?;
    control.release(&caller, serde_json::from_value(json!({"workflow": "gh-1"}))?).await?;
    world.agents_work().await?;
    world.sweep().await?;
    let freed = world
        .control
        .list_runners(&caller, &WhichRunners::of_pool(&pool()?, Some(StateName::Idle)), page())
        .await?;
    let freed = freed.runners.first().context("no idle runner")?;
    control.rotate_token(&caller, &freed.runner).await?;
    control.remove_runner(&caller, &freed.runner, Removal::IfFree).await?;
    let calls = counting.take();
    assert!(of(&calls, "Query") > 0 && of(&calls, "TransactWriteItems") > 0, "{calls:?}");
    assert_eq!(of(&calls, "Scan"), 0, "{calls:?}");
    Ok(())
}

/// Counted at the port: ten thousand records are made in memory in a moment.
#[tokio::test(flavor = "multi_thread")]
async fn the_due_pass_costs_what_the_benchmarks_page_tells_at_100_and_10_000_runners() -> Result<()> {
    let told = BENCHMARKS.split_once("The calls: ").and_then(|(_, rest)| rest.split_once(". "));
    let told = listed(told.context("the page lists no calls of refresh")?.0)?;
    let all: u32 = told.values().sum();
    for records in [100, 1_000, 10_000, 100_000] {
        let row = format!("| {records} | {all} | ");
        assert!(BENCHMARKS.contains(&row), "the page's table has other calls than its list: no {row:?}");
    }
    assert_eq!(due_pass_among(100).await?, told);
    assert_eq!(due_pass_among(10_000).await?, told);
    Ok(())
}

/// The calls of one pass in which ten idle runners of so many have been idle for too long.
async fn due_pass_among(count: usize) -> Result<Calls> {
    let counted = Counted::new(Arc::new(MemoryLedger::new()));
    let settings = json!({"max": 1_000, "heartbeat_seconds": 3600});
    let world = World::on(Arc::new(counted.clone()), Arc::new(InProcessQueue::default()), settings).await?;
    world.refresh().await?;
    let now = world.now();
    let minutes = |number| Duration::from_secs(if number < 10 { 60 } else { 3600 });
    let runner = |number| seeded::idle(&pool()?, number, false, minutes(number), now);
    let runners = (0..count).map(runner).collect::<Result<Vec<_>>>()?;
    seeded::write(&world.store, &runners, now).await?;
    // Long enough for the first ten, not for the rest, and no sweep yet.
    world.clock.turn(Duration::from_secs(60));
    counted.take();
    let report = world.refresh().await?;
    anyhow::ensure!(report.examined == 10 && report.reaped == 10 && !report.swept, "{report:?}");
    Ok(counted.take().into_iter().map(|(method, count)| (method.to_owned(), count)).collect())
}
