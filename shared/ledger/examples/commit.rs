//! Where a commit's time goes on this host: one caller beside a raw transaction of SQLite, then 64 callers. `cargo run --release -p
//! motorpool-ledger --example commit [directory]`
#![expect(clippy::print_stdout, reason = "it prints what it measured")]

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::tx::{Committed, Op, Row, Tx, When};
use motorpool_domain::Timestamp;
use motorpool_domain::record::{Key, Kind, Path, Place, Version};
use motorpool_ledger::sqlite::SqliteLedger;
use std::time::{Duration, Instant};

const DOC_BYTES: usize = 700;
const ALONE: u64 = 2_000;
const CALLERS: u64 = 64;
const EACH: u64 = 300;

#[tokio::main]
async fn main() -> Result<()> {
    let dir = match std::env::args().nth(1) {
        Some(within) => tempfile::tempdir_in(within)?,
        None => tempfile::tempdir()?,
    };
    let ledger = SqliteLedger::open(dir.path())?;
    for at in 0..CALLERS * EACH {
        // The rows that the measured transactions replace.
        if at % 50 == 0 {
            let rows = (at..at + 50).flat_map(|of| [row("runner", of, 1), row("claim", of, 1)]);
            let tx = rows.fold(Tx::default(), |tx, row| tx.with(Op::Put { row, when: When::Always }));
            ensure!(ledger.commit(&tx).await? == Committed::Done);
        }
    }

    let mut raw = raw_table(&dir.path().join("raw.db"))?;
    let (mut alone, mut of_sqlite) = (Vec::new(), Vec::new());
    for of in 0..ALONE {
        of_sqlite.push(timed(|| ten_rows(&mut raw, of))?);
        let began = now();
        ensure!(ledger.commit(&transaction(of)).await? == Committed::Done);
        alone.push(began.elapsed());
    }
    let (alone, of_sqlite) = (Spread::of(alone)?, Spread::of(of_sqlite)?);
    println!("a raw transaction of ten rows:   {of_sqlite}");
    println!("one caller, six rows:            {alone}");
    println!(
        "ratio of the medians:            {:.2}",
        alone.median.as_secs_f64() / of_sqlite.median.as_secs_f64()
    );

    let began = now();
    let callers = (0..CALLERS).map(|caller| {
        let ledger = ledger.clone();
        tokio::spawn(async move {
            let mut took = Vec::new();
            for of in (0..EACH).map(|at| at * CALLERS + caller).filter(|of| *of >= ALONE) {
                let began = now();
                ensure!(ledger.commit(&transaction(of)).await? == Committed::Done);
                took.push(began.elapsed());
            }
            Ok(took)
        })
    });
    let took: Vec<Vec<Duration>> = try_join_all(callers).await?.into_iter().collect::<Result<_>>()?;
    let took = took.concat();
    let rate = took.len() as f64 / began.elapsed().as_secs_f64();
    println!("{CALLERS} callers: {rate:.0}/s, each {}", Spread::of(took)?);

    let paths: Vec<Path> = (0..4).map(|of| Path::from(Key::new(Kind::new("runner"), id(of)))).collect();
    let mut reads = Vec::new();
    for _ in 0..ALONE {
        let began = now();
        ledger.get(&paths).await?;
        reads.push(began.elapsed());
    }
    println!("four rows read:                  {}", Spread::of(reads)?);
    Ok(())
}

/// A runner and a claim go on, an attempt is new; a log entry under each.
fn transaction(of: u64) -> Tx {
    let was = Version { state: "one".to_owned(), epoch: 1, rev: 1 };
    let replace = |kind| Op::Replace { row: row(kind, of, 2), was: was.clone(), counter: None };
    let tx = Tx::default().with(replace("runner")).with(replace("claim"));
    let tx = tx.with(Op::Put { row: row("attempt", of, 1), when: When::Absent });
    ["runner", "claim", "attempt"].into_iter().fold(tx, |tx, kind| {
        let path = Path::child(Key::new(Kind::new(kind), id(of)), "log-000000000000002");
        let doc = format!("{{\"text\":\"{}\"}}", "l".repeat(200));
        let kept_until = Some(Timestamp::from_millis(of));
        tx.logged(Row { path, doc, due: None, places: Vec::new(), kept_until, ..row(kind, of, 1) })
    })
}

fn row(kind: &'static str, of: u64, rev: u64) -> Row {
    let state = if rev == 1 { "one" } else { "two" };
    Row {
        path: Path::from(Key::new(Kind::new(kind), id(of))),
        version: Version { state: state.to_owned(), epoch: 1, rev },
        schema: 1,
        doc: format!("{{\"text\":\"{}\"}}", "d".repeat(DOC_BYTES)),
        due: Some(Timestamp::from_millis(1_700_000_000_000 + of * 10 + rev)),
        places: vec![Place { list: format!("{kind}/{state}"), sort: format!("{of:015}") }],
        lists: 1,
        kept_until: None,
    }
}

/// Spread over the table, as random ids are.
fn id(of: u64) -> String {
    format!("{:016x}", of.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn raw_table(file: &std::path::Path) -> Result<rusqlite::Connection> {
    let connection = rusqlite::Connection::open(file)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch("CREATE TABLE raw (k TEXT PRIMARY KEY, v TEXT)")?;
    Ok(connection)
}

fn ten_rows(connection: &mut rusqlite::Connection, of: u64) -> Result<()> {
    let transaction = connection.transaction()?;
    for row in 0..10 {
        let value = "d".repeat(DOC_BYTES);
        transaction
            .prepare_cached("INSERT OR REPLACE INTO raw (k, v) VALUES (?1, ?2)")?
            .execute([id(of * 10 + row), value])?;
    }
    Ok(transaction.commit()?)
}

fn timed(act: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let began = now();
    act()?;
    Ok(began.elapsed())
}

#[expect(clippy::disallowed_methods, reason = "a stopwatch, and no part of the product")]
fn now() -> Instant {
    Instant::now()
}

struct Spread {
    median: Duration,
    p99: Duration,
}

impl Spread {
    fn of(mut took: Vec<Duration>) -> Result<Self> {
        took.sort();
        let at = |part: usize| took.get(took.len() * part / 100).copied().context("nothing was measured");
        Ok(Self { median: at(50)?, p99: at(99)? })
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "p50 {:.2?}, p99 {:.2?}", self.median, self.p99)
    }
}
