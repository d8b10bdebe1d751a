//! Stretches of a list: their order, their ends and their bounds.

use crate::fixtures::{ALL, END, LISTS, Shared, list, listed, must_put, path, span, stand, stored};
use anyhow::Result;
use motorpool_control::ports::ledger::Placed;
use motorpool_control::ports::tx::{MOST_WRITES, Row};

/// In their order: byte by byte.
const SORTS: [&str; 12] = ["!", "#1", "0", "00", "1", "10", "2", "A", "Z", "a", "a b", "é"];

async fn sorted(ledger: &Shared, name: &str) -> Result<()> {
    let rows: Vec<Row> = SORTS.iter().rev().map(|sort| listed(sort, 1, &[(name, sort)])).collect();
    must_put(ledger, &rows).await
}

async fn sorts(ledger: &Shared, low: &str, high: &str, at_most: usize) -> Result<Vec<String>> {
    let placed = ledger.list(&span("x", low, high), at_most).await?;
    Ok(placed.into_iter().map(|placed| placed.sort).collect())
}

pub(crate) async fn a_list_is_in_the_order_of_bytes(ledger: Shared) -> Result<()> {
    sorted(&ledger, "x").await?;
    assert!(SORTS.is_sorted());
    assert_eq!(list(&ledger, "x").await?, stand(&SORTS.map(|sort| (sort, sort))));
    let first = ledger.list(&span("x", "", END), 1).await?;
    let row = listed("!", 1, &[]);
    assert_eq!(first, [Placed { sort: "!".to_owned(), path: path("!"), row: Some(stored(&row)) }]);
    Ok(())
}

pub(crate) async fn a_span_includes_both_ends(ledger: Shared) -> Result<()> {
    sorted(&ledger, "x").await?;
    for (low, high, within) in [
        ("0", "10", &["0", "00", "1", "10"][..]),
        ("0", "1", &["0", "00", "1"]),
        ("00", "00", &["00"]),
        ("01", "2", &["1", "10", "2"]),
        ("3", "a", &["A", "Z", "a"]),
        ("a", "aa", &["a", "a b"]),
        ("b", END, &["é"]),
        ("", "#", &["!"]),
    ] {
        assert_eq!(sorts(&ledger, low, high, ALL).await?, within, "{low} to {high}");
        assert_eq!(ledger.count(&span("x", low, high), ALL).await?, within.len(), "{low} to {high}");
    }
    Ok(())
}

pub(crate) async fn a_span_of_nothing_is_empty(ledger: Shared) -> Result<()> {
    let nothing = [("x", "3", "9"), ("x", "2", "1"), ("x", END, ""), ("none", "", END)];
    for filled in [false, true] {
        for (name, low, high) in nothing {
            let span = span(name, low, high);
            assert_eq!(ledger.list(&span, ALL).await?, [], "{span:?}");
            assert_eq!(ledger.count(&span, ALL).await?, 0, "{span:?}");
        }
        if !filled {
            sorted(&ledger, "x").await?;
        }
    }
    Ok(())
}

pub(crate) async fn lists_of_similar_names_are_apart(ledger: Shared) -> Result<()> {
    let names = ["x", "X", "x#", "x#1", "xx", "x%", "é"];
    for name in names {
        must_put(&ledger, [&listed(name, 1, &[(name, "1")])]).await?;
    }
    for name in names {
        assert_eq!(list(&ledger, name).await?, stand(&[("1", name)]));
    }
    Ok(())
}

pub(crate) async fn a_list_is_read_up_to_a_bound(ledger: Shared) -> Result<()> {
    sorted(&ledger, "x").await?;
    for at_most in [0, 1, 5, SORTS.len() - 1, SORTS.len(), ALL] {
        let expected: Vec<&str> = SORTS.into_iter().take(at_most).collect();
        assert_eq!(sorts(&ledger, "", END, at_most).await?, expected, "{at_most}");
    }
    assert_eq!(sorts(&ledger, "1", "a", 2).await?, ["1", "10"]);
    Ok(())
}

pub(crate) async fn a_list_is_counted_up_to_a_bound(ledger: Shared) -> Result<()> {
    sorted(&ledger, "x").await?;
    for at_most in [0, 1, 5, SORTS.len() - 1, SORTS.len(), ALL] {
        let expected = SORTS.len().min(at_most);
        assert_eq!(ledger.count(&span("x", "", END), at_most).await?, expected, "{at_most}");
    }
    assert_eq!(ledger.count(&span("x", "1", "a"), 2).await?, 2);
    Ok(())
}

/// Longer than a store may give at once, of rows that stand there by their second place or by their first.
pub(crate) async fn a_long_list_is_read_whole(ledger: Shared) -> Result<()> {
    const LONG: usize = 250;
    let rows: Vec<Row> = (0..LONG)
        .map(|n| {
            let sort = format!("{n:03}");
            let places = [("x", sort.as_str()), ("y", sort.as_str())];
            let turned = if n % 2 == 0 { places } else { [places[1], places[0]] };
            listed(&sort, 1, &turned)
        })
        .collect();
    for together in rows.chunks(MOST_WRITES / LISTS) {
        must_put(&ledger, together).await?;
    }
    for name in ["x", "y"] {
        let found = ledger.list(&span(name, "", END), ALL).await?;
        let found: Vec<_> = found.into_iter().map(|placed| placed.row).collect();
        let expected: Vec<_> = rows.iter().map(|row| Some(stored(row))).collect();
        assert_eq!(found, expected);
        assert_eq!(ledger.count(&span(name, "", END), ALL).await?, LONG);
        assert_eq!(ledger.list(&span(name, "", END), LONG - 1).await?.len(), LONG - 1);
    }
    Ok(())
}
