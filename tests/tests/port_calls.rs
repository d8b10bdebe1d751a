//! What each use case costs in calls at the ledger's port, held against the table of docs/benchmarks.md.

use anyhow::{Context, Result, ensure};
use motorpool_control::Caller;
use motorpool_domain::Owner;
use motorpool_ledger::MemoryLedger;
use motorpool_queues::InProcessQueue;
use motorpool_tests::fakes::counted::Counted;
use motorpool_tests::harness::seeded;
use motorpool_tests::harness::world::{World, pool};
use motorpool_wire::api::ClaimView;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const BENCHMARKS: &str = include_str!("../../docs/benchmarks.md");

/// A world whose ledger is counted, with so many idle runners.
async fn world(idle: u32) -> Result<(World, Counted)> {
    let counted = Counted::new(Arc::new(MemoryLedger::new()));
    let settings = json!({"max": 20, "min_idle": idle, "idle_minutes": 60});
    let world = World::on(Arc::new(counted.clone()), Arc::new(InProcessQueue::default()), settings).await?;
    world.refresh().await?;
    world.agents_work().await?;
    counted.take();
    Ok((world, counted))
}

/// As the page tells it: `2 get, 1 list`.
fn in_words(counted: &Counted) -> String {
    let calls: Vec<String> =
        counted.take().iter().map(|(method, count)| format!("{count} {method}")).collect();
    calls.join(", ")
}

/// The calls of each use case, by the page's name for it.
async fn all() -> Result<BTreeMap<&'static str, String>> {
    let mut calls = BTreeMap::new();
    for (name, count) in [("a warm claim of 1", 1), ("a warm claim of 10", 10)] {
        let (world, counted) = world(count).await?;
        let claim = world.provision("gh-1", count).await?;
        ensure!(claim.runners.iter().all(|member| member.warm) && claim.short == 0, "{claim:?}");
        calls.insert(name, in_words(&counted));
    }
    let (of_team, counted) = world(1).await?;
    let team = Caller::Team(Owner::parse("web")?);
    let claim = of_team.provision_as(&team, "gh-1", 1).await?;
    ensure!(claim.runners.iter().all(|member| member.warm) && claim.short == 0, "{claim:?}");
    calls.insert("a warm claim of 1 by a team", in_words(&counted));
    let (world, counted) = world(0).await?;
    let claim = world.provision("gh-1", 1).await?;
    calls.insert("a cold provision of 1", in_words(&counted));
    life_of_one(&world, &counted, &claim, &mut calls).await?;
    job_of_one(&mut calls).await?;
    Ok(calls)
}

/// A job on a machine whose CI system hands out its work.
async fn job_of_one(calls: &mut BTreeMap<&'static str, String>) -> Result<()> {
    let counted = Counted::new(Arc::new(MemoryLedger::new()));
    let settings =
        json!({"backend": "bare_metal", "dispatch": "hook", "clean": "cleanup", "cleanup_cmd": "true"});
    let world = World::on(Arc::new(counted.clone()), Arc::new(InProcessQueue::default()), settings).await?;
    let machine = seeded::idle(&pool()?, 1, true, Duration::from_secs(3600), world.now())?;
    let token = seeded::token(&machine.id);
    let machines = [machine];
    seeded::write(&world.store, &machines, world.now()).await?;
    seeded::write_tokens(&world.store, &machines, world.now()).await?;
    counted.take();
    let job = serde_json::from_value(json!({"job_id": "1"}))?;
    let created = world.control.create_checkpoint(&token, job).await?;
    calls.insert("a create of a job's checkpoint", in_words(&counted));
    let ended = serde_json::from_value(json!({"checkpoint_name": created.name, "status": "success"}))?;
    let answer = world.control.finalize_checkpoint(&token, &ended).await?;
    ensure!(answer.detail == "Finalize queued", "{answer:?}");
    calls.insert("a finalize of a job's checkpoint", in_words(&counted));
    Ok(())
}

/// From its agent's first words to its being idle again.
async fn life_of_one(
    world: &World,
    counted: &Counted,
    claim: &ClaimView,
    calls: &mut BTreeMap<&'static str, String>,
) -> Result<()> {
    let id = &claim.runners.first().context("no runner")?.runner;
    let state = |claim: &ClaimView| claim.state.clone();
    world.agent_syncs(id).await?;
    // Prepared, and told to register.
    world.agent_syncs(id).await?;
    counted.take();
    let answer = world.agent_syncs(id).await?;
    ensure!(answer.state.as_str() == "running", "{answer:?}");
    calls.insert("a sync that becomes running, the last of its claim", in_words(counted));
    let ready = world.claim(claim).await?;
    ensure!(state(&ready) == "ready", "{ready:?}");
    calls.insert("a look at a ready claim", in_words(counted));
    world.clock.turn(Duration::from_secs(15));
    counted.take();
    world.agent_syncs(id).await?;
    calls.insert("a sync that says nothing new", in_words(counted));
    world.refresh().await?;
    counted.take();
    world.refresh().await?;
    calls.insert("a refresh with nothing due", in_words(counted));
    let request = serde_json::from_value(json!({"workflow": "gh-1"}))?;
    let released = world.control.release(&Caller::Operator, request).await?;
    ensure!(state(&released) == "released", "{released:?}");
    calls.insert("a release of 1", in_words(counted));
    world.agent_syncs(id).await?;
    counted.take();
    let answer = world.agent_syncs(id).await?;
    ensure!(answer.state.as_str() == "resetting", "{answer:?}");
    calls.insert("a sync that is deregistered", in_words(counted));
    let answer = world.agent_syncs(id).await?;
    ensure!(answer.state.as_str() == "idle", "{answer:?}");
    calls.insert("a sync that proves a clean machine", in_words(counted));
    Ok(())
}

#[tokio::test]
async fn every_use_case_costs_the_calls_at_the_port_that_the_benchmarks_page_tells() -> Result<()> {
    let (_, table) = BENCHMARKS.split_once("## Calls at the ledger's port").context("no such section")?;
    let rows = table
        .lines()
        .skip_while(|line| !line.starts_with("| a "))
        .take_while(|line| line.starts_with("| a "));
    let told: BTreeMap<&str, String> = rows
        .filter_map(|row| {
            let mut cells = row.trim_matches('|').split('|').map(str::trim);
            let (name, _before, now) = (cells.next()?, cells.next()?, cells.next()?);
            Some((name, now.to_owned()))
        })
        .collect();
    assert_eq!(all().await?, told);
    Ok(())
}
