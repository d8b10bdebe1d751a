//! Rows as items: what stands where, what a write leaves of the last, and what a refusal shows.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use motorpool_control::ports::ledger::{Ledger, Touch};
use motorpool_control::ports::tx::{Committed, Held, Op, Row, Stored, Tx, When};
use motorpool_domain::record::{Beside, Path, Version};

use crate::world::{World, at, listed, n, row, s, stored, thing, version};

#[tokio::test]
async fn a_row_is_one_item_and_says_all_that_indexes_and_conditions_need() -> Result<()> {
    let world = World::new().await?;
    let due = Some(at(5));
    world.put(&Row { due, kept_until: Some(at(1)), ..listed(thing("a"), 7, 1) }).await?;
    let item = world.item("thing#a", "record").await?.context("no item")?;
    let shard = item["due_shard"].as_s().unwrap().parse::<u64>()?;
    assert!(shard < 16);
    let expected = [
        ("pk", s("thing#a")),
        ("sk", s("record")),
        ("state", s("new")),
        ("epoch", n(1)),
        ("rev", n(7)),
        ("schema", n(1)),
        ("doc", s("{\"rev\":7}")),
        ("counter", n(0)),
        ("list", s("list-0")),
        ("list_sk", s("thing#a")),
        ("due_shard", s(&shard.to_string())),
        ("due_at", n(at(5).as_millis())),
        // A second begun is a second kept.
        ("expires_at", n(4_000_000_001)),
    ];
    let expected: BTreeMap<_, _> = expected.map(|(name, value)| (name.to_owned(), value)).into();
    assert_eq!(item.into_iter().collect::<BTreeMap<_, _>>(), expected);
    Ok(())
}

#[tokio::test]
async fn a_row_that_is_no_longer_due_listed_or_ended_leaves_its_indexes() -> Result<()> {
    let world = World::new().await?;
    world.put(&Row { due: Some(at(5)), kept_until: Some(at(0)), ..listed(thing("a"), 1, 1) }).await?;
    let (row, was) = (row(thing("a"), 2), version(1));
    assert_eq!(world.commit(Op::Replace { row, was, counter: None }).await?, Committed::Done);
    let item = world.item("thing#a", "record").await?.context("no item")?;
    for gone in ["list", "list_sk", "due_shard", "due_at", "expires_at"] {
        assert!(!item.contains_key(gone), "{gone}");
    }
    Ok(())
}

#[tokio::test]
async fn further_places_are_pointers_that_come_and_go_with_their_row() -> Result<()> {
    let world = World::new().await?;
    for (path, sks) in [
        (thing("a"), ["record", "@1", "@2"]),
        (Path::child(thing("b").key, "x/y"), ["/x/y", "@1/x/y", "@2/x/y"]),
    ] {
        let pk = path.key.to_string();
        let sorted = |count: usize| sks[..count].iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        world.put(&Row { kept_until: Some(at(0)), ..listed(path.clone(), 1, 3) }).await?;
        assert_eq!(world.sort_keys(&pk).await?, sorted(3));
        let pointer = world.item(&pk, sks[2]).await?.context("no pointer")?;
        let names: BTreeSet<&str> = pointer.keys().map(String::as_str).collect();
        assert_eq!(names, BTreeSet::from(["pk", "sk", "list", "list_sk", "expires_at"]));
        assert_eq!((&pointer["list"], &pointer["expires_at"]), (&s("list-2"), &n(4_000_000_000)));

        for (rev, places, left) in [(2, 2, 2), (3, 3, 3), (4, 0, 1), (5, 3, 3)] {
            let (row, was) = (listed(path.clone(), rev, places), version(rev - 1));
            assert_eq!(world.commit(Op::Replace { row, was, counter: None }).await?, Committed::Done);
            assert_eq!(world.sort_keys(&pk).await?, sorted(left), "with {places} places");
        }
        world.put(&listed(path.clone(), 6, 2)).await?;
        assert_eq!(world.sort_keys(&pk).await?, sorted(2), "a new row leaves nothing of the old one's");
        let delete = Op::Delete { path: path.clone(), was: version(6), counter: None, lists: 3 };
        assert_eq!(world.commit(delete).await?, Committed::Done);
        assert_eq!(world.sort_keys(&pk).await?, sorted(0));
    }
    Ok(())
}

#[tokio::test]
async fn a_refused_write_moves_no_pointer() -> Result<()> {
    let world = World::new().await?;
    let first = listed(thing("a"), 1, 2);
    world.put(&first).await?;
    let stale = Op::Replace { row: listed(thing("a"), 3, 0), was: version(2), counter: None };
    assert_eq!(world.commit(stale).await?, no(&[Some(&stored(&first))]));
    let delete = Op::Delete { path: thing("a"), was: version(2), counter: None, lists: 3 };
    assert_eq!(world.commit(delete).await?, no(&[Some(&stored(&first))]));
    assert_eq!(world.sort_keys("thing#a").await?, ["@1", "record"].map(str::to_owned).into());
    Ok(())
}

/// Each by itself is one request, and not at a transaction's price.
#[tokio::test]
async fn a_single_write_is_one_request_and_shows_what_it_found() -> Result<()> {
    let world = World::new().await?;
    let (path, first) = (thing("a"), row(thing("a"), 1));
    let put = || Op::Put { row: first.clone(), when: When::Absent };
    let replace = |was| Op::Replace { row: row(path.clone(), 2), was, counter: None };
    let add = |by| Op::Add { path: path.clone(), was: None, by, at_least: 0, at_most: 2 };
    let delete = |counter| Op::Delete { path: path.clone(), was: version(2), counter, lists: 0 };
    let after = |counter| {
        let mut found = stored(&row(path.clone(), 2));
        found.beside.counter = counter;
        found
    };
    let other = Version { epoch: 2, ..version(1) };
    for (op, request, answer) in [
        (replace(version(1)), "UpdateItem", no(&[None])),
        (add(1), "UpdateItem", no(&[None])),
        (delete(None), "DeleteItem", no(&[None])),
        (put(), "PutItem", Committed::Done),
        (put(), "PutItem", no(&[Some(&stored(&first))])),
        (replace(other), "UpdateItem", no(&[Some(&stored(&first))])),
        (replace(version(1)), "UpdateItem", Committed::Done),
        (add(3), "UpdateItem", no(&[Some(&after(0))])),
        (add(-1), "UpdateItem", no(&[Some(&after(0))])),
        (add(2), "UpdateItem", Committed::Done),
        (delete(Some(0)), "DeleteItem", no(&[Some(&after(2))])),
        (delete(Some(2)), "DeleteItem", Committed::Done),
    ] {
        assert_eq!(world.commit(op.clone()).await?, answer, "{op:?}");
        assert_eq!(world.faults.asked(), [request], "{op:?}");
    }
    assert_eq!(world.read(&path).await?, None);
    Ok(())
}

#[tokio::test]
async fn a_refused_transaction_says_of_each_operation_what_it_found() -> Result<()> {
    let world = World::new().await?;
    let [a, b] = ["a", "b"].map(|id| row(thing(id), 1));
    for row in [&a, &b] {
        world.put(row).await?;
    }
    world.faults.asked();
    let check = |id, when| Op::Check { path: thing(id), when };
    let tx = Tx::default()
        .with(check("a", When::Always))
        .with(check("b", When::Absent))
        .with(Op::Put { row: row(thing("c"), 1), when: When::Absent })
        .with(check("d", When::Is(version(1))))
        .with(Op::Replace { row: listed(thing("e"), 2, 2), was: version(1), counter: None })
        .logged(row(Path::child(thing("a").key, "log"), 1));
    let found = Held::No { found: Some(Box::new(stored(&b))) };
    let missing = Held::No { found: None };
    let refused = Committed::Refused(vec![Held::Yes, found, Held::Yes, missing.clone(), missing]);
    assert_eq!(world.ledger.commit(&tx).await?, refused);
    assert_eq!(world.faults.asked(), ["TransactWriteItems"]);
    assert_eq!(world.read(&thing("c")).await?, None, "nothing was written");
    assert_eq!(world.sort_keys("thing#a").await?, ["record"].map(str::to_owned).into());
    Ok(())
}

#[tokio::test]
async fn a_check_alone_asks_and_writes_nothing() -> Result<()> {
    let world = World::new().await?;
    let a = row(thing("a"), 1);
    world.put(&a).await?;
    world.faults.asked();
    let check = |when| Op::Check { path: thing("a"), when };
    assert_eq!(world.commit(check(When::Always)).await?, Committed::Done);
    assert!(world.faults.asked().is_empty(), "nobody need be asked for that");
    assert_eq!(world.commit(check(When::Is(version(1)))).await?, Committed::Done);
    assert_eq!(world.commit(check(When::Absent)).await?, no(&[Some(&stored(&a))]));
    assert_eq!(world.read(&thing("a")).await?, Some(stored(&a)));
    Ok(())
}

#[tokio::test]
async fn another_document_keeps_counter_and_marks_and_a_new_row_does_not() -> Result<()> {
    let world = World::new().await?;
    let path = thing("a");
    world.put(&row(path.clone(), 1)).await?;
    let add = Op::Add { path: path.clone(), was: None, by: 4, at_least: 0, at_most: 4 };
    assert_eq!(world.commit(add).await?, Committed::Done);
    // Of any name: it stands in no expression.
    let marks = vec![("seen-at".to_owned(), 5), ("announced at".to_owned(), u64::MAX)];
    let twice = [("seen-at".to_owned(), 4)].into_iter().chain(marks.clone()).collect();
    let touch = Touch { path: path.clone(), epoch: 1, unless: "old".to_owned(), marks: twice };
    world.ledger.touch(&touch).await?;
    for nothing in [
        Touch { epoch: 2, marks: vec![("seen-at".to_owned(), 6)], ..touch.clone() },
        Touch { unless: "new".to_owned(), marks: vec![("seen-at".to_owned(), 6)], ..touch.clone() },
        Touch { path: thing("b"), ..touch.clone() },
        Touch { marks: Vec::new(), ..touch.clone() },
    ] {
        world.ledger.touch(&nothing).await?;
    }
    assert_eq!(world.read(&thing("b")).await?, None);

    let replace = Op::Replace { row: row(path.clone(), 2), was: version(1), counter: Some(4) };
    assert_eq!(world.commit(replace).await?, Committed::Done);
    let beside = Beside { version: version(2), counter: 4, marks: marks.into_iter().collect() };
    assert_eq!(world.read(&path).await?.map(|found| found.beside), Some(beside));
    let put = Op::Put { row: row(path.clone(), 3), when: When::Is(version(2)) };
    assert_eq!(world.commit(put).await?, Committed::Done);
    assert_eq!(world.read(&path).await?, Some(stored(&row(path, 3))));
    Ok(())
}

#[tokio::test]
async fn the_largest_numbers_stay_what_they_are() -> Result<()> {
    let world = World::new().await?;
    let max = Version { epoch: u64::MAX, ..version(u64::MAX) };
    let largest = Row { version: max.clone(), ..row(thing("a"), 1) };
    world.put(&largest).await?;
    let add = |by, at_least, at_most| Op::Add { path: thing("a"), was: None, by, at_least, at_most };
    for (op, held) in [
        (add(i64::MIN, 0, u64::MAX), false),
        (add(i64::MAX, 0, u64::MAX), true),
        (add(i64::MAX, 0, u64::MAX), true),
        (add(1, u64::MAX, u64::MAX), true),
        (add(1, 0, u64::MAX), false),
        (add(-1, u64::MAX, u64::MAX), false),
        (add(0, u64::MAX, 0), false),
    ] {
        assert_eq!(world.commit(op.clone()).await? == Committed::Done, held, "{op:?}");
    }
    let mut found = stored(&largest);
    found.beside.counter = u64::MAX;
    assert_eq!(world.read(&thing("a")).await?, Some(found));
    let delete = Op::Delete { path: thing("a"), was: max, counter: Some(u64::MAX), lists: 0 };
    assert_eq!(world.commit(delete).await?, Committed::Done);
    Ok(())
}

/// A refusal of every operation, with what each found.
fn no(found: &[Option<&Stored>]) -> Committed {
    let held = |found: &Option<&Stored>| Held::No { found: found.cloned().map(Box::new) };
    Committed::Refused(found.iter().map(held).collect())
}
