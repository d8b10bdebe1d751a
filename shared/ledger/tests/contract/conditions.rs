//! Every operation on every condition, held and not, with what was found. Of several at once, one wins.

use crate::fixtures::{
    Shared, add, check, commit, delete, find, must_commit, must_lose, must_put, path, put, read, replace,
    row, stored, version,
};
use anyhow::{Result, anyhow, bail, ensure};
use motorpool_control::ports::tx::{Committed, Op, Row, When};
use motorpool_domain::record::Version;
use tokio::task::JoinSet;

/// Each differs from the version of `row("a", 2)` in one part.
fn other_versions() -> [Version; 4] {
    let is = version(2);
    [
        Version { state: "shut".to_owned(), ..is.clone() },
        Version { epoch: is.epoch + 1, ..is.clone() },
        Version { rev: 1, ..is.clone() },
        Version { rev: 3, ..is },
    ]
}

pub(crate) async fn inv_02_a_put_is_on_its_condition(ledger: Shared) -> Result<()> {
    let [first, second, third] = [1, 2, 3].map(|rev| row("a", rev));
    assert_eq!(
        must_lose(&ledger, put(&first, When::Is(version(1)))).await?,
        None,
        "nothing has that version"
    );
    assert_eq!(find(&ledger, &first.path).await?, None);

    must_commit(&ledger, [put(&first, When::Absent)]).await?;
    assert_eq!(must_lose(&ledger, put(&second, When::Absent)).await?, Some(stored(&first)));
    must_commit(&ledger, [put(&second, When::Is(version(1)))]).await?;
    for other in other_versions() {
        let lost = must_lose(&ledger, put(&third, When::Is(other.clone()))).await?;
        assert_eq!(lost, Some(stored(&second)), "{other}");
    }
    assert_eq!(read(&ledger, "a").await?, stored(&second));
    must_commit(&ledger, [put(&third, When::Always)]).await?;
    assert_eq!(read(&ledger, "a").await?, stored(&third));
    must_commit(&ledger, [put(&row("b", 1), When::Always)]).await?;
    assert_eq!(read(&ledger, "b").await?, stored(&row("b", 1)));
    Ok(())
}

pub(crate) async fn inv_02_a_check_is_on_its_condition_and_writes_nothing(ledger: Shared) -> Result<()> {
    must_commit(&ledger, [check("a", When::Absent)]).await?;
    must_commit(&ledger, [check("a", When::Always)]).await?;
    assert_eq!(must_lose(&ledger, check("a", When::Is(version(2)))).await?, None);
    assert_eq!(find(&ledger, &path("a")).await?, None, "a check makes no row");

    let is = row("a", 2);
    must_put(&ledger, [&is]).await?;
    must_commit(&ledger, [check("a", When::Is(version(2)))]).await?;
    must_commit(&ledger, [check("a", When::Always)]).await?;
    assert_eq!(must_lose(&ledger, check("a", When::Absent)).await?, Some(stored(&is)));
    for other in other_versions() {
        assert_eq!(
            must_lose(&ledger, check("a", When::Is(other.clone()))).await?,
            Some(stored(&is)),
            "{other}"
        );
    }
    assert_eq!(read(&ledger, "a").await?, stored(&is));
    Ok(())
}

pub(crate) async fn inv_02_a_replacement_is_of_exactly_this_version(ledger: Shared) -> Result<()> {
    let replacement = |was| Op::Replace { row: row("a", 3), was, counter: None };
    assert_eq!(must_lose(&ledger, replacement(version(2))).await?, None);
    assert_eq!(find(&ledger, &path("a")).await?, None, "there was nothing to replace");

    let is = row("a", 2);
    must_put(&ledger, [&is]).await?;
    for other in other_versions() {
        assert_eq!(must_lose(&ledger, replacement(other.clone())).await?, Some(stored(&is)), "{other}");
    }
    assert_eq!(read(&ledger, "a").await?, stored(&is));
    must_commit(&ledger, [replacement(version(2))]).await?;
    assert_eq!(read(&ledger, "a").await?, stored(&row("a", 3)));

    // A version need not rise: what it means is not the ledger's.
    let back = Row { version: Version { state: "shut".to_owned(), epoch: 1, rev: 0 }, ..row("a", 3) };
    must_commit(&ledger, [Op::Replace { row: back.clone(), was: version(3), counter: None }]).await?;
    assert_eq!(read(&ledger, "a").await?, stored(&back));
    Ok(())
}

pub(crate) async fn inv_02_a_deletion_is_of_exactly_this_version(ledger: Shared) -> Result<()> {
    let is = row("a", 2);
    assert_eq!(must_lose(&ledger, delete(&is)).await?, None);
    must_put(&ledger, [&is]).await?;
    for other in other_versions() {
        let lost = must_lose(&ledger, delete(&Row { version: other.clone(), ..is.clone() })).await?;
        assert_eq!(lost, Some(stored(&is)), "{other}");
    }
    assert_eq!(read(&ledger, "a").await?, stored(&is));
    must_commit(&ledger, [delete(&is)]).await?;
    assert_eq!(find(&ledger, &is.path).await?, None);
    assert_eq!(must_lose(&ledger, delete(&is)).await?, None);
    Ok(())
}

pub(crate) async fn inv_02_a_counter_that_moved_refuses_a_replacement(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&row("a", 1)]).await?;
    let replacement = |counter| Op::Replace { row: row("a", 2), was: version(1), counter: Some(counter) };
    assert_eq!(must_lose(&ledger, replacement(1)).await?, Some(stored(&row("a", 1))));
    must_commit(&ledger, [add("a", 2, 0, 9)]).await?;
    for other in [0, 1, 3] {
        let found = must_lose(&ledger, replacement(other)).await?.map(|found| found.beside.counter);
        assert_eq!(found, Some(2), "not {other}");
    }
    let stale = Op::Replace { row: row("a", 2), was: version(3), counter: Some(2) };
    assert_eq!(must_lose(&ledger, stale).await?, Some(read(&ledger, "a").await?), "of another version");
    must_commit(&ledger, [replacement(2)]).await?;

    must_put(&ledger, [&row("b", 1)]).await?;
    let untouched = Op::Replace { row: row("b", 2), was: version(1), counter: Some(0) };
    must_commit(&ledger, [untouched]).await
}

pub(crate) async fn inv_02_a_counter_that_moved_refuses_a_deletion(ledger: Shared) -> Result<()> {
    let is = row("a", 1);
    must_put(&ledger, [&is]).await?;
    must_commit(&ledger, [add("a", 1, 0, 9)]).await?;
    let deletion = |counter| Op::Delete {
        path: is.path.clone(),
        was: is.version.clone(),
        counter: Some(counter),
        lists: is.lists,
    };
    let found = must_lose(&ledger, deletion(0)).await?.map(|found| found.beside.counter);
    assert_eq!(found, Some(1));
    must_commit(&ledger, [add("a", -1, 0, 9)]).await?;
    assert_eq!(must_lose(&ledger, deletion(1)).await?, Some(stored(&is)));
    must_commit(&ledger, [deletion(0)]).await?;
    assert_eq!(find(&ledger, &is.path).await?, None);
    assert_eq!(must_lose(&ledger, deletion(0)).await?, None, "no row is not a counter of nothing");

    must_put(&ledger, [&is]).await?;
    must_commit(&ledger, [add("a", 5, 0, 9), check("b", When::Absent)]).await?;
    must_commit(&ledger, [delete(&is)]).await
}

pub(crate) async fn inv_02_a_version_of_defaults_is_not_absence(ledger: Shared) -> Result<()> {
    let plain = Row { version: Version::default(), ..row("a", 1) };
    assert_eq!(must_lose(&ledger, put(&plain, When::Is(Version::default()))).await?, None);
    must_commit(&ledger, [put(&plain, When::Absent)]).await?;
    assert_eq!(read(&ledger, "a").await?, stored(&plain));
    assert_eq!(must_lose(&ledger, put(&plain, When::Absent)).await?, Some(stored(&plain)));
    let next = Row { version: Version { rev: 1, ..Version::default() }, ..plain.clone() };
    must_commit(&ledger, [Op::Replace { row: next.clone(), was: Version::default(), counter: Some(0) }])
        .await?;
    assert_eq!(must_lose(&ledger, delete(&plain)).await?, Some(stored(&next)));
    must_commit(&ledger, [delete(&next)]).await
}

pub(crate) async fn inv_02_of_32_writers_from_one_version_one_wins(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&row("a", 1)]).await?;
    let writes = (0..32).map(|writer| replace(&Row { doc: format!("{writer}"), ..row("a", 2) }));
    let winner = the_only_winner(&ledger, writes).await?;
    assert_eq!(read(&ledger, "a").await?, stored(&winner));
    Ok(())
}

pub(crate) async fn inv_03_of_16_that_put_what_is_absent_one_wins(ledger: Shared) -> Result<()> {
    let writes = (0..16).map(|writer| put(&Row { doc: format!("{writer}"), ..row("a", 1) }, When::Absent));
    let winner = the_only_winner(&ledger, writes).await?;
    assert_eq!(read(&ledger, "a").await?, stored(&winner));
    Ok(())
}

/// All at once. Each of the others finds what the winner wrote.
async fn the_only_winner(ledger: &Shared, writes: impl Iterator<Item = Op>) -> Result<Row> {
    let mut writers = JoinSet::new();
    for op in writes {
        let ledger = Shared::clone(ledger);
        writers.spawn(async move { commit(&ledger, [op.clone()]).await.map(|committed| (op, committed)) });
    }
    let (mut won, mut found) = (Vec::new(), Vec::new());
    while let Some(joined) = writers.join_next().await {
        let (op, committed) = joined??;
        ensure!(committed == Committed::Done || committed.lost(0).is_some(), "{op:?} ended in {committed:?}");
        match (committed.lost(0), op) {
            (None, Op::Put { row, .. } | Op::Replace { row, .. }) => won.push(row),
            (None, op @ (Op::Add { .. } | Op::Check { .. } | Op::Delete { .. })) => {
                bail!("{op:?} writes no row")
            }
            (Some(lost), _) => found.push(lost.cloned()),
        }
    }
    let [winner] = <[Row; 1]>::try_from(won).map_err(|won| anyhow!("{} won", won.len()))?;
    assert!(found.iter().all(|found| *found == Some(stored(&winner))), "{found:?}");
    Ok(winner)
}
