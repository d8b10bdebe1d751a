//! Tokens of real agents of a real `serve`: they change with each reset, whoever dies in between, and one from before is noticed.

use anyhow::{Context, Result, ensure};
use motorpool_tests::harness::serve::Serve;
use motorpool_tests::harness::story::{comes_to, text};
use motorpool_tests::harness::wait::until;
use rustix::process::Signal;
use serde_json::{Value, json};

fn serve() -> Result<Serve> {
    Serve::start(
        "refresh_seconds = 1\n[pools.p]\nbackend = \"local\"\nmax = 1\nclean = \"cleanup\"\nheartbeat_seconds = 1\nidle_minutes = 60\n",
    )
}

fn state_file(serve: &Serve, runner: &str) -> Result<Value> {
    Ok(serde_json::from_slice(&std::fs::read(serve.runner_dir(runner).join("state.json"))?)?)
}

fn token(serve: &Serve, runner: &str) -> Result<String> {
    text(&state_file(serve, runner)?, "token")
}

/// A job on the pool's runner, with what that could read of its agent's token.
async fn job(serve: &Serve, workflow: &str) -> Result<(String, String)> {
    let claim = serve.api().provision(workflow, "p", 1).await?;
    let claim = claim["claim"].as_str().context("a claim")?.to_owned();
    let ready = until("the claim is ready", async || {
        let claim = serve.api().claim(&claim).await?;
        Ok((claim["state"] == "ready").then_some(claim))
    })
    .await?;
    let runner = text(&ready["runners"][0], "runner")?;
    let token = token(serve, &runner)?;
    Ok((runner, token))
}

/// Idle again, with one token on its disk.
async fn reset(serve: &Serve, runner: &str) -> Result<String> {
    comes_to(serve.api(), runner, "idle").await?;
    until("its agent knows which token is good", async || {
        let state = state_file(serve, runner)?;
        state["next_token"].is_null().then(|| text(&state, "token")).transpose()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn refuse_22_a_token_that_a_job_could_read_is_worth_an_alarm_and_no_more() -> Result<()> {
    let serve = serve()?;
    let (runner, copied) = job(&serve, "first").await?;
    serve.api().release("first").await?;
    let present = reset(&serve, &runner).await?;
    ensure!(present != copied, "its token is what it was");
    let thief = serve.api().as_who(Some(&copied));
    let report = json!({"runner": runner, "epoch": 2, "boot_id": "b", "protocol": 3, "agent_version": "0"});
    thief.post("agent/sync", report).await?.refusal(401)?;
    // A machine that can be replaced is.
    comes_to(serve.api(), &runner, "terminated").await?;
    let seen = serve.api().runner(&runner).await?;
    ensure!(text(&seen, "why")?.contains("a token that its agent has replaced"), "{seen}");
    ensure!(serve.log().contains("somebody came with a token"), "nobody was told");
    let (next, _) = job(&serve, "second").await?;
    ensure!(next != runner);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_03_agent_and_serve_die_while_tokens_change_and_no_agent_is_taken_for_a_thief() -> Result<()> {
    let mut serve = serve()?;
    let mut seen = Vec::new();
    for round in 0..4 {
        let workflow = format!("round-{round}");
        let (runner, used) = job(&serve, &workflow).await?;
        serve.api().release(&workflow).await?;
        match round {
            0 => serve.signal_agent(&runner, Signal::STOP)?,
            1 | 2 => {
                serve.kill()?;
                serve.start_again()?;
            }
            _last => {}
        }
        if round == 0 {
            serve.signal_agent(&runner, Signal::CONT)?;
        }
        let present = reset(&serve, &runner).await?;
        ensure!(present != used && !seen.contains(&present), "round {round}: a token came back");
        seen.push(present);
        let audit = serve.api().get(&format!("audit?subject={runner}")).await?.expect(200)?.to_string();
        ensure!(!audit.contains("has replaced: it was copied"), "{audit}");
    }
    Ok(())
}
