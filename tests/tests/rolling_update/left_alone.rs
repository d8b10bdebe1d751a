//! Records that this version can't read, in every place where it looks: passes, lists and claims go on without them, nobody takes them for
//! missing, and they stay byte for byte as they are.

use crate::fixtures::Kept;
use crate::records::id;
use crate::shared::{LeftAlone, on_each_ledger, only_runner, ready, release};
use anyhow::{Result, ensure};
use motorpool_control::ports::tx::Row;
use motorpool_control::{Caller, Page, WhichRunners};
use motorpool_domain::alert::Alert;
use motorpool_domain::claim::{Claim, ClaimName};
use motorpool_domain::pool::{PoolRecord, PoolShortage};
use motorpool_domain::record::{Key, Kind, Path, Place, Version, padded};
use motorpool_domain::refresh::RefreshMemory;
use motorpool_domain::runner::{Runner, RunnerState, StateName, live_runners};
use motorpool_domain::{RunnerId, Timestamp};
use motorpool_tests::harness::world::{World, pool};
use motorpool_wire::api::ClaimView;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn inv_35_fault_29_records_of_a_newer_version_are_left_as_they_are_and_hold_up_nothing() -> Result<()> {
    on_each_ledger(async |world: &World| {
        let first = ready(world, "gh-1").await?;
        let left = LeftAlone::put(world.ledger.as_ref(), of_a_newer_version()?).await?;
        all_goes_on(world, &first).await?;
        left.as_before(world.ledger.as_ref()).await
    })
    .await
}

#[tokio::test]
async fn inv_35_a_record_of_an_unknown_kind_among_the_due_holds_up_nothing() -> Result<()> {
    on_each_ledger(async |world: &World| {
        let first = ready(world, "gh-1").await?;
        let left = LeftAlone::put(world.ledger.as_ref(), of_unknown_kinds()).await?;
        all_goes_on(world, &first).await?;
        left.as_before(world.ledger.as_ref()).await
    })
    .await
}

#[tokio::test]
async fn inv_35_a_record_that_is_no_json_is_left_as_it_is_and_holds_up_nothing() -> Result<()> {
    on_each_ledger(async |world: &World| {
        let first = ready(world, "gh-1").await?;
        let broken = |row: Row| Row { schema: 1, doc: "{\"id\": \"r-new".to_owned(), ..row };
        let rows = of_a_newer_version()?.into_iter().map(broken).collect();
        let left = LeftAlone::put(world.ledger.as_ref(), rows).await?;
        all_goes_on(world, &first).await?;
        left.as_before(world.ledger.as_ref()).await
    })
    .await
}

/// One of each kind, and a runner in a state that only the newer version has.
fn of_a_newer_version() -> Result<Vec<Row>> {
    let in_a_new_state = Kept::read("newer/runner_in_a_new_state")?;
    let runner = Kept::read("newer/runner")?.row::<Runner>()?;
    let entry = Kept::read("newer/log_entry")?;
    let at = padded(Timestamp::from_millis(1_699_999_900_000));
    Ok(vec![
        Row {
            path: Key::from(&id::<RunnerId>("r-other")).into(),
            version: Version { state: "checkpointed".to_owned(), epoch: 3, rev: 7 },
            schema: in_a_new_state.schema,
            doc: in_a_new_state.doc.to_string(),
            places: vec![Place { list: live_runners(&pool()?), sort: "checkpointed#r-other".to_owned() }],
            ..runner.clone()
        },
        runner,
        Kept::read("newer/claim")?.row::<Claim>()?,
        Kept::read("newer/claim_name")?.row::<ClaimName>()?,
        Kept::read("newer/pool")?.row::<PoolRecord>()?,
        Kept::read("newer/shortage")?.row::<PoolShortage>()?,
        Kept::read("newer/refresh_memory")?.row::<RefreshMemory>()?,
        Kept::read("newer/alert")?.row::<Alert>()?,
        Row {
            path: Path::child(Key::from(&pool()?), format!("log#{at}#0000000000.0000000009")),
            version: Version::default(),
            schema: entry.schema,
            doc: entry.doc.to_string(),
            due: None,
            places: Vec::new(),
            lists: 0,
            kept_until: None,
        },
    ])
}

/// By itself, under a key, and under the key of a kind that is known.
fn of_unknown_kinds() -> Vec<Row> {
    let checkpoint = Key::new(Kind::new("checkpoint"), "cp-1");
    let due = |path: Path| Row {
        path,
        version: Version { state: "created".to_owned(), epoch: 0, rev: 1 },
        schema: 1,
        doc: json!({"name": "cp-1", "nonce": "7f3a"}).to_string(),
        due: Some(Timestamp::from_millis(1_699_999_990_000)),
        places: Vec::new(),
        lists: 0,
        kept_until: None,
    };
    vec![
        due(checkpoint.clone().into()),
        due(Path::child(checkpoint, "step#1")),
        due(Path::child(Key::from(&id::<RunnerId>("r-newer")), "lease#1")),
        // Its kind is known, its name is none that this version would give.
        due(Key::new(Kind::new("runner"), "R/1").into()),
    ]
}

/// Everything that goes through many records, with `first` ready, and nothing else of this version's.
async fn all_goes_on(world: &World, first: &ClaimView) -> Result<()> {
    let report = world.refresh().await?;
    ensure!(report.examined > 0, "what can't be read is among the due: {report:?}");
    ensure!(world.sweep().await?.swept, "the sweep comes to its end");
    ensure!(listed_runners(world).await? == [only_runner(first)?], "the list of runners");
    ensure!(listed_claims(world).await? == [first.claim.to_string()], "the list of claims");
    let pools = world.control.list_pools(&Caller::Operator).await?.pools;
    ensure!(pools.iter().map(|view| &view.pool).eq([&pool()?]), "the list of pools: {pools:?}");
    let log = world.store.audit(&Key::from(&pool()?), Page::first(10)).await?.items;
    ensure!(log.iter().map(|entry| entry.what.as_str()).eq(["pool defined"]), "the pool's log: {log:?}");

    let second = ready(world, "gh-2").await?;
    release(world, "gh-1").await?;
    world.agents_work().await?;
    let freed = world.runner(&only_runner(first)?).await?;
    ensure!(freed.state == RunnerState::Idle, "{freed:?}");
    world.clock.turn(Duration::from_secs(30));
    world.agents_work().await?;
    world.refresh().await?;
    let third = world.provision("gh-3", 1).await?;
    ensure!(only_runner(&third)? == freed.id, "the idle one is taken: {third:?}");
    ensure!(world.claim(&second).await?.state == "ready");
    // A dead machine is found and its claim is given another, beside all that can't be read.
    world.machines.die(&only_runner(&second)?);
    world.sweep().await?;
    let dead = world.runner(&only_runner(&second)?).await?;
    ensure!(dead.state.name() == StateName::Terminated, "{dead:?}");
    ensure!(only_runner(&world.claim(&second).await?)? != dead.id);
    Ok(())
}

/// Page by page, so that a page also ends with each that can't be read.
async fn listed_runners(world: &World) -> Result<Vec<RunnerId>> {
    let (mut all, mut page) = (Vec::new(), Page::first(1));
    loop {
        let listed = world
            .control
            .list_runners(&Caller::Operator, &WhichRunners::of_pool(&pool()?, None), page)
            .await?;
        all.extend(listed.runners.into_iter().map(|view| view.runner));
        let Some(next) = listed.next else { return Ok(all) };
        page = Page { at_most: 1, after: Some(next) };
    }
}

async fn listed_claims(world: &World) -> Result<Vec<String>> {
    let (mut all, mut page) = (Vec::new(), Page::first(1));
    loop {
        let listed = world.control.list_claims(&Caller::Operator, &pool()?, page).await?;
        all.extend(listed.claims.into_iter().map(|view| view.claim.to_string()));
        let Some(next) = listed.next else { return Ok(all) };
        page = Page { at_most: 1, after: Some(next) };
    }
}
