//! What the operator has run on a machine, over its agent's connection.

use crate::shop::Shop;
use anyhow::{Result, ensure};
use motorpool_tests::fakes::channel_agent::{Shows, dial, next_text};
use motorpool_tests::fakes::fake_agent::FakeAgent;
use motorpool_tests::harness::story::audit;
use serde_json::{Value, json};

const EXEC: &str = "internal/agent/mac-01/exec";

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_on_the_machine_and_is_audited() -> Result<()> {
    let shop = Shop::open()?;
    let machine = FakeAgent::idle(shop.api(), "macs", "mac-01", json!({})).await?;
    shop.connected("mac-01", false).await?;
    let (code, message) = shop.api().post(EXEC, json!({"cmd": "true"})).await?.refusal(404)?;
    ensure!(code == "not_found" && message == "agent not connected", "{message}");

    let _agent = shop.connect("mac-01", &machine.token).await?;
    let cmd = "echo out; echo \"$((1 + 1)) err\" >&2; exit 3";
    let ran = shop.api().post(EXEC, json!({"cmd": cmd, "timeout": 20.5})).await?.expect(200)?;
    ensure!(ran == json!({"exit_code": 3, "stdout": "out\n", "stderr": "2 err\n"}), "{ran}");
    let ran = shop
        .api()
        .post(EXEC, json!({"cmd": "printf '\u{1b}[2J'; head -c 100000 /dev/zero | tr '\\0' x"}))
        .await?;
    let stdout = ran.expect(200)?["stdout"].as_str().unwrap_or_default().to_owned();
    ensure!(stdout.chars().count() == 65_536 && stdout.ends_with('x'), "{} characters", stdout.len());

    let told = audit(shop.api(), "mac-01").await?;
    let found = |what: &str, part: &str| {
        let is_it = |entry: &&Value| {
            entry["what"] == what && entry["why"].as_str().is_some_and(|why| why.contains(part))
        };
        told.iter().find(is_it).cloned().unwrap_or_default()
    };
    let (asked, ended) = (found("exec", cmd), found("exec ended", cmd));
    ensure!(asked["who"] == json!({"owner": "operator"}), "{told:?}");
    ensure!(ended["why"].as_str().is_some_and(|why| why.starts_with("exit code 3, after ")), "{told:?}");
    ensure!(found("exec", "printf '␛[2J'").is_object(), "{told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_where_the_pool_allows_it() -> Result<()> {
    let shop = Shop::open()?;
    let (_, _agent) = shop.machine("closed", "mac-01").await?;
    let (code, message) = shop.api().post(EXEC, json!({"cmd": "touch opened"})).await?.refusal(403)?;
    ensure!(code == "forbidden" && message.contains("pool closed does not allow"), "{message}");
    ensure!(!shop.path().join("opened").exists());
    shop.api().post("internal/agent/nobody/exec", json!({"cmd": "true"})).await?.refusal(404)?;
    Ok(())
}

/// One that does not answer, one that leaves, and one that says no.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_does_not_say_how_it_ended_is_told_of() -> Result<()> {
    let shop = Shop::open()?;
    let machine = FakeAgent::idle(shop.api(), "macs", "mac-01", json!({})).await?;
    let shows = Shows::InQuery { runner: "mac-01", token: &machine.token };
    let mut silent = dial(shop.api(), shows).await?;
    shop.connected("mac-01", true).await?;
    let body = json!({"cmd": "sleep 100", "timeout": 1});
    let (asked, answer) = tokio::join!(next_text(&mut silent), shop.api().post(EXEC, body.clone()));
    let asked = asked?;
    ensure!(
        asked["type"] == "exec" && asked["payload"] == json!({"cmd": "sleep 100", "timeout": 1.0}),
        "{asked}"
    );
    let (code, message) = answer?.refusal(504)?;
    ensure!(code == "internal" && message.contains("has not said in time"), "{message}");

    let leaves = async {
        next_text(&mut silent).await?;
        drop(silent);
        anyhow::Ok(())
    };
    let (left, answer) = tokio::join!(leaves, shop.api().post(EXEC, body));
    left?;
    answer?.refusal(502)?;
    shop.connected("mac-01", false).await?;

    // The agent of the test ends what takes too long, and says so.
    let _agent = shop.connect("mac-01", &machine.token).await?;
    let (_, message) =
        shop.api().post(EXEC, json!({"cmd": "exec sleep 100", "timeout": 1})).await?.refusal(502)?;
    ensure!(message == "the agent could not run it: it took too long", "{message}");
    Ok(())
}
