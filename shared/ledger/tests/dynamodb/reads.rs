//! What is read, by which requests, and what somebody else's items do to it.

use anyhow::Result;
use motorpool_control::ports::ledger::{Children, Ledger, LedgerError, Order, Placed, Span};
use motorpool_control::ports::tx::{Committed, Op, Row, Tx, When};
use motorpool_domain::record::{Path, Place};

use crate::world::{Item, World, at, listed, n, row, s, stored, thing};

#[tokio::test]
async fn rows_are_read_one_by_one_or_in_batches() -> Result<()> {
    let world = World::new().await?;
    let name = |number: usize| thing(&format!("t-{number:03}"));
    for first in [0, 50, 100] {
        let puts =
            (first..first + 50).map(|number| Op::Put { row: row(name(number), 1), when: When::Always });
        assert_eq!(world.ledger.commit(&puts.fold(Tx::default(), Tx::with)).await?, Committed::Done);
    }
    world.faults.asked();
    assert_eq!(world.read(&name(7)).await?, Some(stored(&row(name(7), 1))));
    assert_eq!(world.faults.asked(), ["GetItem"]);
    assert_eq!(world.ledger.get(&[]).await?, []);
    assert!(world.faults.asked().is_empty());

    // Backwards, each twice, and some that are not there.
    let paths: Vec<Path> = (0..300).rev().map(|number| name(number / 2 + 20)).collect();
    world.faults.leave_unread(3);
    let found = world.ledger.get(&paths).await?;
    let expected: Vec<_> = (0..300)
        .rev()
        .map(|number| number / 2 + 20)
        .map(|number| (number < 150).then(|| stored(&row(name(number), 1))))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(world.faults.asked(), vec!["BatchGetItem"; 2 + 3], "what is left unread is asked for again");
    Ok(())
}

#[tokio::test]
async fn keys_that_are_left_unread_each_time_are_an_error() -> Result<()> {
    let world = World::new().await?;
    world.faults.leave_unread(8);
    let error = world.ledger.get(&[thing("a"), thing("b")]).await.unwrap_err();
    assert!(error.to_string().contains("read 2 rows"), "{error}");
    assert_eq!(world.faults.left(), 0);
    Ok(())
}

#[tokio::test]
async fn a_list_leads_to_the_rows_themselves_whichever_place_they_have_there() -> Result<()> {
    let world = World::new().await?;
    let child = Path::child(thing("c").key, "x");
    let mut rows = vec![];
    for (path, places) in
        [(thing("a"), vec!["3"]), (thing("b"), vec!["9", "1"]), (child, vec!["2", "5", "4"])]
    {
        let place = |sort: &&str| Place { list: "all".to_owned(), sort: (*sort).to_owned() };
        let row = Row { places: places.iter().map(place).collect(), ..listed(path, 1, 0) };
        world.put(&row).await?;
        rows.push(row);
    }
    world.faults.asked();
    let placed = |sort: &str, of: usize| Placed {
        sort: sort.to_owned(),
        path: rows[of].path.clone(),
        row: Some(stored(&rows[of])),
    };
    let all =
        [placed("1", 1), placed("2", 2), placed("3", 0), placed("4", 2), placed("5", 2), placed("9", 1)];
    assert_eq!(world.ledger.list(&span("", "9"), 100).await?, all);
    assert_eq!(world.faults.asked(), ["Query", "BatchGetItem"]);
    assert_eq!(world.ledger.list(&span("2", "4"), 100).await?, all[1..4]);
    assert_eq!(world.ledger.list(&span("", "9"), 2).await?, all[..2]);
    world.faults.asked();
    for (low, high, at_most, counted) in [
        ("", "9", 100, 6),
        ("", "9", 4, 4),
        ("2", "2", 9, 1),
        ("4", "3", 9, 0),
        ("", "", 9, 0),
        ("", "9", 0, 0),
    ] {
        assert_eq!(world.ledger.count(&span(low, high), at_most).await?, counted, "{low}..{high}");
        assert_eq!(world.ledger.list(&span(low, high), at_most).await?.len(), counted, "{low}..{high}");
    }
    assert!(!world.faults.asked().contains(&"Scan".to_owned()));

    // Whose time has come, by DynamoDB's own hand; the pointer may be there a while longer.
    let key = Item::from([("pk".to_owned(), s("thing#b")), ("sk".to_owned(), s("record"))]);
    world.client.delete_item().table_name(&world.table).set_key(Some(key)).send().await?;
    let left = world.ledger.list(&span("1", "1"), 9).await?;
    assert_eq!(left, [Placed { row: None, ..placed("1", 1) }]);
    Ok(())
}

#[tokio::test]
async fn children_are_read_by_name_and_neither_their_record_nor_a_pointer_is_one() -> Result<()> {
    let world = World::new().await?;
    let of = thing("a").key;
    world.put(&listed(thing("a"), 1, 3)).await?;
    for name in ["", "b", "c/d", "é"] {
        world.put(&listed(Path::child(of.clone(), name), 1, 2)).await?;
    }
    for (low, high, order, at_most, expected) in [
        ("", "\u{10ffff}", Order::Rising, 9, vec!["", "b", "c/d", "é"]),
        ("", "\u{10ffff}", Order::Falling, 3, vec!["é", "c/d", "b"]),
        ("b", "c/d", Order::Rising, 9, vec!["b", "c/d"]),
        ("c", "b", Order::Rising, 9, vec![]),
        ("", "é", Order::Rising, 0, vec![]),
    ] {
        let children = Children { of: of.clone(), low: low.to_owned(), high: high.to_owned(), order };
        let found = world.ledger.children(&children, at_most).await?;
        let names: Vec<_> = found.iter().map(|found| found.path.child.as_deref().unwrap()).collect();
        assert_eq!(names, expected, "{children:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_due_is_merged_from_all_shards() -> Result<()> {
    let world = World::new().await?;
    let mut expected = vec![];
    for number in 0..40 {
        let path = thing(&format!("{number:02}"));
        // Two at a time.
        world.put(&Row { due: Some(at(100 - number / 2)), ..row(path.clone(), 1) }).await?;
        expected.push((at(100 - number / 2), path));
    }
    expected.sort();
    world.put(&row(thing("never"), 1)).await?;
    let paths: Vec<Path> = expected.into_iter().map(|(_, path)| path).collect();
    assert_eq!(world.ledger.due(at(100), 100).await?, paths);
    assert_eq!(world.ledger.due(at(100), 7).await?, paths[..7]);
    assert_eq!(world.ledger.due(at(90), 100).await?, paths[..20]);
    assert_eq!(world.ledger.due(at(80), 100).await?, []);
    assert_eq!(world.ledger.due(at(100), 0).await?, []);
    Ok(())
}

/// Somebody else's items, or a later version's: they stop nobody.
#[tokio::test]
async fn an_item_that_is_no_row_is_passed_over() -> Result<()> {
    let world = World::new().await?;
    let good = Row { due: Some(at(3)), ..listed(thing("z"), 1, 1) };
    world.put(&good).await?;
    let item = |pk: &str, sk: &str, more: &[(&str, _)]| -> Item {
        let own = [("pk", s(pk)), ("sk", s(sk)), ("list", s("list-0")), ("list_sk", s(pk))];
        own.into_iter().chain(more.iter().cloned()).map(|(name, value)| (name.to_owned(), value)).collect()
    };
    let shard = world.item("thing#z", "record").await?.unwrap()["due_shard"].clone();
    for (pk, sk) in [("nothing", "record"), ("thing#y", "else"), ("thing#y", "@x"), ("thing#y", "@")] {
        world
            .put_item(item(pk, sk, &[("due_shard", shard.clone()), ("due_at", n(at(1).as_millis()))]))
            .await?;
    }
    // A row by its key, but without a document.
    world.put_item(item("thing#x", "record", &[])).await?;
    world.put_item(item("thing#x", "/child", &[])).await?;

    assert_eq!(world.ledger.due(at(9), 1).await?, [thing("z")], "nor do they take its place");
    let list = Span { list: "list-0".to_owned(), ..span("", "~") };
    let listed = world.ledger.list(&list, 100).await?;
    let rows: Vec<_> = listed.into_iter().map(|placed| (placed.path, placed.row)).collect();
    let child = Path::child(thing("x").key, "child");
    assert_eq!(rows, [(thing("x"), None), (child, None), (thing("z"), Some(stored(&good)))]);
    let children =
        Children { of: thing("x").key, low: String::new(), high: "~".to_owned(), order: Order::Rising };
    assert_eq!(world.ledger.children(&children, 9).await?, []);
    let error = world.ledger.get(&[thing("x")]).await.unwrap_err();
    assert!(
        matches!(&error, LedgerError::Unreadable { subject, .. } if subject == "thing#x record"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn it_answers_and_a_ledger_without_a_table_does_not() -> Result<()> {
    let world = World::new().await?;
    world.ledger.ping().await?;
    assert_eq!(world.faults.asked(), ["GetItem"]);
    world.client.delete_table().table_name(&world.table).send().await?;
    world.ledger.ping().await.unwrap_err();
    Ok(())
}

fn span(low: &str, high: &str) -> Span {
    Span { list: "all".to_owned(), low: low.to_owned(), high: high.to_owned() }
}
