//! Documents as they are written and read, and what stands beside them.

use crate::fixtures::{
    Shared, add, at, check, child, delete, find, key, must_commit, must_put, path, put, read, replace, row,
    stored, touch,
};
use anyhow::Result;
use motorpool_control::ports::tx::{Row, Stored, When};
use motorpool_domain::record::{Beside, Key, Kind, Path, Version};

/// More than a store may give at once.
const MANY: usize = 250;

pub(crate) async fn a_row_is_read_as_written(ledger: Shared) -> Result<()> {
    let version = Version { state: "größer als ''\"%_".to_owned(), epoch: 1 << 40, rev: 1 << 50 };
    let spaced = "{ \"b\":\t1.50,\n\"a\": \"\\u0000 größer 🚗\" }".to_owned();
    let long = format!(r#"{{"long":"{}"}}"#, "x".repeat(100_000));
    for (id, doc) in [("a", spaced), ("b", long), ("b#%'\"ü 🚗", "null".to_owned())] {
        let is = Row { version: version.clone(), doc, ..row(id, 1) };
        must_put(&ledger, [&is]).await?;
        assert_eq!(find(&ledger, &is.path).await?, Some(stored(&is)));
    }
    let event = Row { path: Path::child(key("a"), "0001 'ü#/"), ..row("a", 1) };
    must_put(&ledger, [&event]).await?;
    assert_eq!(find(&ledger, &event.path).await?, Some(stored(&event)));
    Ok(())
}

pub(crate) async fn rows_are_read_in_the_order_asked_for(ledger: Shared) -> Result<()> {
    assert_eq!(ledger.get(&[]).await?, []);
    let rows: Vec<Row> = (0..MANY).map(|n| row(&format!("{n:03}"), 1)).collect();
    for together in rows.chunks(20) {
        must_put(&ledger, together).await?;
    }
    let asked: Vec<Path> = ["200", "none", "003", "200", "100", "none"].map(path).into();
    let found = ledger.get(&asked).await?;
    let expected = ["200", "", "003", "200", "100", ""];
    assert_eq!(found, expected.map(|id| (!id.is_empty()).then(|| stored(&row(id, 1)))));

    let mut asked: Vec<Path> = rows.iter().rev().map(|row| row.path.clone()).collect();
    asked.push(path("none"));
    let mut expected: Vec<Option<Stored>> = rows.iter().rev().map(|row| Some(stored(row))).collect();
    expected.push(None);
    assert_eq!(ledger.get(&asked).await?, expected);
    Ok(())
}

/// Whatever a store makes of kind, id and child.
pub(crate) async fn a_path_is_not_taken_for_another(ledger: Shared) -> Result<()> {
    let of = |kind, id: &str| Key::new(Kind::new(kind), id);
    let paths = [
        of("thing", "a").into(),
        of("thing", "A").into(),
        of("thing", "a/b").into(),
        of("thing", "a#b").into(),
        of("things", "a").into(),
        Path::child(of("thing", "a"), "b"),
        Path::child(of("thing", "a"), "b/c"),
        Path::child(of("thing", "a/b"), "c"),
        Path::child(of("thing", "a#b"), "c"),
        Path::child(of("thing", "a"), "b#c"),
        Path::child(of("thing", "b"), "a"),
    ];
    let rows: Vec<Row> =
        (0..).zip(&paths).map(|(rev, path)| Row { path: path.clone(), ..row("a", rev) }).collect();
    must_put(&ledger, &rows).await?;
    let all: Vec<Option<Stored>> = rows.iter().map(|row| Some(stored(row))).collect();
    assert_eq!(ledger.get(&paths).await?, all);
    for row in &rows {
        must_commit(&ledger, [delete(row)]).await?;
    }
    assert_eq!(ledger.get(&paths).await?, vec![None; rows.len()]);
    Ok(())
}

/// With a counter and a mark.
async fn used(ledger: &Shared, id: &str) -> Result<Beside> {
    must_put(ledger, [&row(id, 1)]).await?;
    must_commit(ledger, [add(id, 4, 0, 9)]).await?;
    ledger.touch(&touch(id, &[("seen", 3)])).await?;
    let beside = read(ledger, id).await?.beside;
    assert_eq!((beside.counter, beside.instant("seen")), (4, Some(at(3))));
    Ok(beside)
}

pub(crate) async fn a_put_drops_counter_and_marks(ledger: Shared) -> Result<()> {
    for when in [When::Always, When::Is(row("a", 1).version)] {
        used(&ledger, "a").await?;
        must_commit(&ledger, [put(&row("a", 2), when)]).await?;
        assert_eq!(read(&ledger, "a").await?, stored(&row("a", 2)));
    }
    used(&ledger, "b").await?;
    must_put(&ledger, [&row("b", 1)]).await?;
    assert_eq!(read(&ledger, "b").await?, stored(&row("b", 1)), "of the same version, too");
    Ok(())
}

pub(crate) async fn a_replacement_keeps_counter_and_marks(ledger: Shared) -> Result<()> {
    let before = used(&ledger, "a").await?;
    let next = row("a", 2);
    must_commit(&ledger, [replace(&next)]).await?;
    let beside = Beside { version: next.version.clone(), ..before };
    assert_eq!(read(&ledger, "a").await?, Stored { beside, ..stored(&next) });

    ledger.touch(&touch("a", &[("announced", 9)])).await?;
    must_commit(&ledger, [replace(&row("a", 3))]).await?;
    let beside = read(&ledger, "a").await?.beside;
    assert_eq!(beside.counter, 4);
    assert_eq!(beside.marks, [("announced".to_owned(), 9), ("seen".to_owned(), 3)].into());
    Ok(())
}

pub(crate) async fn what_comes_after_a_deletion_begins_anew(ledger: Shared) -> Result<()> {
    used(&ledger, "a").await?;
    must_put(&ledger, [&child("a", "1")]).await?;
    must_commit(&ledger, [delete(&row("a", 1))]).await?;
    assert_eq!(find(&ledger, &path("a")).await?, None);
    let under = child("a", "1");
    assert_eq!(find(&ledger, &under.path).await?, Some(stored(&under)), "what stands under it stays");
    must_commit(&ledger, [check("a", When::Absent)]).await?;
    must_commit(&ledger, [put(&row("a", 1), When::Absent)]).await?;
    assert_eq!(read(&ledger, "a").await?, stored(&row("a", 1)));
    Ok(())
}

pub(crate) async fn a_document_may_be_of_another_schema_and_kept_for_a_while(ledger: Shared) -> Result<()> {
    // In the year 2100, so that nobody deletes it meanwhile.
    let first = Row { schema: u32::MAX, kept_until: Some(at(4_102_444_800_999)), ..row("a", 1) };
    must_put(&ledger, [&first]).await?;
    assert_eq!(read(&ledger, "a").await?, stored(&first));
    let second = Row { schema: 0, ..row("a", 2) };
    must_commit(&ledger, [replace(&second)]).await?;
    assert_eq!(read(&ledger, "a").await?, stored(&second));
    Ok(())
}

pub(crate) async fn the_ledger_answers(ledger: Shared) -> Result<()> {
    ledger.ping().await?;
    must_put(&ledger, [&row("a", 1)]).await?;
    Ok(ledger.ping().await?)
}
