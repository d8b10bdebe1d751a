//! Floods against a whole `serve`: connections that say nothing, bodies that do not come, and more requests than one caller may have at once.
//! What they cost is their own answer, never another caller's.

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use motorpool_tests::fakes::fake_agent::FakeAgent;
use motorpool_tests::harness::serve::Serve;
use motorpool_tests::harness::wait::PATIENCE;
use motorpool_tests::suites::black_box::{METAL, Target};
use serde_json::json;
use std::collections::BTreeMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A serve with two teams, and a machine whose agent speaks.
async fn with_an_agent() -> Result<(Serve, Target, FakeAgent)> {
    let serve = Serve::start(&Target::pools_file())?;
    let target = Target::new(serve.api().clone(), "1");
    let agent = FakeAgent::idle(&target.api, METAL, "metal-1", json!({})).await?;
    Ok((serve, target, agent))
}

fn address(serve: &Serve) -> String {
    serve.api().base().trim_start_matches("http://").to_owned()
}

async fn say(address: &str, words: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(words.as_bytes()).await?;
    Ok(stream)
}

/// What the server says before it ends the connection, which it must.
async fn until_closed(mut stream: TcpStream) -> Result<String> {
    let mut all = Vec::new();
    // Closed or reset, it is over.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut all)).await.context("a connection is kept")?;
    Ok(String::from_utf8_lossy(&all).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn refuse_18_every_silent_connection_is_closed() -> Result<()> {
    let (serve, target, agent) = with_an_agent().await?;
    let mut silent = Vec::new();
    for number in 0..600 {
        let words = match number % 3 {
            0 => "",
            1 => "POST /api/v1/provision HTTP/1.1\r\nhost: x\r\nx-slow: ",
            _ => "PRI * HTTP/2.0\r\n",
        };
        silent.push(say(&address(&serve), words).await?);
    }
    target.team_b.provision("beside-silence", METAL, 1).await?;
    agent.sync().await?.expect(200)?;
    for words in join_all(silent.into_iter().map(until_closed)).await {
        // Nothing was asked, so nothing is answered but what HTTP itself has to say.
        let words = words?;
        ensure!(!words.starts_with("HTTP/1.1 2"), "{words}");
    }
    target.team_b.get("pools").await?.expect(200)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refuse_24_slow_bodies_with_one_token_cost_nobody_else_an_answer() -> Result<()> {
    let (serve, target, agent) = with_an_agent().await?;
    let token = target.team_a.token().context("a token")?;
    let head = format!(
        "POST /api/v1/provision HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    );
    let mut slow = Vec::new();
    for _ in 0..600 {
        slow.push(say(&address(&serve), &head).await?);
    }
    // All of them are there before anybody else asks: the last one can have been read only after the first ones.
    for number in 0..20 {
        target.team_b.provision(&format!("beside-slow-{number}"), METAL, 1).await?;
        agent.sync().await?.expect(200)?;
    }
    let mut answers = BTreeMap::<String, usize>::new();
    for words in join_all(slow.into_iter().map(until_closed)).await {
        let words = words?;
        let status = words.split(' ').nth(1).unwrap_or("nothing").to_owned();
        *answers.entry(status).or_default() += 1;
    }
    // As many bodies as one caller may have under way were waited for; the rest was told so.
    ensure!(answers.keys().all(|status| ["408", "429"].contains(&status.as_str())), "{answers:?}");
    ensure!(answers.get("408") == Some(&256), "{answers:?}");
    target.team_a.get("pools").await?.expect(200)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refuse_24_one_teams_flood_is_its_own_429() -> Result<()> {
    let (_serve, target, agent) = with_an_agent().await?;
    let claim = target.team_a.provision("flood", METAL, 20).await?;
    let path = format!("claims/{}?wait=60", claim["claim"].as_str().context("a claim")?);
    let waiting: Vec<_> = (0..600)
        .map(|_| {
            let (api, path) = (target.team_a.clone(), path.clone());
            tokio::spawn(async move { api.get(&path).await })
        })
        .collect();
    // The team has all its places once one of its own is turned away.
    let turned_away = async {
        while target.team_a.get(&path.replace("wait=60", "wait=0")).await?.status != 429 {}
        anyhow::Ok(())
    };
    timeout(PATIENCE, turned_away).await.context("nobody was turned away")??;
    let other = target.team_b.provision("beside-flood", METAL, 1).await?;
    let path = format!("claims/{}", other["claim"].as_str().context("a claim")?);
    target.team_b.get(&path).await?.expect(200)?;
    agent.sync().await?.expect(200)?;
    target.team_a.release("flood").await?;
    for waiting in waiting {
        let answer = timeout(PATIENCE, waiting).await.context("a waiter hangs")???;
        ensure!(answer.status == 429 || answer.body["state"] == "released", "{answer:?}");
    }
    Ok(())
}
