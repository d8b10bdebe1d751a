//! All of a transaction, or nothing of it.

use crate::fixtures::{
    ALL, END, LISTS, Shared, add, at, check, child, commit, counter, delete, find, key, list, listed,
    must_commit, must_put, path, places, put, read, replace, row, stand, stored, touch, version,
};
use anyhow::{Context, Result, bail};
use motorpool_control::ports::ledger::{Children, LedgerError, Order};
use motorpool_control::ports::tx::{Committed, Held, MOST_WRITES, Op, Row, Stored, Tx, TxError, When};
use motorpool_domain::Timestamp;
use motorpool_domain::record::Path;

/// One of each kind, on rows that `prepared` has left so.
fn each_kind() -> [Op; 6] {
    [
        put(&row("put", 2), When::Is(version(1))),
        put(
            &Row { due: Some(at(1)), ..listed("new", 1, &[("things", "new"), ("more", "new")]) },
            When::Absent,
        ),
        replace(&listed("replaced", 2, &[("things", "replaced")])),
        add("added", 2, 0, 9),
        check("checked", When::Is(version(1))),
        delete(&row("deleted", 1)),
    ]
}

const ROWS: [&str; 6] = ["put", "new", "replaced", "added", "checked", "deleted"];

async fn prepared(ledger: &Shared) -> Result<()> {
    let rows = ["put", "replaced", "added", "checked", "deleted"].map(|id| row(id, 1));
    must_put(ledger, &rows).await
}

/// As much of the ledger as these cases write.
type Image = (Vec<Option<Stored>>, Vec<Vec<(String, Path)>>, Vec<Stored>, Vec<Path>);

async fn image(ledger: &Shared) -> Result<Image> {
    let rows = ledger.get(&ROWS.map(path)).await?;
    let lists = vec![list(ledger, "things").await?, list(ledger, "more").await?];
    Ok((rows, lists, log_of(ledger, "put").await?, ledger.due(FOREVER, ALL).await?))
}

const FOREVER: Timestamp = Timestamp::from_millis(1 << 50);

async fn log_of(ledger: &Shared, id: &str) -> Result<Vec<Stored>> {
    let all = Children { of: key(id), low: String::new(), high: END.to_owned(), order: Order::Rising };
    Ok(ledger.children(&all, ALL).await?)
}

pub(crate) async fn inv_02_one_failed_condition_keeps_all_from_being_written(ledger: Shared) -> Result<()> {
    prepared(&ledger).await?;
    let before = image(&ledger).await?;
    // The one that fails, before, between and after the others.
    for place in 0..=each_kind().len() {
        let mut ops = Vec::from(each_kind());
        ops.insert(place, check("missing", When::Is(version(1))));
        let mut answers = vec![Held::Yes; ops.len()];
        answers.splice(place..=place, [Held::No { found: None }]);
        let tx = Tx { ops, log: vec![child("put", "1")] };
        assert_eq!(ledger.commit(&tx).await?, Committed::Refused(answers), "at {place}");
        assert_eq!(image(&ledger).await?, before, "at {place}");
    }
    Ok(())
}

pub(crate) async fn each_operation_answers_for_itself(ledger: Shared) -> Result<()> {
    prepared(&ledger).await?;
    let before = image(&ledger).await?;
    let found = |id| Held::No { found: Some(Box::new(stored(&row(id, 1)))) };
    let ops = [
        put(&row("put", 2), When::Absent),
        put(&row("new", 1), When::Absent),
        replace(&row("replaced", 3)),
        add("added", 2, 3, 9),
        check("checked", When::Always),
        delete(&row("deleted", 2)),
        delete(&row("missing", 1)),
    ];
    let answers = vec![
        found("put"),
        Held::Yes,
        found("replaced"),
        found("added"),
        Held::Yes,
        found("deleted"),
        Held::No { found: None },
    ];
    assert_eq!(commit(&ledger, ops).await?, Committed::Refused(answers));
    assert_eq!(image(&ledger).await?, before);
    Ok(())
}

pub(crate) async fn operations_of_all_kinds_are_written_together(ledger: Shared) -> Result<()> {
    prepared(&ledger).await?;
    let tx = Tx { ops: each_kind().into(), log: vec![child("put", "1"), child("put", "2")] };
    assert_eq!(ledger.commit(&tx).await?, Committed::Done);
    let now = [("put", 2), ("new", 1), ("replaced", 2), ("added", 1), ("checked", 1)];
    for (id, rev) in now {
        assert_eq!(read(&ledger, id).await?.beside.version, version(rev), "{id}");
    }
    assert_eq!(counter(&ledger, "added").await?, 2);
    assert_eq!(find(&ledger, &path("deleted")).await?, None);
    assert_eq!(list(&ledger, "things").await?, stand(&[("new", "new"), ("replaced", "replaced")]));
    assert_eq!(list(&ledger, "more").await?, stand(&[("new", "new")]));
    assert_eq!(ledger.due(FOREVER, ALL).await?, [path("new")]);
    assert_eq!(log_of(&ledger, "put").await?, [child("put", "1"), child("put", "2")].map(|row| stored(&row)));
    Ok(())
}

pub(crate) async fn conditions_are_of_what_was_there_before_the_transaction(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&row("a", 1)]).await?;
    must_commit(&ledger, [replace(&row("a", 2)), check("b", When::Absent)]).await?;
    // Whichever comes first: a log entry on the way is no reason to refuse another operation.
    let tx = Tx { ops: vec![check("a", When::Is(version(2)))], log: vec![row("b", 1)] };
    assert_eq!(ledger.commit(&tx).await?, Committed::Done);
    assert_eq!(read(&ledger, "b").await?, stored(&row("b", 1)));
    Ok(())
}

pub(crate) async fn a_log_is_written_with_the_rest_or_not_at_all(ledger: Shared) -> Result<()> {
    let first = Tx { ops: vec![put(&row("a", 1), When::Absent)], log: vec![child("a", "1")] };
    assert_eq!(ledger.commit(&first).await?, Committed::Done);
    let late = Tx { ops: vec![put(&row("a", 1), When::Absent)], log: vec![child("a", "2"), child("b", "1")] };
    let found = Some(Box::new(stored(&row("a", 1))));
    assert_eq!(ledger.commit(&late).await?, Committed::Refused(vec![Held::No { found }]));
    assert_eq!(log_of(&ledger, "a").await?, [stored(&child("a", "1"))]);
    assert_eq!(log_of(&ledger, "b").await?, []);
    Ok(())
}

pub(crate) async fn a_log_alone_is_written_over_what_was_there(ledger: Shared) -> Result<()> {
    let first = Row { lists: 1, due: Some(at(1)), places: places(&[("things", "1")]), ..row("a", 1) };
    let second = Row { lists: 1, places: places(&[("more", "1")]), ..row("a", 5) };
    assert_eq!(ledger.commit(&Tx::default().logged(first)).await?, Committed::Done);
    must_commit(&ledger, [add("a", 2, 0, 9)]).await?;
    ledger.touch(&touch("a", &[("seen", 1)])).await?;
    let tx = Tx::default().logged(second.clone()).logged(child("a", "1"));
    assert_eq!(ledger.commit(&tx).await?, Committed::Done);
    assert_eq!(read(&ledger, "a").await?, stored(&second), "a whole new row");
    assert_eq!(list(&ledger, "things").await?, []);
    assert_eq!(list(&ledger, "more").await?, [("1".to_owned(), path("a"))]);
    assert_eq!(ledger.due(FOREVER, ALL).await?, []);
    Ok(())
}

pub(crate) async fn inv_07_fault_15_a_transaction_again_is_refused_by_its_own_writes(
    ledger: Shared,
) -> Result<()> {
    prepared(&ledger).await?;
    let tx = Tx { ops: each_kind().into(), log: vec![child("put", "1")] };
    assert_eq!(ledger.commit(&tx).await?, Committed::Done);
    let written = image(&ledger).await?;
    let own = |row: Row| Held::No { found: Some(Box::new(stored(&row))) };
    let answers = vec![
        own(row("put", 2)),
        own(row("new", 1)),
        own(row("replaced", 2)),
        Held::Yes,
        Held::Yes,
        Held::No { found: None },
    ];
    for _ in 0..2 {
        assert_eq!(ledger.commit(&tx).await?, Committed::Refused(answers.clone()));
        assert_eq!(image(&ledger).await?, written);
    }
    Ok(())
}

pub(crate) async fn a_transaction_of_a_hundred_writes_is_taken(ledger: Shared) -> Result<()> {
    let rows: Vec<Row> = (0..MOST_WRITES / LISTS).map(|n| row(&format!("{n:03}"), 1)).collect();
    let ops: Vec<Op> = rows.iter().map(|row| put(row, When::Absent)).collect();
    let log = vec![Row { lists: 0, ..child("000", "1") }];
    assert_eq!(ops.len() * LISTS + log.len(), MOST_WRITES);
    assert_eq!(ledger.commit(&Tx { ops, log }).await?, Committed::Done);
    let paths: Vec<Path> = rows.iter().map(|row| row.path.clone()).collect();
    assert!(ledger.get(&paths).await?.iter().all(Option::is_some));

    let checks = (0..MOST_WRITES).map(|n| check(&format!("none-{n}"), When::Absent));
    must_commit(&ledger, checks).await
}

pub(crate) async fn what_is_no_transaction_is_an_error_and_changes_nothing(ledger: Shared) -> Result<()> {
    let crowded = listed("a", 1, &[("1", "a"), ("2", "a"), ("3", "a"), ("4", "a")]);
    let a = || put(&row("a", 1), When::Always);
    let entry = |n| Row { lists: 0, ..child("a", &format!("{n}")) };
    let rows = |many: usize| (0..many).map(entry).collect();
    for (tx, error) in [
        (Tx::default(), TxError::Empty),
        (Tx { ops: vec![a()], log: rows(98) }, TxError::TooMany(101)),
        (Tx { ops: vec![], log: rows(101) }, TxError::TooMany(101)),
        (Tx::default().with(a()).with(add("a", 1, 0, 9)), TxError::Twice(path("a"))),
        (
            Tx::default().with(a()).with(check("b", When::Absent)).logged(row("a", 1)),
            TxError::Twice(path("a")),
        ),
        (Tx::default().logged(row("a", 1)).logged(row("a", 2)), TxError::Twice(path("a"))),
        (Tx::default().with(put(&crowded, When::Always)), TxError::Lists(path("a"))),
        (Tx::default().logged(crowded), TxError::Lists(path("a"))),
    ] {
        assert_eq!(tx.check(), Err(error.clone()));
        match ledger.commit(&tx).await {
            Err(LedgerError::Failed { source, .. }) => {
                let told = source.downcast_ref::<TxError>().context("another error")?;
                assert_eq!(*told, error);
            }
            other => bail!("{error} became {other:?}"),
        }
        assert_eq!(find(&ledger, &path("a")).await?, None, "{error}");
        assert_eq!(log_of(&ledger, "a").await?, [], "{error}");
    }
    Ok(())
}
