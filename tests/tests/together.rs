//! Two serves and the functions on one ledger, with local machines at both serves: what one begins another goes on with, nobody
//! touches a machine of another host, and whoever is killed leaves no work undone.

use anyhow::{Context, Result, ensure};
use motorpool_tests::harness::api::Api;
use motorpool_tests::harness::books;
use motorpool_tests::harness::functions_target::{Functions, SharedLedger};
use motorpool_tests::harness::serve::Serve;
use motorpool_tests::harness::wait::until;
use rustix::process::Signal;
use serde_json::{Value, json};

const POOLS: &str = r#"
    refresh_seconds = 1
    sweep_seconds = 5
    [pools.small]
    backend = "local"
    max = 6
    heartbeat_seconds = 3
    [pools.metal]
    backend = "bare_metal"
    max = 5
    cleanup_cmd = "true"
    wait_seconds = 2
"#;

#[tokio::test(flavor = "multi_thread")]
async fn two_serves_and_functions_work_together_on_one_ledger() -> Result<()> {
    let ledger = SharedLedger::fresh();
    let mut first = Serve::start_on(&ledger, POOLS)?;
    let second = Serve::start_on(&ledger, POOLS)?;
    let functions = Functions::deploy(&ledger, &json!({"refresh_seconds": 1, "sweep_seconds": 5})).await?;
    let outcome = work_together(&mut first, &second, &functions).await;
    functions.end().await.context("the functions' end")?;
    outcome.with_context(|| {
        format!("--- the first serve's log ---\n{}\n--- the second's ---\n{}", first.log(), second.log())
    })
}

async fn work_together(first: &mut Serve, second: &Serve, functions: &Functions) -> Result<()> {
    what_one_provisions_another_releases([first.api(), functions.api(), second.api()])
        .await
        .context("in turn")?;
    machines_of_another_host_are_left_alone(first, second, functions).await.context("machines")?;
    who_is_killed_leaves_no_work_undone(first, second, functions).await.context("one killed")?;
    for api in [first.api(), second.api(), functions.api()] {
        for pool in ["small", "metal"] {
            books::agree(api, pool).await.with_context(|| format!("{pool} at {}", api.base()))?;
        }
    }
    Ok(())
}

/// Each of the three provisions once, another one follows the claim to its runner, and the third releases it.
async fn what_one_provisions_another_releases(planes: [&Api; 3]) -> Result<()> {
    for turn in 0..3 {
        let [provisions, follows, releases] = [0, 1, 2].map(|place| planes[(turn + place) % 3]);
        let workflow = format!("turn-{turn}");
        let opened = provisions.provision(&workflow, "small", 1).await?;
        let ready = settled(follows, &opened).await?;
        ensure!(ready["state"] == "ready" && ready["runners"][0]["state"] == "running", "{ready}");
        ensure!(
            provisions.provision(&workflow, "small", 1).await?["claim"] == opened["claim"],
            "the same again"
        );
        let released = releases.release(&workflow).await?;
        ensure!(released["state"] == "released" && released["claim"] == opened["claim"], "{released}");
        in_state(provisions, &member(&ready)?, "idle").await?;
    }
    Ok(())
}

/// A machine at the first serve lives through passes and sweeps of the others, held and idle.
async fn machines_of_another_host_are_left_alone(
    first: &Serve,
    second: &Serve,
    functions: &Functions,
) -> Result<()> {
    // As many as there can be: some of them are the first serve's, whoever launched those that are idle already.
    let opened = first.api().provision("all", "small", 6).await?;
    let ready = settled(first.api(), &opened).await?;
    let its_own: Vec<String> =
        books::members(&ready)?.into_iter().filter(|runner| first.agent_pid(runner).is_some()).collect();
    ensure!(!its_own.is_empty(), "the first serve has launched nothing: {ready}");
    others_refresh(second, functions).await?;
    for runner in &its_own {
        let seen = second.api().runner(runner).await?;
        ensure!(seen["state"] == "running" && seen["claim"] == ready["claim"], "{seen}");
        ensure!(!first.processes_of(runner).is_empty(), "{runner} has lost its agent");
        ensure!(!second.runner_dir(runner).exists(), "{runner} is at the second serve as well");
    }
    second.api().release("all").await?;
    for runner in &its_own {
        in_state(second.api(), runner, "idle").await?;
    }
    others_refresh(second, functions).await?;
    for runner in &its_own {
        let seen = functions.api().runner(runner).await?;
        ensure!(seen["state"] == "idle" && !first.processes_of(runner).is_empty(), "{seen}");
    }
    Ok(())
}

async fn others_refresh(second: &Serve, functions: &Functions) -> Result<()> {
    for _ in 0..3 {
        let swept = second.api().post("refresh?sweep=now", json!({})).await?.expect(200)?;
        ensure!(swept["swept"] == true, "{swept}");
        functions.refresh().await?;
        functions.api().post("refresh?sweep=now", json!({})).await?.expect(200)?;
    }
    Ok(())
}

/// A claim whose time is over is ended by whoever is left: the other serve's ticker, or the functions' schedule. Listing claims
/// moves none of them on.
async fn who_is_killed_leaves_no_work_undone(
    first: &mut Serve,
    second: &Serve,
    functions: &Functions,
) -> Result<()> {
    first.api().provision("of-the-killed", "metal", 1).await?;
    first.kill()?;
    until("the second serve has ended the claim", async || {
        Ok(has_failed(second.api(), "of-the-killed").await?.then_some(()))
    })
    .await?;

    second.api().provision("of-the-frozen", "metal", 1).await?;
    second.signal(Signal::STOP)?;
    let ended = until("the functions have ended the claim", async || {
        functions.refresh().await?;
        Ok(has_failed(functions.api(), "of-the-frozen").await?.then_some(()))
    });
    let ended = ended.await;
    second.signal(Signal::CONT)?;
    ended?;

    // It comes back to its machines: what was given up meanwhile is ended, and what was not is there.
    first.start_again()?;
    until("nothing is half done", async || {
        let live = books::live(first.api(), "small").await?;
        Ok(live.iter().all(|runner| runner["state"] == "idle").then_some(()))
    })
    .await
}

async fn has_failed(api: &Api, workflow: &str) -> Result<bool> {
    let claims = books::claims(api, "metal").await?;
    let claim = claims.iter().find(|claim| claim["workflow"] == workflow).context("the claim is listed")?;
    Ok(claim["state"] == "failed")
}

async fn settled(api: &Api, claim: &Value) -> Result<Value> {
    let id = claim["claim"].as_str().context("a claim")?;
    until(&format!("claim {id} is no longer pending"), async || {
        let claim = api.get(&format!("claims/{id}?wait=20")).await?.expect(200)?;
        Ok((claim["state"] != "pending").then_some(claim))
    })
    .await
}

async fn in_state(api: &Api, runner: &str, state: &str) -> Result<()> {
    until(&format!("{runner} is {state}"), async || {
        Ok((api.runner(runner).await?["state"] == state).then_some(()))
    })
    .await
}

fn member(claim: &Value) -> Result<String> {
    Ok(books::members(claim)?.first().context("a runner")?.clone())
}
