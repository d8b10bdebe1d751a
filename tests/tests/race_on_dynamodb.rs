//! Invariant 3 between processes: fifty of them race for one idle runner over DynamoDB, two hundred times, and each time one wins.
//!
//! The fifty are this very program, started once; in each round they first read the runner, and then all take it at once.

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::try_join_all;
use motorpool_control::store::{Store, Taken};
use motorpool_domain::claim::{Claim, Member};
use motorpool_domain::runner::RunnerState;
use motorpool_domain::{ClaimId, RunnerId};
use motorpool_ledger::dynamodb::{DynamoLedger, create_table_on_aws};
use motorpool_tests::harness::emulated_aws;
use motorpool_tests::suites::contracts::ledger::fixtures::{
    Shared, claim_id, launched, moved, must_write, opened, read, read_claim, runner_id, take, taking,
};
use motorpool_tests::suites::contracts::ledger::fresh_table;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

const RACERS: usize = 50;
const ROUNDS: usize = 200;

/// Only a racer that hangs takes so long for a step.
const PATIENCE: Duration = Duration::from_secs(120);

const TABLE: &str = "RACE_TABLE";
const CLAIM: &str = "RACE_CLAIM";
/// What an answer begins with; the test harness prints other lines.
const ANSWER: &str = "racer: ";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_03_of_50_processes_that_race_for_one_runner_one_wins_in_each_of_200_rounds() -> Result<()> {
    let table = fresh_table();
    create_table_on_aws(&emulated_aws::config().await?, &table).await?;
    let ledger = over(&table).await?;
    let names: Vec<String> = (0..ROUNDS).map(|round| format!("r-{round}")).collect();
    let runners = launched(&ledger, &names.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let mut racers = Vec::new();
    for racer in 0..RACERS {
        let claim = opened(&ledger, &format!("c-{racer}")).await?;
        racers.push(Racer::start(&table, claim)?);
    }

    let mut won: BTreeMap<ClaimId, Vec<RunnerId>> = BTreeMap::new();
    for (round, created) in runners.iter().enumerate() {
        let runner = must_write(&ledger, created, &moved(created, RunnerState::Idle)).await?;
        let winner = race(&mut racers, &runner.id).await.with_context(|| format!("round {round}"))?;
        let found = read(&ledger, &runner.id).await?;
        ensure!(found.held_by(&winner), "round {round}: {winner} won, but the record says {found:?}");
        won.entry(winner).or_default().push(runner.id);
    }

    for racer in &racers {
        let members = read_claim(&ledger, &racer.claim.id).await?.members;
        let gained: Vec<&RunnerId> = members.iter().map(|Member { runner, .. }| runner).collect();
        let due: Vec<&RunnerId> = won.get(&racer.claim.id).into_iter().flatten().collect();
        ensure!(gained == due, "{} won {due:?}, and lists {gained:?}", racer.claim.id);
    }
    eprintln!("{ROUNDS} rounds were won by {} of {RACERS} processes", won.len());
    Ok(())
}

/// One round, and the claim that won it. Whoever lost has seen the winner's hold, and nobody else's.
async fn race(racers: &mut [Racer], runner: &RunnerId) -> Result<ClaimId> {
    let order = format!("read {runner}");
    let ready = try_join_all(racers.iter_mut().map(|racer| racer.ask(&order))).await?;
    ensure!(ready.iter().all(|answer| answer == "ready"), "not all saw it idle: {ready:?}");
    let answers = try_join_all(racers.iter_mut().map(|racer| racer.ask("go"))).await?;
    let mut winners = answers.iter().zip(racers.iter()).filter(|(answer, _)| *answer == "won");
    let (_, winner) = winners.next().context("nobody won")?;
    ensure!(winners.next().is_none(), "more than one won: {answers:?}");
    let lost = format!("lost to {}", winner.claim.id);
    let others = answers.iter().filter(|answer| **answer == lost).count();
    ensure!(others == RACERS - 1, "{} won, and {others} saw so: {answers:?}", winner.claim.id);
    Ok(winner.claim.id.clone())
}

/// One process with a claim of its own.
struct Racer {
    claim: Claim,
    /// Killed when it is dropped.
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Racer {
    fn start(table: &str, claim: Claim) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--ignored", "--exact", "--nocapture", "one_of_the_racers"])
            .env(TABLE, table)
            .env(CLAIM, claim.id.as_str())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("a racer could not be started")?;
        let stdin = child.stdin.take().context("a racer's stdin")?;
        let lines = BufReader::new(child.stdout.take().context("a racer's stdout")?).lines();
        Ok(Self { claim, _child: child, stdin, lines })
    }

    async fn ask(&mut self, order: &str) -> Result<String> {
        let id = &self.claim.id;
        self.stdin
            .write_all(format!("{order}\n").as_bytes())
            .await
            .with_context(|| format!("{id}: {order}"))?;
        let answer = async {
            while let Some(line) = self.lines.next_line().await? {
                // The harness may have begun the line.
                if let Some((_, answer)) = line.split_once(ANSWER) {
                    return Ok(answer.to_owned());
                }
            }
            bail!("the racer {id} ended")
        };
        timeout(PATIENCE, answer).await.with_context(|| format!("{id} did not answer to {order}"))?
    }
}

/// The body of a racer, in its own process; nothing in any other.
#[test]
#[ignore = "the child of the test above"]
fn one_of_the_racers() -> Result<()> {
    let (Ok(table), Ok(claim)) = (std::env::var(TABLE), std::env::var(CLAIM)) else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ledger = runtime.block_on(over(&table))?;
    let mut claim = runtime.block_on(read_claim(&ledger, &claim_id(claim)?))?;
    let mut seen = None;
    for order in std::io::stdin().lock().lines() {
        let order = order?;
        let answer = match order.strip_prefix("read ") {
            Some(runner) => {
                let runner = runtime.block_on(read(&ledger, &runner_id(runner)?))?;
                let answer = if runner.state == RunnerState::Idle { "ready" } else { "it is not idle" };
                seen = Some(runner);
                answer.to_owned()
            }
            None => {
                let runner = seen.take().context("nothing was read before")?;
                match runtime.block_on(take(&ledger, &claim, &runner))? {
                    Taken::Done => {
                        claim = taking(&claim, &runner).0;
                        "won".to_owned()
                    }
                    Taken::RunnerLost { found: Some(found) } => {
                        let holder = found.state.hold().context("it was lost to nobody")?;
                        format!("lost to {}", holder.holder)
                    }
                    other @ (Taken::RunnerLost { found: None } | Taken::ClaimLost) => format!("{other:?}"),
                }
            }
        };
        println!("{ANSWER}{answer}");
    }
    Ok(())
}

async fn over(table: &str) -> Result<Shared> {
    let ledger = DynamoLedger::on_aws(&emulated_aws::config().await?, table);
    Ok(Arc::new(Store::new(Arc::new(ledger))))
}
