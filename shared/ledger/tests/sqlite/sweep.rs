//! What is no longer kept is found by a walk, a bounded number of rows at a time.

use crate::records::{at, found, path, put, row};
use anyhow::Result;
use motorpool_control::ports::ledger::{Ledger, Span, Touch};
use motorpool_control::ports::tx::{Op, Row, Tx, When};
use motorpool_ledger::sqlite::{SqliteLedger, Swept};

#[tokio::test]
async fn a_walk_in_steps_deletes_what_is_expired_and_nothing_else() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ledger = SqliteLedger::open(dir.path())?;
    for of in 0..25 {
        // Kept until 100, 200, 300 or 400, or for ever.
        let kept_until = (of % 5 != 0).then(|| at(of % 5 * 100));
        ledger.commit(&put(Row { kept_until, ..row("entry", &format!("{of:02}")) })).await?;
    }
    let mut steps = Vec::new();
    while !steps.last().is_some_and(|step: &Swept| step.ended) {
        steps.push(ledger.sweep_expired(at(200), 10).await?);
    }
    assert_eq!(steps.iter().map(|step| step.looked_at).collect::<Vec<_>>(), [10, 10, 5]);
    assert_eq!(steps.iter().map(|step| step.deleted).collect::<Vec<_>>(), [4, 4, 2]);

    for of in 0..25 {
        let there = found(&ledger, path("entry", &format!("{of:02}"))).await?.is_some();
        assert_eq!(there, !matches!(of % 5, 1 | 2), "{of}");
    }
    let all = Span { list: "entry".to_owned(), low: String::new(), high: "~".to_owned() };
    assert_eq!(ledger.count(&all, 100).await?, 15);

    // The next walk begins anew, and finds what expired meanwhile.
    let again = ledger.sweep_expired(at(300), 100).await?;
    assert_eq!(again, Swept { looked_at: 15, deleted: 5, ended: true });
    Ok(())
}

#[tokio::test]
async fn nothing_of_a_deleted_row_comes_back_with_the_next_of_its_path() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ledger = SqliteLedger::open(dir.path())?;
    let expiring = Row { kept_until: Some(at(100)), due: Some(at(50)), ..row("runner", "r-1") };
    ledger.commit(&put(expiring)).await?;
    let count = Op::Add { path: path("runner", "r-1"), was: None, by: 3, at_least: 0, at_most: 9 };
    ledger.commit(&Tx::default().with(count)).await?;
    let marks = vec![("seen".to_owned(), 7)];
    ledger.touch(&Touch { path: path("runner", "r-1"), epoch: 1, unless: String::new(), marks }).await?;
    assert_eq!(ledger.sweep_expired(at(100), 10).await?.deleted, 1);
    assert_eq!(ledger.due(at(1000), 10).await?, []);

    let again = Op::Put { row: row("runner", "r-1"), when: When::Absent };
    ledger.commit(&Tx::default().with(again)).await?;
    let beside = found(&ledger, path("runner", "r-1")).await?.map(|found| found.beside);
    assert_eq!(beside.map(|beside| (beside.counter, beside.marks.len())), Some((0, 0)));
    Ok(())
}
