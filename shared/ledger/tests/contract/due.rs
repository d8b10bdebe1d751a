//! What is due: the longest overdue first.

use crate::fixtures::{
    ALL, LISTS, Shared, add, at, check, child, delete, must_commit, must_lose, must_put, path, put, replace,
    row, touch,
};
use anyhow::Result;
use motorpool_control::ports::tx::{MOST_WRITES, Row, When};
use motorpool_domain::record::Path;

fn due_at(id: &str, rev: u64, millis: u64) -> Row {
    Row { due: Some(at(millis)), ..row(id, rev) }
}

/// Ids have nothing to do with the order.
async fn four(ledger: &Shared) -> Result<()> {
    let rows = [due_at("c", 1, 1_000), due_at("a", 1, 2_000), due_at("d", 1, 2_001), due_at("b", 1, 30_000)];
    must_put(ledger, rows.iter().rev()).await
}

pub(crate) async fn what_is_due_comes_in_order(ledger: Shared) -> Result<()> {
    assert_eq!(ledger.due(at(1 << 50), ALL).await?, []);
    four(&ledger).await?;
    for (now, due) in [
        (0, &[][..]),
        (999, &[]),
        (1_000, &["c"]),
        (2_000, &["c", "a"]),
        (2_001, &["c", "a", "d"]),
        (29_999, &["c", "a", "d"]),
        (1 << 50, &["c", "a", "d", "b"]),
    ] {
        let expected: Vec<Path> = due.iter().map(|id| path(id)).collect();
        assert_eq!(ledger.due(at(now), ALL).await?, expected, "at {now}");
    }
    Ok(())
}

pub(crate) async fn what_is_due_is_read_up_to_a_bound(ledger: Shared) -> Result<()> {
    four(&ledger).await?;
    for at_most in [0, 1, 2, 3, 4, ALL] {
        let expected: Vec<Path> = ["c", "a", "d", "b"].into_iter().take(at_most).map(path).collect();
        assert_eq!(ledger.due(at(30_000), at_most).await?, expected, "{at_most}");
    }
    Ok(())
}

pub(crate) async fn what_is_due_moves_with_its_row(ledger: Shared) -> Result<()> {
    four(&ledger).await?;
    let due = async |expected: &[&str]| {
        let expected: Vec<Path> = expected.iter().map(|id| path(id)).collect();
        assert_eq!(ledger.due(at(40_000), ALL).await?, expected);
        anyhow::Ok(())
    };
    must_commit(&ledger, [replace(&due_at("c", 2, 2_500))]).await?;
    due(&["a", "d", "c", "b"]).await?;
    must_commit(&ledger, [put(&due_at("b", 2, 1), When::Is(row("b", 1).version))]).await?;
    due(&["b", "a", "d", "c"]).await?;
    must_commit(&ledger, [replace(&row("a", 2))]).await?;
    due(&["b", "d", "c"]).await?;
    must_put(&ledger, [&row("b", 3)]).await?;
    due(&["d", "c"]).await?;
    must_commit(&ledger, [delete(&due_at("d", 1, 0))]).await?;
    due(&["c"]).await?;
    must_commit(&ledger, [replace(&due_at("a", 3, 0)), replace(&due_at("c", 3, 50_000))]).await?;
    due(&["a"]).await
}

pub(crate) async fn what_is_never_due_is_not_found(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&row("a", 1), &child("a", "1")]).await?;
    must_put(&ledger, [&Row { kept_until: Some(at(4_102_444_800_000)), ..row("b", 1) }]).await?;
    assert_eq!(ledger.due(at(1 << 50), ALL).await?, []);
    Ok(())
}

pub(crate) async fn only_a_document_moves_what_is_due(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&due_at("a", 1, 5)]).await?;
    must_commit(&ledger, [add("a", 1, 0, 9)]).await?;
    must_commit(&ledger, [check("a", When::Is(row("a", 1).version))]).await?;
    ledger.touch(&touch("a", &[("seen", 9)])).await?;
    must_lose(&ledger, replace(&due_at("a", 5, 1))).await?;
    must_lose(&ledger, delete(&row("a", 5))).await?;
    assert_eq!(ledger.due(at(4), ALL).await?, []);
    assert_eq!(ledger.due(at(5), ALL).await?, [path("a")]);
    Ok(())
}

pub(crate) async fn a_child_may_be_due(ledger: Shared) -> Result<()> {
    let [first, second] =
        [("1", 7), ("a/b", 5)].map(|(name, millis)| Row { due: Some(at(millis)), ..child("a", name) });
    must_put(&ledger, [&first, &second, &due_at("a", 1, 6), &due_at("a/1", 1, 8)]).await?;
    let expected = [second.path, path("a"), first.path.clone(), path("a/1")];
    assert_eq!(ledger.due(at(9), ALL).await?, expected);
    must_commit(&ledger, [delete(&first)]).await?;
    assert_eq!(ledger.due(at(9), ALL).await?.len(), 3);
    Ok(())
}

/// However a store spreads it. Two that are due at one instant come in either order.
pub(crate) async fn much_that_is_due_comes_in_order(ledger: Shared) -> Result<()> {
    const MUCH: usize = 120;
    let rows: Vec<Row> =
        (0..MUCH).zip(0..).map(|(n, millis)| due_at(&format!("{n:03}"), 1, 100 + millis / 2 * 2)).collect();
    for together in rows.chunks(MOST_WRITES / LISTS) {
        must_put(&ledger, together).await?;
    }
    let mut due = ledger.due(at(1_000), ALL).await?;
    for together in due.chunks_mut(2) {
        together.sort();
    }
    let expected: Vec<Path> = rows.iter().map(|row| row.path.clone()).collect();
    assert_eq!(due, expected);
    let first: Vec<Path> = expected.into_iter().take(50).collect();
    let mut due = ledger.due(at(1_000), 50).await?;
    due.sort();
    assert_eq!(due, first);
    Ok(())
}
