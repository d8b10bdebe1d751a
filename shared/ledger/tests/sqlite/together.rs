//! Callers that share commits.

use crate::records::{begin_pairs, found, path, put, row, whole_pairs, write_pair};
use anyhow::Result;
use futures_util::future::{join_all, try_join_all};
use motorpool_control::ports::ledger::{Ledger, Touch};
use motorpool_control::ports::tx::{Committed, Held};
use motorpool_ledger::sqlite::SqliteLedger;
use rusqlite::Connection;

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_are_all_answered_and_all_there_after_a_reopen() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ledger = SqliteLedger::open(dir.path())?;
    begin_pairs(&ledger).await?;
    let callers = (0..200).map(|caller| {
        let ledger = ledger.clone();
        tokio::spawn(async move {
            for turn in 0..10 {
                let id = format!("{caller:03}-{turn}");
                write_pair(&ledger, &id).await?;
                // Whatever is answered can be read at once.
                anyhow::ensure!(found(&ledger, path("right", &id)).await?.is_some(), "{id} is not there yet");
            }
            Ok(())
        })
    });
    try_join_all(callers).await?.into_iter().collect::<Result<()>>()?;
    drop(ledger);

    let ledger = SqliteLedger::open(dir.path())?;
    assert_eq!(whole_pairs(&ledger).await?.len(), 2000);
    Ok(())
}

/// Another connection holds the file, so that all of them wait, and then share a commit: in it, one sees what another wrote before.
#[tokio::test]
async fn of_many_that_want_the_same_row_in_one_commit_one_gets_it() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ledger = SqliteLedger::open(dir.path())?;
    let holder = Connection::open(dir.path().join("ledger.db"))?;
    holder.execute_batch("BEGIN IMMEDIATE")?;
    let tx = put(row("runner", "r-1"));
    let mut callers = Box::pin(join_all((0..64).map(|_| ledger.commit(&tx))));
    assert!(futures_util::poll!(&mut callers).is_pending());
    // A reader waits for none of them.
    assert_eq!(found(&ledger, path("runner", "r-1")).await?, None);
    ledger.ping().await?;
    holder.execute_batch("COMMIT")?;

    let answers = callers.await.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| *answer == Committed::Done);
    assert_eq!((won.len(), lost.len()), (1, 63));
    for answer in lost {
        let Committed::Refused(held) = answer else { anyhow::bail!("{answer:?}") };
        assert!(matches!(&*held, [Held::No { found: Some(found) }] if found.path == path("runner", "r-1")));
    }
    Ok(())
}

#[tokio::test]
async fn marks_come_back_after_a_reopen_to_the_last_bit() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ledger = SqliteLedger::open(dir.path())?;
    ledger.commit(&put(row("runner", "r-1"))).await?;
    let marks = vec![("seen".to_owned(), u64::MAX), ("\"quoted\"".to_owned(), 7)];
    let touch =
        Touch { path: path("runner", "r-1"), epoch: 1, unless: "gone".to_owned(), marks: marks.clone() };
    ledger.touch(&touch).await?;
    drop(ledger);

    let ledger = SqliteLedger::open(dir.path())?;
    let found = found(&ledger, path("runner", "r-1")).await?;
    assert_eq!(found.map(|found| found.beside.marks), Some(marks.into_iter().collect()));
    Ok(())
}
