//! Counters: never beyond their bounds, whoever adds at the same time.

use crate::fixtures::{
    ALL, Shared, add, at, commit, counter, find, list, listed, must_commit, must_lose, must_put, path, read,
    row, stand, stored, touch,
};
use anyhow::Result;
use motorpool_control::ports::tx::{Committed, Op, Row, Stored};
use motorpool_domain::record::Beside;
use tokio::task::JoinSet;

pub(crate) async fn inv_17_a_sum_is_within_its_bounds(ledger: Shared) -> Result<()> {
    assert_eq!(must_lose(&ledger, add("a", 1, 0, 9)).await?, None);
    assert_eq!(must_lose(&ledger, add("a", 0, 0, 9)).await?, None);
    assert_eq!(find(&ledger, &path("a")).await?, None, "an addition makes no row");

    must_put(&ledger, [&row("a", 1)]).await?;
    // By how much, between what, and what the counter is then.
    for (by, at_least, at_most, then) in [
        (3, 0, 3, Some(3)),
        (1, 0, 3, None),
        (1, 0, 4, Some(4)),
        (-2, 2, 9, Some(2)),
        (-1, 2, 9, None),
        (-3, 0, 9, None),
        (0, 2, 2, Some(2)),
        (0, 3, 9, None),
        (0, 0, 1, None),
        // Bounds are of the sum, not of what was there.
        (5, 7, 7, Some(7)),
        (-7, 0, 0, Some(0)),
        (-1, 0, 9, None),
        (i64::MIN, 0, 9, None),
        (0, 0, 0, Some(0)),
    ] {
        let before = counter(&ledger, "a").await?;
        let op = add("a", by, at_least, at_most);
        match then {
            Some(_) => must_commit(&ledger, [op]).await?,
            None => {
                let found = must_lose(&ledger, op).await?.map(|found| found.beside.counter);
                assert_eq!(found, Some(before), "{by} between {at_least} and {at_most}");
            }
        }
        assert_eq!(
            counter(&ledger, "a").await?,
            then.unwrap_or(before),
            "{by} between {at_least} and {at_most}"
        );
    }
    Ok(())
}

pub(crate) async fn inv_02_an_addition_may_need_the_row_to_be_as_it_was_seen(ledger: Shared) -> Result<()> {
    let seen = row("a", 1);
    must_put(&ledger, [&seen]).await?;
    let as_seen = |row: &Row| match add("a", 1, 0, 9) {
        Op::Add { path, was: _, by, at_least, at_most } => {
            Op::Add { path, was: Some(row.version.clone()), by, at_least, at_most }
        }
        other @ (Op::Put { .. } | Op::Replace { .. } | Op::Check { .. } | Op::Delete { .. }) => other,
    };
    must_commit(&ledger, [as_seen(&seen)]).await?;
    must_commit(&ledger, [as_seen(&seen)]).await?;
    assert_eq!(counter(&ledger, "a").await?, 2, "an addition is no change of the version");
    let newer = row("a", 2);
    let replaced = Op::Replace { row: newer.clone(), was: seen.version.clone(), counter: None };
    must_commit(&ledger, [replaced]).await?;
    let found = must_lose(&ledger, as_seen(&seen)).await?.map(|found| found.beside);
    assert_eq!(found.map(|beside| (beside.version, beside.counter)), Some((newer.version.clone(), 2)));
    must_commit(&ledger, [as_seen(&newer)]).await?;
    assert_eq!(counter(&ledger, "a").await?, 3);
    Ok(())
}

pub(crate) async fn inv_17_of_20_adders_at_once_none_goes_beyond(ledger: Shared) -> Result<()> {
    const MOST: u64 = 7;
    must_put(&ledger, [&row("a", 1)]).await?;
    let committed = adders(&ledger, 20, 2, MOST).await?;
    let done = committed.iter().filter(|committed| **committed == Committed::Done).count();
    assert_eq!((done, counter(&ledger, "a").await?), (3, 6));
    for lost in committed.iter().filter_map(|committed| committed.lost(0)) {
        let found = lost.map(|found| found.beside.counter);
        assert_eq!(found, Some(6), "two more would have fitted");
    }
    must_commit(&ledger, [add("a", 1, 0, MOST)]).await
}

pub(crate) async fn inv_17_additions_at_once_are_all_counted(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&row("a", 1)]).await?;
    let committed = adders(&ledger, 8, 5, 40).await?;
    assert!(committed.iter().all(|committed| *committed == Committed::Done), "{committed:?}");
    assert_eq!(counter(&ledger, "a").await?, 40);
    Ok(())
}

async fn adders(ledger: &Shared, many: usize, by: i64, at_most: u64) -> Result<Vec<Committed>> {
    let adds = |ledger: Shared| async move { commit(&ledger, [add("a", by, 0, at_most)]).await };
    let callers: JoinSet<_> = (0..many).map(|_| adds(Shared::clone(ledger))).collect();
    callers.join_all().await.into_iter().collect()
}

pub(crate) async fn a_bound_may_be_the_greatest_number(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&row("a", 1)]).await?;
    must_commit(&ledger, [add("a", 5, 0, u64::MAX)]).await?;
    must_commit(&ledger, [add("a", -1, 0, u64::MAX)]).await?;
    assert_eq!(must_lose(&ledger, add("a", 1, u64::MAX, u64::MAX)).await?, Some(read(&ledger, "a").await?));
    assert_eq!(counter(&ledger, "a").await?, 4);
    Ok(())
}

pub(crate) async fn nothing_is_within_bounds_that_are_the_wrong_way_round(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&row("a", 1)]).await?;
    must_commit(&ledger, [add("a", 5, 0, 9)]).await?;
    for by in [-1, 0, 1] {
        assert_eq!(must_lose(&ledger, add("a", by, 6, 4)).await?, Some(read(&ledger, "a").await?), "{by}");
    }
    assert_eq!(counter(&ledger, "a").await?, 5);
    Ok(())
}

pub(crate) async fn an_addition_changes_nothing_but_the_counter(ledger: Shared) -> Result<()> {
    let is = Row { due: Some(at(5)), ..listed("a", 1, &[("things", "1"), ("more", "2")]) };
    must_put(&ledger, [&is]).await?;
    ledger.touch(&touch("a", &[("seen", 3)])).await?;
    must_commit(&ledger, [add("a", 4, 0, 9)]).await?;
    let before = stored(&is);
    let marks = [("seen".to_owned(), 3)].into();
    let beside = Beside { counter: 4, marks, ..before.beside.clone() };
    assert_eq!(read(&ledger, "a").await?, Stored { beside, ..before });
    assert_eq!(list(&ledger, "things").await?, stand(&[("1", "a")]));
    assert_eq!(list(&ledger, "more").await?, stand(&[("2", "a")]));
    assert_eq!(ledger.due(at(9), ALL).await?, [path("a")]);
    Ok(())
}
