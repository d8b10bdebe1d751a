//! A process that is killed under load (faults 21 and 26): whatever it had answered is there, and nothing is there by half.

use crate::records::{begin_pairs, whole_pairs, write_pair};
use anyhow::{Context, Result, ensure};
use motorpool_ledger::sqlite::SqliteLedger;
use rand::RngExt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use tokio::task::JoinSet;

const ROUNDS: usize = 5;
const CALLERS: usize = 64;
const ACKNOWLEDGED: &str = "acknowledged ";

#[tokio::test]
async fn fault_21_nothing_acknowledged_is_lost_by_a_kill() -> Result<()> {
    let dir = tempfile::tempdir()?;
    begin_pairs(&SqliteLedger::open(dir.path())?).await?;
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        let kill_after = rand::rng().random_range(1..2_000);
        acknowledged.extend(killed(dir.path(), round, kill_after)?);
        let ledger = SqliteLedger::open(dir.path())?;
        let there = whole_pairs(&ledger).await.with_context(|| format!("killed after {kill_after}"))?;
        for id in &acknowledged {
            ensure!(there.contains(id), "{id} was acknowledged and is lost, killed after {kill_after}");
        }
    }
    ensure!(acknowledged.len() >= ROUNDS, "no load");
    Ok(())
}

/// All that the killed process had acknowledged.
fn killed(dir: &Path, round: usize, kill_after: usize) -> Result<Vec<String>> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--exact", "--ignored", "--nocapture", "killed::writes_until_it_is_killed"])
        .env("LEDGER_DIR", dir)
        .env("LEDGER_ROUND", round.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = BufReader::new(child.stdout.take().context("no output")?);
    let (mut acknowledged, mut line) = (Vec::new(), String::new());
    while said.read_line(&mut line)? > 0 {
        // The last line may be cut.
        let id = line.strip_prefix(ACKNOWLEDGED).and_then(|id| id.strip_suffix('\n'));
        acknowledged.extend(id.map(str::to_owned));
        if acknowledged.len() == kill_after {
            child.kill()?;
        }
        line.clear();
    }
    let ended = child.wait()?;
    ensure!(ended.code().is_none(), "it ended by itself: {ended}");
    Ok(acknowledged)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the child of the test above"]
#[expect(clippy::print_stdout, reason = "this is how the child reports to its parent")]
async fn writes_until_it_is_killed() -> Result<()> {
    let Some(dir) = std::env::var_os("LEDGER_DIR") else { return Ok(()) };
    let round = std::env::var("LEDGER_ROUND")?;
    let ledger = SqliteLedger::open(Path::new(&dir))?;
    println!();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (ledger, round) = (ledger.clone(), round.clone());
        callers.spawn(async move {
            for turn in 0.. {
                let id = format!("{round}-{caller:02}-{turn}");
                write_pair(&ledger, &id).await?;
                println!("{ACKNOWLEDGED}{id}");
            }
            anyhow::Ok(())
        });
    }
    callers.join_next().await.context("no caller")??
}
