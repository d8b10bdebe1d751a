//! Other transactions on the same item, and answers that never come: neither is a lost race.

use anyhow::Result;
use motorpool_control::ports::ledger::{Ledger, Touch};
use motorpool_control::ports::tx::{Committed, Held, Op, Tx, When};
use motorpool_domain::record::Path;

use crate::faults::{cancelled, refused};
use crate::world::{World, row, stored, thing, version};

#[tokio::test]
async fn fault_25_a_transaction_that_meets_another_is_tried_again() -> Result<()> {
    let world = World::new().await?;
    for (rev, reasons) in [
        (1, ["None", "TransactionConflict"]),
        (2, ["ThrottlingError", "None"]),
        (3, ["ProvisionedThroughputExceeded", "None"]),
        // It is asked again who was first: the condition may have met the half of what the other wrote.
        (4, ["ConditionalCheckFailed", "TransactionConflict"]),
    ] {
        world.faults.conflict(3, cancelled(&reasons));
        assert_eq!(world.ledger.commit(&next(rev)).await?, Committed::Done, "{reasons:?}");
        assert_eq!(world.faults.left(), 0, "every conflict was met");
    }
    Ok(())
}

#[tokio::test]
async fn fault_25_a_single_write_that_meets_a_transaction_is_tried_again() -> Result<()> {
    let world = World::new().await?;
    let path = thing("a");
    let put = Op::Put { row: row(path.clone(), 1), when: When::Absent };
    let replace = Op::Replace { row: row(path.clone(), 2), was: version(1), counter: None };
    let add = Op::Add { path: path.clone(), was: None, by: 1, at_least: 1, at_most: 1 };
    let delete = Op::Delete { path: path.clone(), was: version(2), counter: Some(1), lists: 1 };
    for op in [put, replace, add] {
        world.faults.conflict(3, refused("TransactionConflictException"));
        assert_eq!(world.commit(op).await?, Committed::Done);
        assert_eq!(world.faults.left(), 0);
    }
    world.faults.conflict(3, refused("TransactionConflictException"));
    let marks = vec![("seen_at".to_owned(), 5)];
    world.ledger.touch(&Touch { path: path.clone(), epoch: 1, unless: String::new(), marks }).await?;
    assert_eq!(world.faults.left(), 0);
    assert_eq!(world.read(&path).await?.map(|found| found.beside.marks["seen_at"]), Some(5));
    world.faults.conflict(3, refused("TransactionConflictException"));
    assert_eq!(world.commit(delete).await?, Committed::Done);
    Ok(())
}

#[tokio::test]
async fn fault_25_who_only_meets_others_gives_up_with_an_error() -> Result<()> {
    let world = World::new().await?;
    for reasons in [["TransactionConflict", "None"], ["ConditionalCheckFailed", "TransactionConflict"]] {
        world.faults.conflict(8, cancelled(&reasons));
        let error = world.ledger.commit(&next(1)).await.unwrap_err();
        assert!(error.to_string().contains("write thing#a and 1 more"), "{error:#}");
        assert_eq!(world.faults.left(), 0, "eight attempts, and no more");
    }
    world.faults.conflict(8, refused("TransactionConflictException"));
    let put = Op::Put { row: row(thing("a"), 1), when: When::Absent };
    world.commit(put).await.unwrap_err();
    assert_eq!(world.read(&thing("a")).await?, None);
    Ok(())
}

/// The SDK sends again what it got no answer to; DynamoDB knows a transaction by its token.
#[tokio::test]
async fn fault_15_a_transaction_whose_answer_is_lost_is_done_once() -> Result<()> {
    let world = World::new().await?;
    world.faults.lose_answers(2);
    assert_eq!(world.ledger.commit(&next(1)).await?, Committed::Done);
    assert_eq!(world.faults.left(), 0, "the fault has fired");
    let add = Op::Add { path: thing("a"), was: None, by: 1, at_least: 0, at_most: 9 };
    let entry = row(Path::child(thing("a").key, "added"), 1);
    world.faults.lose_answers(2);
    assert_eq!(world.ledger.commit(&Tx::default().with(add).logged(entry)).await?, Committed::Done);
    assert_eq!(world.read(&thing("a")).await?.map(|found| found.beside.counter), Some(1));
    Ok(())
}

/// A single write has no token: it meets itself, and its caller is shown what is there.
#[tokio::test]
async fn fault_15_a_single_write_whose_answer_is_lost_finds_itself() -> Result<()> {
    let world = World::new().await?;
    let first = row(thing("a"), 1);
    world.faults.lose_answers(1);
    let answer = world.commit(Op::Put { row: first.clone(), when: When::Absent }).await?;
    assert_eq!(world.faults.left(), 0, "the fault has fired");
    assert_eq!(answer, Committed::Refused(vec![Held::No { found: Some(Box::new(stored(&first))) }]));
    Ok(())
}

#[tokio::test]
async fn of_many_who_write_at_once_one_wins() -> Result<()> {
    let world = World::new().await?;
    let txs: Vec<Tx> = (0..8).map(|_| next(1)).collect();
    let answers = futures_util::future::try_join_all(txs.iter().map(|tx| world.ledger.commit(tx))).await?;
    assert_eq!(answers.iter().filter(|answer| **answer == Committed::Done).count(), 1);
    let found = Some(Some(stored(&row(thing("a"), 1))));
    let losers = answers.iter().filter(|answer| **answer != Committed::Done);
    assert!(losers.into_iter().all(|answer| answer.lost(0).map(Option::<&_>::cloned) == found));
    Ok(())
}

/// A write with its log entry: so a transaction.
fn next(rev: u64) -> Tx {
    let row_ = row(thing("a"), rev);
    let op = match rev {
        1 => Op::Put { row: row_, when: When::Absent },
        rev => Op::Replace { row: row_, was: version(rev - 1), counter: None },
    };
    Tx::default().with(op).logged(row(Path::child(thing("a").key, format!("log-{rev}")), 1))
}
