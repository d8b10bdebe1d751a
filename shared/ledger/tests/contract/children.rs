//! What stands under a key, by name.

use crate::fixtures::{
    ALL, END, LISTS, Shared, add, child, delete, key, must_commit, must_put, replace, row, stored, touch,
    version,
};
use anyhow::Result;
use motorpool_control::ports::ledger::{Children, Order, Touch};
use motorpool_control::ports::tx::{MOST_WRITES, Op, Row, Stored};
use motorpool_domain::record::{Beside, Key, Kind, Path};

/// In their order: byte by byte.
const NAMES: [&str; 9] = ["#", "0", "00", "1", "10", "B", "a", "a/b", "é"];

async fn named(ledger: &Shared) -> Result<()> {
    let rows: Vec<Row> = NAMES.iter().rev().map(|name| child("a", name)).collect();
    must_put(ledger, &rows).await
}

fn between(id: &str, low: &str, high: &str, order: Order) -> Children {
    Children { of: key(id), low: low.to_owned(), high: high.to_owned(), order }
}

async fn names(ledger: &Shared, of: Children, at_most: usize) -> Result<Vec<String>> {
    let found = ledger.children(&of, at_most).await?;
    Ok(found.into_iter().filter_map(|stored| stored.path.child).collect())
}

pub(crate) async fn children_are_read_by_name_up_and_down(ledger: Shared) -> Result<()> {
    assert_eq!(ledger.children(&between("a", "", END, Order::Rising), ALL).await?, []);
    named(&ledger).await?;
    assert!(NAMES.is_sorted());
    let expected = NAMES.map(|name| stored(&child("a", name)));
    assert_eq!(ledger.children(&between("a", "", END, Order::Rising), ALL).await?, expected);
    let falling: Vec<Stored> = expected.into_iter().rev().collect();
    assert_eq!(ledger.children(&between("a", "", END, Order::Falling), ALL).await?, falling);
    Ok(())
}

pub(crate) async fn children_are_read_between_names(ledger: Shared) -> Result<()> {
    named(&ledger).await?;
    for (low, high, expected) in [
        ("0", "1", &["0", "00", "1"][..]),
        ("00", "00", &["00"]),
        ("01", "9", &["1", "10"]),
        ("", "0", &["#", "0"]),
        ("a/", END, &["a/b", "é"]),
        ("2", "9", &[]),
        ("1", "0", &[]),
        (END, "", &[]),
    ] {
        let mut expected: Vec<&str> = expected.to_vec();
        let rising = between("a", low, high, Order::Rising);
        assert_eq!(names(&ledger, rising, ALL).await?, expected, "{low} to {high}");
        expected.reverse();
        let falling = between("a", low, high, Order::Falling);
        assert_eq!(names(&ledger, falling, ALL).await?, expected, "{high} down to {low}");
    }
    Ok(())
}

pub(crate) async fn children_are_read_up_to_a_bound(ledger: Shared) -> Result<()> {
    named(&ledger).await?;
    for at_most in [0, 1, 4, NAMES.len(), ALL] {
        let rising: Vec<&str> = NAMES.into_iter().take(at_most).collect();
        assert_eq!(names(&ledger, between("a", "", END, Order::Rising), at_most).await?, rising);
        let falling: Vec<&str> = NAMES.into_iter().rev().take(at_most).collect();
        assert_eq!(names(&ledger, between("a", "", END, Order::Falling), at_most).await?, falling);
    }
    assert_eq!(names(&ledger, between("a", "0", "10", Order::Falling), 2).await?, ["10", "1"]);
    Ok(())
}

pub(crate) async fn children_are_of_one_key_and_not_the_record_itself(ledger: Shared) -> Result<()> {
    let of_another_kind = Path::child(Key::new(Kind::new("things"), "a"), "5");
    let others =
        [row("a", 1), row("a/5", 1), row("b", 1), child("b", "5"), child("a/5", "6"), child("A", "5")];
    must_put(&ledger, &others).await?;
    must_put(&ledger, [&Row { path: of_another_kind, ..row("a", 1) }]).await?;
    for order in [Order::Rising, Order::Falling] {
        assert_eq!(ledger.children(&between("a", "", END, order), ALL).await?, []);
    }
    must_put(&ledger, [&child("a", "5")]).await?;
    for order in [Order::Rising, Order::Falling] {
        let found = ledger.children(&between("a", "", END, order), ALL).await?;
        assert_eq!(found, [stored(&child("a", "5"))], "{order:?}");
    }
    Ok(())
}

pub(crate) async fn children_are_as_they_are_now(ledger: Shared) -> Result<()> {
    let all = between("a", "", END, Order::Rising);
    must_put(&ledger, [&child("a", "1"), &child("a", "2"), &child("a", "3")]).await?;
    let second = Row { version: version(2), doc: "2".to_owned(), ..child("a", "2") };
    let added = Op::Add { path: child("a", "3").path, was: None, by: 4, at_least: 0, at_most: 9 };
    must_commit(&ledger, [delete(&child("a", "1")), replace(&second), added]).await?;
    ledger.touch(&Touch { path: child("a", "3").path, ..touch("a", &[("seen", 5)]) }).await?;
    let third = stored(&child("a", "3"));
    let beside = Beside { counter: 4, marks: [("seen".to_owned(), 5)].into(), ..third.beside.clone() };
    assert_eq!(ledger.children(&all, ALL).await?, [stored(&second), Stored { beside, ..third }]);

    must_put(&ledger, [&row("a", 1)]).await?;
    must_commit(&ledger, [add("a", 1, 0, 9)]).await?;
    must_commit(&ledger, [delete(&row("a", 1))]).await?;
    assert_eq!(ledger.children(&all, ALL).await?.len(), 2, "with their record or without");
    Ok(())
}

/// More than a store may give at once: of children that stand in lists, and are long.
pub(crate) async fn many_children_are_read_whole(ledger: Shared) -> Result<()> {
    const MANY: usize = 250;
    let long = format!(r#""{}""#, "x".repeat(10_000));
    let rows: Vec<Row> =
        (0..MANY).map(|n| Row { doc: long.clone(), ..child("a", &format!("{n:03}")) }).collect();
    for together in rows.chunks(MOST_WRITES / LISTS) {
        must_put(&ledger, together).await?;
    }
    let found = ledger.children(&between("a", "", END, Order::Rising), ALL).await?;
    assert!(
        found.iter().eq(rows.iter().map(stored).collect::<Vec<_>>().iter()),
        "{} were found",
        found.len()
    );
    let found = ledger.children(&between("a", "", END, Order::Falling), MANY - 1).await?;
    assert!(found.iter().eq(rows.iter().skip(1).rev().map(stored).collect::<Vec<_>>().iter()));
    Ok(())
}
