//! Marks beside a document: of the right life only, and without being a change of it.

use crate::fixtures::{
    ALL, Shared, at, commit, find, list, listed, must_commit, must_put, path, put, read, replace, row, stand,
    stored, touch, version,
};
use anyhow::Result;
use motorpool_control::ports::ledger::Touch;
use motorpool_control::ports::tx::{Committed, Row, When};
use motorpool_domain::record::{Path, Version};
use tokio::task::JoinSet;

pub(crate) async fn a_mark_is_noted_beside_the_document(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&row("a", 1), &row("b", 1)]).await?;
    ledger.touch(&touch("a", &[("seen", 5)])).await?;
    ledger.touch(&touch("a", &[("announced", 1 << 50), ("größer als '#.", 0)])).await?;
    ledger.touch(&touch("a", &[])).await?;
    let found = read(&ledger, "a").await?;
    let marks = [("announced", 1 << 50), ("größer als '#.", 0), ("seen", 5)];
    assert_eq!(found.beside.marks, marks.map(|(name, at)| (name.to_owned(), at)).into());
    assert_eq!(found.beside.instant("seen"), Some(at(5)));
    assert_eq!(found.beside.version, version(1));
    assert_eq!(found.doc, row("a", 1).doc);
    assert_eq!(read(&ledger, "b").await?, stored(&row("b", 1)), "nobody else's");

    // The last that is noted stands, be it of an earlier instant.
    ledger.touch(&touch("a", &[("seen", 3)])).await?;
    assert_eq!(read(&ledger, "a").await?.beside.instant("seen"), Some(at(3)));
    must_commit(&ledger, [replace(&row("a", 2))]).await
}

pub(crate) async fn inv_21_a_mark_of_another_epoch_is_not_noted(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&row("a", 1)]).await?;
    let is = touch("a", &[("seen", 5)]);
    for epoch in [0, is.epoch - 1, is.epoch + 1] {
        ledger.touch(&Touch { epoch, ..is.clone() }).await?;
        assert_eq!(read(&ledger, "a").await?, stored(&row("a", 1)), "{epoch}");
    }
    let next = Row { version: Version { epoch: is.epoch + 1, ..version(2) }, ..row("a", 2) };
    must_put(&ledger, [&next]).await?;
    ledger.touch(&is).await?;
    assert_eq!(read(&ledger, "a").await?, stored(&next));
    Ok(())
}

pub(crate) async fn fault_08_a_mark_after_the_end_is_not_noted(ledger: Shared) -> Result<()> {
    must_put(&ledger, [&row("a", 1)]).await?;
    ledger.touch(&touch("a", &[("seen", 5)])).await?;
    let closed = Row { version: Version { state: "closed".to_owned(), ..version(2) }, ..row("a", 2) };
    must_commit(&ledger, [put(&closed, When::Is(version(1)))]).await?;
    ledger.touch(&touch("a", &[("seen", 6)])).await?;
    assert_eq!(read(&ledger, "a").await?, stored(&closed));
    Ok(())
}

pub(crate) async fn a_mark_on_nothing_makes_nothing(ledger: Shared) -> Result<()> {
    ledger.touch(&touch("a", &[("seen", 5)])).await?;
    ledger.touch(&Touch { epoch: 0, unless: String::new(), ..touch("a", &[("seen", 5)]) }).await?;
    assert_eq!(find(&ledger, &path("a")).await?, None);
    must_commit(&ledger, [put(&row("a", 1), When::Absent)]).await
}

/// As a record has that knows no states.
pub(crate) async fn a_state_of_no_name_is_a_state(ledger: Shared) -> Result<()> {
    let plain = Row { version: Version::default(), ..row("a", 1) };
    must_put(&ledger, [&plain]).await?;
    let of = |unless: &str| Touch { epoch: 0, unless: unless.to_owned(), ..touch("a", &[("seen", 5)]) };
    ledger.touch(&of("")).await?;
    assert_eq!(read(&ledger, "a").await?, stored(&plain), "it is in just that state");
    ledger.touch(&of("closed")).await?;
    assert_eq!(read(&ledger, "a").await?.beside.instant("seen"), Some(at(5)));

    must_put(&ledger, [&row("b", 1)]).await?;
    ledger.touch(&Touch { unless: String::new(), ..touch("b", &[("seen", 6)]) }).await?;
    assert_eq!(read(&ledger, "b").await?.beside.instant("seen"), Some(at(6)));
    Ok(())
}

pub(crate) async fn a_mark_moves_no_index(ledger: Shared) -> Result<()> {
    let is = Row { due: Some(at(5)), ..listed("a", 1, &[("things", "1"), ("more", "2")]) };
    must_put(&ledger, [&is]).await?;
    ledger.touch(&touch("a", &[("seen", 9)])).await?;
    assert_eq!(ledger.due(at(4), ALL).await?, []);
    assert_eq!(ledger.due(at(5), ALL).await?, [path("a")]);
    assert_eq!(list(&ledger, "things").await?, stand(&[("1", "a")]));
    assert_eq!(list(&ledger, "more").await?, stand(&[("2", "a")]));
    assert_eq!(list(&ledger, "seen").await?, []);

    let child = Row { path: Path::child(is.path.key.clone(), "1"), ..is };
    must_put(&ledger, [&child]).await?;
    ledger.touch(&Touch { path: child.path.clone(), ..touch("a", &[("seen", 9)]) }).await?;
    let found = find(&ledger, &child.path).await?.and_then(|found| found.beside.instant("seen"));
    assert_eq!(found, Some(at(9)), "a child has marks of its own");
    Ok(())
}

pub(crate) async fn marks_are_not_lost_to_writes_at_the_same_time(ledger: Shared) -> Result<()> {
    const WRITES: u64 = 10;
    must_put(&ledger, [&row("a", 1)]).await?;
    let mut callers = JoinSet::new();
    let writer = Shared::clone(&ledger);
    callers.spawn(async move {
        for rev in 2..WRITES + 2 {
            assert_eq!(
                commit(&writer, [replace(&row("a", rev))]).await?,
                Committed::Done,
                "a mark is no change"
            );
        }
        anyhow::Ok(())
    });
    let toucher = Shared::clone(&ledger);
    callers.spawn(async move {
        for mark in 0..WRITES {
            toucher.touch(&touch("a", &[(&format!("mark-{mark}"), mark)])).await?;
        }
        anyhow::Ok(())
    });
    while let Some(joined) = callers.join_next().await {
        joined??;
    }
    let found = read(&ledger, "a").await?.beside;
    assert_eq!(found.version, version(WRITES + 1));
    assert_eq!(found.marks, (0..WRITES).map(|mark| (format!("mark-{mark}"), mark)).collect());
    Ok(())
}
