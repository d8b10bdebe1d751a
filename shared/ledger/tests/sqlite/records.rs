//! The records of these tests. One transaction writes a pair, counts it, and logs it: so that half of a transaction can be seen.

use anyhow::{Context, Result, ensure};
use motorpool_control::ports::ledger::{Children, Ledger, Order, Span};
use motorpool_control::ports::tx::{Committed, Op, Row, Stored, Tx, When};
use motorpool_domain::Timestamp;
use motorpool_domain::record::{Key, Kind, Path, Place, Version};
use motorpool_ledger::sqlite::SqliteLedger;
use std::collections::BTreeSet;

const MANY: usize = 1_000_000;

pub(crate) fn path(kind: &'static str, id: &str) -> Path {
    Path::from(Key::new(Kind::new(kind), id))
}

/// In the list of its kind, due never, kept for ever.
pub(crate) fn row(kind: &'static str, id: &str) -> Row {
    Row {
        path: path(kind, id),
        version: Version { state: "new".to_owned(), epoch: 1, rev: 1 },
        schema: 1,
        doc: format!("{{\"id\":\"{id}\",\"text\":\"{}\"}}", "d".repeat(300)),
        due: None,
        places: vec![Place { list: kind.to_owned(), sort: id.to_owned() }],
        lists: 1,
        kept_until: None,
    }
}

pub(crate) fn put(row: Row) -> Tx {
    Tx::default().with(Op::Put { row, when: When::Absent })
}

/// Two rows, one more on the counter of pairs, and an entry in its log.
pub(crate) fn pair(id: &str) -> Tx {
    let entry = Path::child(total().key, format!("log-{id}"));
    put(row("left", id))
        .with(Op::Put { row: row("right", id), when: When::Absent })
        .with(Op::Add { path: total(), was: None, by: 1, at_least: 0, at_most: u64::MAX })
        .logged(Row { path: entry, places: Vec::new(), ..row("left", id) })
}

fn total() -> Path {
    path("total", "pairs")
}

/// What pairs are counted on.
pub(crate) async fn begin_pairs(ledger: &SqliteLedger) -> Result<()> {
    ensure!(ledger.commit(&put(row("total", "pairs"))).await? == Committed::Done);
    Ok(())
}

pub(crate) async fn write_pair(ledger: &SqliteLedger, id: &str) -> Result<()> {
    ensure!(ledger.commit(&pair(id)).await? == Committed::Done, "the pair {id} was there already");
    Ok(())
}

/// The pairs of a ledger, after a look whether any of them is there by half.
pub(crate) async fn whole_pairs(ledger: &SqliteLedger) -> Result<BTreeSet<String>> {
    let (left, right) = (ids(ledger, "left").await?, ids(ledger, "right").await?);
    ensure!(left == right, "half a pair: {:?}", left.symmetric_difference(&right));
    let counted = found(ledger, total()).await?.context("nothing was counted")?.beside.counter;
    ensure!(counted == u64::try_from(left.len())?, "{counted} pairs counted, {} there", left.len());
    let entries =
        Children { of: total().key, low: "log-".to_owned(), high: "log-~".to_owned(), order: Order::Rising };
    let entries = ledger.children(&entries, MANY).await?;
    let logged: BTreeSet<_> = entries.into_iter().filter_map(|entry| entry.path.child).collect();
    ensure!(logged == left.iter().map(|id| format!("log-{id}")).collect(), "the log is another");
    Ok(left)
}

pub(crate) async fn found(ledger: &SqliteLedger, path: Path) -> Result<Option<Stored>> {
    ledger.get(&[path]).await?.pop().context("no answer for a path")
}

async fn ids(ledger: &SqliteLedger, kind: &str) -> Result<BTreeSet<String>> {
    let span = Span { list: kind.to_owned(), low: String::new(), high: "~".to_owned() };
    let mut ids = BTreeSet::new();
    for placed in ledger.list(&span, MANY).await? {
        ensure!(placed.row.is_some_and(|row| row.path == placed.path), "{} is not there", placed.path);
        ids.insert(placed.sort);
    }
    Ok(ids)
}

pub(crate) fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}
