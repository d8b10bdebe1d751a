//! Each state's threshold, and silence, with real agents that are frozen: refresh alone ends it as the state table says, its slot
//! is given back, and no process is left. `refresh_seconds` is an hour: every pass here is one that the test asked for.

use anyhow::{Context, Result, ensure};
use motorpool_tests::harness::serve::Serve;
use motorpool_tests::harness::story::{
    audit, comes_to, idle, must_be_gone, must_have_ended, must_have_stepped, ready, refreshed_to,
    refreshed_until, state, steps_by_refresh, text, used,
};
use motorpool_tests::harness::wait::until;
use rustix::process::Signal;
use serde_json::{Value, json};

/// One pool `p` with short heartbeats, and what the test adds to it.
fn serve(more: &str) -> Result<Serve> {
    Serve::start(&format!(
        "refresh_seconds = 3600\nsweep_seconds = 86400\n\
         [pools.p]\nbackend = \"local\"\nheartbeat_seconds = 1\n{more}"
    ))
}

/// The only runner of the pool, in this state.
async fn only(serve: &Serve, wanted: &str) -> Result<String> {
    until(&format!("the pool's only runner is {wanted}"), async || {
        let runners = serve.api().runners("p").await?;
        ensure!(runners.len() < 2, "there are more runners: {runners:?}");
        let here = runners.first().filter(|runner| runner["state"] == wanted);
        here.map(|runner| text(runner, "runner")).transpose()
    })
    .await
}

async fn works(serve: &Serve, runner: &str, processes: usize) -> Result<()> {
    until(&format!("{runner} has {processes} processes"), async || {
        Ok((serve.processes_of(runner).len() >= processes).then_some(()))
    })
    .await
}

const LATE: &str =
    "it did not become ready in time: its agent joined, but its preparation or registration did not end";

#[tokio::test(flavor = "multi_thread")]
async fn created_is_terminated_and_its_claim_gets_another() -> Result<()> {
    let serve = serve("max = 1\ncreated_seconds = 6\npre_runner_cmd = \"setsid sleep 7001 & sleep 7002\"")?;
    let api = serve.api();
    let claim = text(&api.provision("w", "p", 1).await?, "claim")?;
    let first = only(&serve, "created").await?;
    // Agent, supervisor, shell, and its two children.
    works(&serve, &first, 5).await?;
    serve.signal_agent(&first, Signal::STOP)?;
    refreshed_to(api, &first, "terminated").await?;
    must_have_ended(&serve, &first, "created@1", LATE).await?;

    // The pool has one slot: that there is a second runner shows that the first gave it back.
    let second = only(&serve, "created").await?;
    let seen = api.runner(&second).await?;
    ensure!(second != first && seen["claim"] == claim && used(api, "p").await? == 1, "{seen}");
    api.release("w").await?;
    let seen = api.runner(&second).await?;
    ensure!(seen["state"] == "created" && seen["claim"].is_null(), "{seen}");
    works(&serve, &second, 5).await?;
    serve.signal_agent(&second, Signal::STOP)?;
    refreshed_to(api, &second, "terminated").await?;
    must_have_ended(&serve, &second, "created@1", LATE).await?;
    ensure!(used(api, "p").await? == 0, "the slot was not given back");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_is_terminated_at_its_threshold() -> Result<()> {
    let serve = serve("max = 1\nidle_seconds = 2")?;
    let runner = idle(serve.api(), "p", 1).await?.remove(0);
    serve.signal_agent(&runner, Signal::STOP)?;
    refreshed_to(serve.api(), &runner, "terminated").await?;
    must_have_ended(&serve, &runner, "idle@2", "nobody claimed it in time").await?;
    ensure!(used(serve.api(), "p").await? == 0, "the slot was not given back");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_is_terminated_when_it_is_silent() -> Result<()> {
    let serve = serve("max = 1")?;
    let runner = idle(serve.api(), "p", 1).await?.remove(0);
    serve.signal_agent(&runner, Signal::STOP)?;
    refreshed_to(serve.api(), &runner, "terminated").await?;
    must_have_ended(&serve, &runner, "idle@2", "its agent fell silent while idle").await?;
    ensure!(used(serve.api(), "p").await? == 0, "the slot was not given back");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_stays_as_long_as_min_idle_needs_it_and_the_surplus_goes() -> Result<()> {
    let serve = serve("max = 3\nmin_idle = 1\nidle_seconds = 3")?;
    let api = serve.api();
    // Beside the one that the first pass launches for `min_idle`, if it does not take that one.
    let mut runners = idle(api, "p", 2).await?;
    for seen in api.runners("p").await? {
        let runner = text(&seen, "runner")?;
        comes_to(api, &runner, "idle").await?;
        if !runners.contains(&runner) {
            runners.push(runner);
        }
    }
    let wanted = "still wanted in the pool";
    let alone = async || {
        let left = api.runners("p").await?;
        ensure!(!left.is_empty(), "none is left");
        let (1, Some(last)) = (left.len(), left.first()) else { return Ok(None) };
        let (runner, epoch) = (text(last, "runner")?, &last["epoch"]);
        let here = format!("idle@{epoch}");
        Ok((steps_by_refresh(api, &runner, &here, &here, wanted).await? >= 2).then_some(runner))
    };
    let (last, _) = refreshed_until(api, "only one is left, beyond its threshold", alone).await?;
    ensure!(runners.contains(&last), "{last} is new: the pool let go of one that it needed");
    for runner in runners.iter().filter(|runner| **runner != last) {
        let seen = api.runner(runner).await?;
        let from = format!("idle@{}", seen["epoch"]);
        must_have_ended(&serve, runner, &from, "nobody claimed it in time").await?;
    }
    ensure!(used(api, "p").await? == 1, "{:?}", api.pool("p").await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn claimed_is_terminated_and_its_claim_picks_again() -> Result<()> {
    let serve = serve("max = 1\nclaimed_seconds = 2")?;
    let api = serve.api();
    let runner = idle(api, "p", 1).await?.remove(0);
    // So shortly after its last word nobody takes it for silent, and it is taken.
    serve.signal_agent(&runner, Signal::STOP)?;
    let claim = text(&api.provision("w", "p", 1).await?, "claim")?;
    let seen = api.runner(&runner).await?;
    ensure!(seen["state"] == "claimed" && seen["claim"] == claim, "{seen}");
    refreshed_to(api, &runner, "terminated").await?;
    must_have_ended(&serve, &runner, "claimed@2", "it did not register in time").await?;

    let second = only(&serve, "running").await?;
    let seen = api.claim(&claim).await?;
    ensure!(seen["state"] == "ready" && seen["runners"][0]["runner"] == second, "{seen}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn claimed_with_a_registration_that_never_ends_is_terminated() -> Result<()> {
    let serve = serve(
        "max = 1\nclaimed_seconds = 2\n\
         register_cmd = 'test \"$MOTORPOOL_EPOCH\" = 1 || { setsid sleep 7001 & sleep 7002; }'",
    )?;
    let api = serve.api();
    let runner = idle(api, "p", 1).await?.remove(0);
    let claim = text(&api.provision("w", "p", 1).await?, "claim")?;
    // By its agent, which ends the command at the threshold and says so, or by refresh: whoever comes first.
    refreshed_to(api, &runner, "terminated").await?;
    must_be_gone(&serve, &runner)?;
    only(&serve, "running").await?;
    let seen = api.claim(&claim).await?;
    ensure!(seen["state"] == "ready" && seen["runners"][0]["warm"] == false, "{seen}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn running_is_terminated_with_its_claim_and_nothing_is_refilled() -> Result<()> {
    let serve = serve("max = 2\nmax_runtime_seconds = 6\nrun_cmd = \"setsid sleep 7001 & sleep 7002\"")?;
    let api = serve.api();
    let held = ready(api, "w", "p", 1).await?;
    let runner = held.runners.first().context("no runner")?;
    works(&serve, runner, 5).await?;
    serve.signal_agent(runner, Signal::STOP)?;
    refreshed_to(api, runner, "terminated").await?;
    must_have_ended(&serve, runner, "running@1", "its holder's time was over").await?;
    let entries = audit(api, &held.claim).await?;
    let over = |entry: &Value| entry["to"] == "released" && entry["why"] == "its time was over";
    ensure!(entries.iter().any(over), "{entries:?}");
    let seen = api.claim(&held.claim).await?;
    ensure!(seen["state"] == "released" && seen["why"] == "its time was over", "{seen}");
    ensure!(used(api, "p").await? == 0, "something was refilled: {:?}", api.runners("p").await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn running_and_silent_waits_while_its_machine_is_there_and_is_replaced_when_it_is_gone() -> Result<()> {
    let serve = serve("max = 1")?;
    let api = serve.api();
    let held = ready(api, "w", "p", 1).await?;
    let runner = held.runners.first().context("no runner")?;
    serve.signal_agent(runner, Signal::STOP)?;
    // By then it is silent, and a pass has looked.
    refreshed_until(api, "it is silent", async || {
        Ok(api.runner(runner).await?["seen_ms_ago"].as_u64().filter(|ago| *ago > 6_000))
    })
    .await?;
    ensure!(state(api, runner).await? == "running", "{}", api.runner(runner).await?);

    serve.signal_agent(runner, Signal::KILL)?;
    refreshed_to(api, runner, "terminated").await?;
    must_have_stepped(api, runner, "running@1", "terminated@1", "its machine is gone").await?;
    let second = only(&serve, "running").await?;
    let seen = api.claim(&held.claim).await?;
    ensure!(seen["state"] == "ready" && seen["runners"][0]["runner"] == second, "{seen}");
    // Its directory is what an inventory still finds.
    api.post("refresh?sweep=now", json!({})).await?.expect(200)?;
    must_be_gone(&serve, runner)
}

#[tokio::test(flavor = "multi_thread")]
async fn releasing_is_terminated() -> Result<()> {
    let serve = serve("max = 1\nreleasing_seconds = 2\nrun_cmd = \"setsid sleep 7001 & sleep 7002\"")?;
    let api = serve.api();
    let runner = ready(api, "w", "p", 1).await?.runners.remove(0);
    works(&serve, &runner, 5).await?;
    serve.signal_agent(&runner, Signal::STOP)?;
    api.release("w").await?;
    ensure!(state(api, &runner).await? == "releasing");
    refreshed_to(api, &runner, "terminated").await?;
    must_have_ended(&serve, &runner, "releasing@1", "it did not deregister in time").await?;
    ensure!(used(api, "p").await? == 0, "the slot was not given back");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn releasing_with_a_deregistration_that_never_ends_is_terminated() -> Result<()> {
    let serve = serve("max = 1\nreleasing_seconds = 2\nderegister_cmd = \"setsid sleep 7001 & sleep 7002\"")?;
    let api = serve.api();
    let runner = ready(api, "w", "p", 1).await?.runners.remove(0);
    api.release("w").await?;
    // By its agent, which ends the command at the threshold and says so, or by refresh: whoever comes first.
    refreshed_to(api, &runner, "terminated").await?;
    must_be_gone(&serve, &runner)?;
    ensure!(used(api, "p").await? == 0, "the slot was not given back");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn resetting_is_tried_again_then_quarantined_and_there_it_stays() -> Result<()> {
    let serve = serve("max = 1\nresetting_seconds = 2\ncleanup_cmd = \"setsid sleep 7001 & sleep 7002\"")?;
    let api = serve.api();
    let runner = ready(api, "w", "p", 1).await?.runners.remove(0);
    api.release("w").await?;
    comes_to(api, &runner, "resetting").await?;
    serve.signal_agent(&runner, Signal::STOP)?;
    refreshed_to(api, &runner, "quarantined").await?;
    let again =
        steps_by_refresh(api, &runner, "resetting@2", "resetting@2", "cleaning again: it took too long");
    ensure!(again.await? == 2, "{:?}", audit(api, &runner).await?);
    let why = "it could not be cleaned in 3 attempts: it took too long";
    must_have_stepped(api, &runner, "resetting@2", "quarantined@2", why).await?;
    let agent = serve.agent_pid(&runner).context("it has no agent")?;
    let left = serve.processes_of(&runner);
    ensure!(left == [agent.as_raw_nonzero().get()], "of its work is left: {left:?}");

    for _ in 0..3 {
        api.post("refresh?sweep=now", json!({})).await?.expect(200)?;
    }
    let seen = api.runner(&runner).await?;
    ensure!(seen["state"] == "quarantined" && seen["threshold_in_ms"].is_null(), "{seen}");
    ensure!(used(api, "p").await? == 1, "a quarantined runner has its slot");
    api.delete(&format!("runners/{runner}")).await?.expect(202)?;
    comes_to(api, &runner, "terminated").await?;
    must_be_gone(&serve, &runner)?;
    ensure!(used(api, "p").await? == 0, "the slot was not given back");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cleanup_that_fails_is_tried_again_with_backoff_and_a_person_brings_it_back() -> Result<()> {
    let serve = serve("max = 1\ncleanup_cmd = 'echo no soap; test -e \"$MOTORPOOL_RUNNER_DIR/../../soap\"'")?;
    let api = serve.api();
    let runner = ready(api, "w", "p", 1).await?.runners.remove(0);
    api.release("w").await?;
    comes_to(api, &runner, "quarantined").await?;
    let why = "it could not be cleaned in 3 attempts: it ended with exit code 1: no soap";
    let seen = api.runner(&runner).await?;
    ensure!(seen["why"] == why, "{seen}");
    let entries = audit(api, &runner).await?;
    let mut failed_at: Vec<u64> = entries
        .iter()
        .filter(|entry| entry["from"] == "resetting@2")
        // Its agent changes its token, too.
        .filter(|entry| entry["why"].as_str().is_some_and(|why| why.contains("no soap")))
        .filter_map(|entry| entry["at"].as_u64())
        .collect();
    failed_at.sort_unstable();
    let pauses: Vec<u64> = failed_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    ensure!(pauses.len() == 2 && pauses[0] >= 1_000 && pauses[1] >= 2_000, "no backoff: {entries:?}");

    std::fs::write(serve.data_dir().join("soap"), "")?;
    api.post(&format!("runners/{runner}/release"), json!({})).await?.expect(202)?;
    comes_to(api, &runner, "idle").await?;
    let seen = api.runner(&runner).await?;
    ensure!(seen["proof"] == "its cleanup succeeded" && seen["epoch"] == 3, "{seen}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn terminating_tells_the_provider_again_until_the_machine_is_gone() -> Result<()> {
    let serve = serve("max = 1\nterminating_seconds = 1")?;
    let api = serve.api();
    let runner = idle(api, "p", 1).await?.remove(0);
    // A machine that can't be ended: whoever holds its lock counts as its agent, and no signal reaches this test.
    let lock = std::fs::File::open(serve.runner_dir(&runner).join("agent.lock"))?;
    serve.signal_agent(&runner, Signal::KILL)?;
    let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await??;
    api.delete(&format!("runners/{runner}")).await?.expect(202)?;
    ensure!(state(api, &runner).await? == "terminating" && used(api, "p").await? == 1);

    let again = "telling the provider again";
    let told = async || {
        let told = steps_by_refresh(api, &runner, "terminating@2", "terminating@2", again).await?;
        Ok((told > 0).then_some(()))
    };
    refreshed_until(api, "the provider is told again", told).await?;
    ensure!(state(api, &runner).await? == "terminating" && used(api, "p").await? == 1);
    drop(lock);
    refreshed_to(api, &runner, "terminated").await?;
    ensure!(used(api, "p").await? == 0, "the slot was not given back");
    must_be_gone(&serve, &runner)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_claim_fails_at_its_threshold_and_gives_its_runners_back() -> Result<()> {
    let serve = serve("max = 2\nwait_seconds = 12")?;
    let api = serve.api();
    let held = ready(api, "first", "p", 1).await?;
    let second = api.provision("second", "p", 2).await?;
    let claim = text(&second, "claim")?;
    let ended = async || {
        let entries = audit(api, &claim).await?;
        Ok(entries.into_iter().find(|entry| entry["what"] == "ended"))
    };
    let (ended, _) = refreshed_until(api, "the claim fails", ended).await?;
    ensure!(ended["to"] == "failed" && text(&ended, "why")?.starts_with("it waited too long: "), "{ended}");
    let runner = text(&second["runners"][0], "runner")?;
    comes_to(api, &runner, "idle").await?;
    ensure!(state(api, &held.runners[0]).await? == "running", "the first claim lost its runner");
    Ok(())
}
