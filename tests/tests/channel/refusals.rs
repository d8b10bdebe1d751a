//! Who is turned away, and what is not taken.

use crate::shop::{Shop, created, name};
use anyhow::{Result, ensure};
use futures_util::SinkExt;
use motorpool_tests::fakes::channel_agent::{Shows, close_code, dial, next_text};
use motorpool_tests::fakes::fake_agent::FakeAgent;
use motorpool_tests::harness::serve::ADMIN_TOKEN;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

const UNAUTHORIZED: u16 = 4401;

async fn is_turned_away(shop: &Shop, shows: Shows<'_>) -> Result<()> {
    let mut socket = dial(shop.api(), shows).await?;
    let code = close_code(&mut socket).await?;
    ensure!(code == UNAUTHORIZED, "{shows:?}: closed with {code}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refuse_08_a_token_is_good_for_its_own_runner_alone() -> Result<()> {
    let shop = Shop::open()?;
    let (machine, mut agent) = shop.machine("macs", "mac-01").await?;
    let (_, mut other) = shop.machine("macs", "mac-02").await?;
    let token = machine.token.as_str();
    for shows in [
        Shows::InQuery { runner: "mac-02", token },
        Shows::InQuery { runner: "nobody", token },
        Shows::InQuery { runner: "mac-01", token: "mp_runner_x" },
        Shows::InQuery { runner: "mac-01", token: ADMIN_TOKEN },
        Shows::InHeader { token: ADMIN_TOKEN },
        Shows::Nothing,
    ] {
        is_turned_away(&shop, shows).await?;
    }
    let checkpoint = name(&created(&mut agent, "1").await?)?;
    let end = json!({"checkpoint_name": checkpoint, "status": "success"});
    ensure!(other.refused("create", json!({"runner_id": "mac-01", "job_id": "2"})).await?.0 == 403);
    ensure!(other.refused("finalize", end).await?.0 == 403);
    ensure!(other.refused("status", json!({"checkpoint_name": checkpoint})).await?.0 == 403);
    let shown = agent.ok("status", json!({"checkpoint_name": checkpoint})).await?;
    ensure!(shown["state"] == "created", "{shown}");
    // Who is none of the two learns neither whether one is connected nor how to ask.
    for who in [shop.target.as_who(None), shop.target.as_who(Some(token)), shop.target.team_a.clone()] {
        for answer in [
            who.get("internal/agent/mac-01/connected").await?,
            who.post("internal/agent/mac-01/exec", json!({"cmd": "touch opened"})).await?,
        ] {
            ensure!(answer.status == 401 || answer.status == 403, "{answer:?}");
        }
    }
    ensure!(!shop.path().join("opened").exists());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refuse_10_a_connection_ends_with_its_token() -> Result<()> {
    let shop = Shop::open()?;
    for (runner, is_removed) in [("mac-01", false), ("mac-02", true)] {
        let (machine, mut agent) = shop.machine("macs", runner).await?;
        if is_removed {
            shop.api().delete(&format!("runners/{runner}?force=true")).await?.expect(202)?;
            shop.target.runner_in(runner, "terminated").await?;
        } else {
            shop.api().post(&format!("runners/{runner}/token"), json!({})).await?.expect(200)?;
        }
        // At the latest with its next message; perhaps it was asked before whether it is there.
        let _ = agent.ask("create", json!({"job_id": "1"})).await;
        ensure!(agent.ended().await? == Some(UNAUTHORIZED), "{runner}");
        is_turned_away(&shop, Shows::InQuery { runner, token: &machine.token }).await?;
        shop.connected(runner, false).await?;
    }
    Ok(())
}

/// An agent of ours changes its token with each reset, and has its connection from before: nobody has copied anything.
#[tokio::test(flavor = "multi_thread")]
async fn refuse_10_a_connection_with_a_replaced_token_ends_and_nobody_is_suspected() -> Result<()> {
    let shop = Shop::open()?;
    let (mut machine, mut agent) = shop.machine("macs", "mac-01").await?;
    let before = machine.token.clone();
    machine.session = Some("its own".to_owned());
    let checkpoint = name(&created(&mut agent, "1").await?)?;
    agent.ok("finalize", json!({"checkpoint_name": checkpoint, "status": "failure"})).await?;
    machine.work_until("idle").await?;
    ensure!(machine.token != before, "its token is what it was");
    ensure!(agent.ask("ping", json!({})).await.is_err(), "an old token was answered");
    ensure!(agent.ended().await? == Some(UNAUTHORIZED));
    ensure!(shop.api().runner("mac-01").await?["state"] == "idle");
    Ok(())
}

/// A job of an earlier epoch, ended once more while the next one runs.
#[tokio::test(flavor = "multi_thread")]
async fn refuse_11_the_end_of_an_earlier_job_changes_nothing() -> Result<()> {
    let shop = Shop::open()?;
    let (mut machine, mut agent) = shop.machine("macs", "mac-01").await?;
    let first = name(&created(&mut agent, "1").await?)?;
    agent.ok("finalize", json!({"checkpoint_name": first, "status": "success"})).await?;
    machine.work_until("idle").await?;
    let second = name(&created(&mut agent, "2").await?)?;
    let before = shop.api().runner("mac-01").await?;
    let told = agent.ok("finalize", json!({"checkpoint_name": first, "status": "failure"})).await?;
    ensure!(told["detail"] == "Already finalized" && told["state"] == "deleted", "{told}");
    let after = shop.api().runner("mac-01").await?;
    ensure!((&after["state"], &after["epoch"]) == (&json!("running"), &before["epoch"]), "{after}");
    ensure!(agent.ok("status", json!({"checkpoint_name": second})).await?["state"] == "created");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refuse_12_and_13_what_an_agent_sends_is_checked() -> Result<()> {
    let shop = Shop::open()?;
    let (_, mut agent) = shop.machine("macs", "mac-01").await?;
    for bad in
        ["", "a b", "a;b", "$(touch opened)", "`touch opened`", "a\nb", "a\0b", "a/b", "ä", &"a".repeat(129)]
    {
        ensure!(agent.refused("create", json!({"job_id": bad})).await?.0 == 400, "{bad:?}");
    }
    for more in
        [("state", json!("deleted")), ("epoch", json!(1)), ("token", json!("x")), ("caller", json!("a\nb"))]
    {
        let mut payload = json!({"job_id": "1"});
        payload[more.0] = more.1;
        ensure!(agent.refused("create", payload.clone()).await?.0 == 400, "{payload}");
    }
    for name in ["job-1", "job-1-2-zzzzzzzz", "job-1;x-2-a1b2c3d4", "job-1-2-a1b2c3d4\n", "x"] {
        let payload = json!({"checkpoint_name": name, "status": "success"});
        ensure!(agent.refused("finalize", payload).await?.0 == 400, "{name:?}");
        ensure!(agent.refused("status", json!({"checkpoint_name": name})).await?.0 == 400, "{name:?}");
    }
    for body in [
        json!({"cmd": "touch opened", "user": "root"}),
        json!({"cmd": ""}),
        json!({"cmd": "touch opened\0"}),
        json!({"cmd": "touch opened", "timeout": 601}),
        json!({"cmd": "touch opened", "timeout": 0.5}),
        json!({"cmd": ["touch", "opened"]}),
    ] {
        shop.api().post("internal/agent/mac-01/exec", body).await?.refusal(400)?;
    }
    ensure!(shop.api().runner("mac-01").await?["state"] == "idle");
    ensure!(!shop.path().join("opened").exists());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refuse_18_what_is_no_message_is_told_so_or_ends_the_connection() -> Result<()> {
    let shop = Shop::open()?;
    let machine = FakeAgent::idle(shop.api(), "macs", "mac-01", json!({})).await?;
    let shows = Shows::InHeader { token: &machine.token };
    let mut socket = dial(shop.api(), shows).await?;
    let deep = format!(r#"{{"id":"1","type":"ping","payload":{}1{}}}"#, "[".repeat(1000), "]".repeat(1000));
    for (text, id) in [
        ("", ""),
        ("no JSON", ""),
        ("[]", ""),
        (deep.as_str(), ""),
        (r#"{"type":"ping"}"#, ""),
        (r#"{"id":"7"}"#, "7"),
        (r#"{"id":"7","type":"reboot","payload":{}}"#, "7"),
        (r#"{"id":"7","type":"ping","owner":"red"}"#, "7"),
    ] {
        socket.send(Message::text(text)).await?;
        let response = next_text(&mut socket).await?;
        ensure!(response["id"] == id && response["error"]["code"] == 400, "{text}: {response}");
    }
    // What answers nothing that was asked is nobody's.
    socket.send(Message::text(r#"{"id":"7","status":"ok","data":{}}"#)).await?;
    socket.send(Message::text(r#"{"id":"8","type":"ping"}"#)).await?;
    ensure!(next_text(&mut socket).await?["data"] == json!({"pong": true}));
    socket.send(Message::binary(vec![1, 2, 3])).await?;
    ensure!(close_code(&mut socket).await? == 1003);

    let mut socket = dial(shop.api(), shows).await?;
    let long = json!({"id": "7", "type": "ping", "payload": {"x": "x".repeat(2_000_000)}});
    // It may be let go of before all of it is sent.
    let _ = socket.send(Message::text(long.to_string())).await;
    ensure!(close_code(&mut socket).await.map_or(true, |code| code == 1008));
    ensure!(shop.api().get("/health").await?.status == 200);
    Ok(())
}

/// Neither what it is asked with nor anything that serve writes about that.
#[tokio::test(flavor = "multi_thread")]
async fn refuse_17_no_token_of_a_connection_is_in_the_log() -> Result<()> {
    let shop = Shop::open()?;
    let (machine, mut agent) = shop.machine("macs", "mac-01").await?;
    agent.ok("ping", Value::Null).await?;
    is_turned_away(&shop, Shows::InQuery { runner: "mac-01", token: "mp_runner_canary" }).await?;
    let log = shop.serve.log();
    ensure!(log.contains("/api/v1/ws/agent"), "{log}");
    ensure!(!log.contains("canary") && !log.contains(&machine.token), "{log}");
    Ok(())
}
