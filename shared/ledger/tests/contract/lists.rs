//! Which rows stand in which lists: as many places as a row has, and no other.

use crate::fixtures::{
    ALL, END, Shared, add, child, delete, list, listed, must_commit, must_lose, must_put, path, places, put,
    read, replace, row, span, stand, touch,
};
use anyhow::Result;
use motorpool_control::ports::ledger::Placed;
use motorpool_control::ports::tx::{Row, When};

pub(crate) async fn a_row_stands_in_several_lists(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&listed("one", 1, &[("x", "5")])]).await?;
    must_put(&ledger, [&listed("two", 1, &[("x", "4"), ("y", "1")])]).await?;
    must_put(&ledger, [&listed("three", 1, &[("z", "9"), ("x", "6"), ("y", "0")]), &row("none", 1)]).await?;
    assert_eq!(list(&ledger, "x").await?, stand(&[("4", "two"), ("5", "one"), ("6", "three")]));
    assert_eq!(list(&ledger, "y").await?, stand(&[("0", "three"), ("1", "two")]));
    assert_eq!(list(&ledger, "z").await?, stand(&[("9", "three")]));
    let found = ledger.list(&span("y", "0", "0"), ALL).await?;
    let three =
        Placed { sort: "0".to_owned(), path: path("three"), row: Some(read(&ledger, "three").await?) };
    assert_eq!(found, [three], "wherever it stands, it is the row itself");
    Ok(())
}

pub(crate) async fn places_change_and_shrink_and_vanish(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&listed("a", 1, &[("x", "1"), ("y", "1"), ("z", "1")])]).await?;
    // What each revision says, and then x, y and z.
    let revisions = [
        (&[("x", "2"), ("y", "1"), ("z", "3")][..], [Some("2"), Some("1"), Some("3")]),
        (&[("z", "3"), ("x", "2"), ("y", "1")], [Some("2"), Some("1"), Some("3")]),
        (&[("y", "1"), ("x", "2")], [Some("2"), Some("1"), None]),
        (&[("z", "4")], [None, None, Some("4")]),
        (&[("z", "4"), ("y", "2"), ("x", "2")], [Some("2"), Some("2"), Some("4")]),
        (&[], [None, None, None]),
        (&[("y", "7")], [None, Some("7"), None]),
        (&[("x", "8"), ("y", "7")], [Some("8"), Some("7"), None]),
        (&[], [None, None, None]),
    ];
    for (rev, (places, stands)) in (2..).zip(revisions) {
        must_commit(&ledger, [replace(&listed("a", rev, places))]).await?;
        for (name, sort) in ["x", "y", "z"].into_iter().zip(stands) {
            let expected: Vec<(&str, &str)> = sort.into_iter().map(|sort| (sort, "a")).collect();
            assert_eq!(list(&ledger, name).await?, stand(&expected), "{name} of revision {rev}");
        }
    }
    Ok(())
}

pub(crate) async fn a_put_leaves_the_places_of_the_row_before(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&listed("a", 1, &[("x", "1"), ("y", "1"), ("z", "1")])]).await?;
    must_commit(&ledger, [put(&listed("a", 1, &[("y", "2"), ("x", "1")]), When::Is(row("a", 1).version))])
        .await?;
    assert_eq!(list(&ledger, "x").await?, stand(&[("1", "a")]));
    assert_eq!(list(&ledger, "y").await?, stand(&[("2", "a")]));
    assert_eq!(list(&ledger, "z").await?, []);
    must_put(&ledger, [&row("a", 1)]).await?;
    for name in ["x", "y", "z"] {
        assert_eq!(list(&ledger, name).await?, [], "{name}");
    }
    Ok(())
}

pub(crate) async fn a_deleted_row_stands_nowhere(ledger: Shared) -> Result<()> {
    let is = listed("a", 1, &[("x", "1"), ("y", "1"), ("z", "1")]);
    must_put(&ledger, [&is, &listed("b", 1, &[("y", "2")])]).await?;
    must_commit(&ledger, [delete(&is)]).await?;
    assert_eq!(list(&ledger, "x").await?, []);
    assert_eq!(list(&ledger, "y").await?, stand(&[("2", "b")]));
    assert_eq!(list(&ledger, "z").await?, []);
    Ok(())
}

pub(crate) async fn a_refused_write_moves_no_place(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&listed("a", 5, &[("x", "1"), ("y", "1")])]).await?;
    let moved = listed("a", 2, &[("x", "2"), ("z", "1")]);
    for op in [replace(&moved), put(&moved, When::Absent), delete(&moved)] {
        must_lose(&ledger, op).await?;
        assert_eq!(list(&ledger, "x").await?, stand(&[("1", "a")]));
        assert_eq!(list(&ledger, "y").await?, stand(&[("1", "a")]));
        assert_eq!(list(&ledger, "z").await?, []);
    }
    Ok(())
}

pub(crate) async fn a_row_stands_twice_in_one_list(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&listed("a", 1, &[("x", "3"), ("x", "1")]), &listed("b", 1, &[("x", "2")])]).await?;
    assert_eq!(list(&ledger, "x").await?, stand(&[("1", "a"), ("2", "b"), ("3", "a")]));
    must_commit(&ledger, [replace(&listed("a", 2, &[("x", "3"), ("x", "4"), ("x", "5")]))]).await?;
    assert_eq!(list(&ledger, "x").await?, stand(&[("2", "b"), ("3", "a"), ("4", "a"), ("5", "a")]));
    must_commit(&ledger, [replace(&listed("a", 3, &[("x", "5")]))]).await?;
    assert_eq!(list(&ledger, "x").await?, stand(&[("2", "b"), ("5", "a")]));
    Ok(())
}

/// Which of them comes first is not said.
pub(crate) async fn two_rows_stand_at_one_place(ledger: Shared) -> Result<()> {
    let (a, b) = (listed("a", 1, &[("x", "1")]), listed("b", 1, &[("x", "0"), ("x", "1")]));
    must_put(&ledger, [&b, &a]).await?;
    let mut both = list(&ledger, "x").await?;
    both.sort();
    assert_eq!(both, stand(&[("0", "b"), ("1", "a"), ("1", "b")]));
    assert_eq!(ledger.list(&span("x", "1", "1"), 1).await?.len(), 1);
    must_commit(&ledger, [delete(&b)]).await?;
    assert_eq!(list(&ledger, "x").await?, stand(&[("1", "a")]), "each goes by itself");
    Ok(())
}

pub(crate) async fn a_child_stands_in_a_list(ledger: Shared) -> Result<()> {
    let first = Row { places: places(&[("x", "2"), ("y", "2")]), ..child("a", "1") };
    let second = Row { places: places(&[("x", "1")]), ..child("a", "2") };
    must_put(&ledger, [&first, &second, &listed("a", 1, &[("x", "3")])]).await?;
    let paths = |found: Vec<(String, _)>| found.into_iter().map(|(_, path)| path).collect::<Vec<_>>();
    assert_eq!(paths(list(&ledger, "x").await?), [second.path.clone(), first.path.clone(), path("a")]);
    must_commit(&ledger, [delete(&first)]).await?;
    assert_eq!(paths(list(&ledger, "x").await?), [second.path, path("a")]);
    assert_eq!(list(&ledger, "y").await?, []);
    Ok(())
}

pub(crate) async fn a_list_shows_rows_as_they_are(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&listed("a", 1, &[("x", "1"), ("y", "1")])]).await?;
    must_commit(&ledger, [replace(&listed("a", 2, &[("x", "1"), ("y", "1")]))]).await?;
    must_commit(&ledger, [add("a", 3, 0, 9)]).await?;
    ledger.touch(&touch("a", &[("seen", 5)])).await?;
    let is = read(&ledger, "a").await?;
    assert_eq!((is.beside.counter, is.beside.marks.len()), (3, 1));
    for name in ["x", "y"] {
        let found = ledger.list(&span(name, "", END), ALL).await?;
        assert_eq!(found.into_iter().map(|placed| placed.row).collect::<Vec<_>>(), [Some(is.clone())]);
    }
    Ok(())
}
