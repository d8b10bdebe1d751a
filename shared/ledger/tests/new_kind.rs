//! A new kind of record is an implementation of [`Record`]: conditional writes, lists, a due time, a log and expiry come with it, on every
//! adapter, and none of them is touched.

mod adapters;

use adapters::{Opened, Shared, each_adapter};
use anyhow::{Context, Result, bail};
use motorpool_control::ports::ledger::{Children, Order, Span};
use motorpool_control::ports::tx::{Committed, Held, Op, Row, Stored, Tx, When};
use motorpool_domain::Timestamp;
use motorpool_domain::record::{Key, Kind, Path, Place, Record, Version, padded};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Somebody asks for something, and is answered by a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Ticket {
    id: String,
    asker: String,
    answer_by: Timestamp,
    answered_at: Option<Timestamp>,
    rev: u64,
}

impl Record for Ticket {
    const LISTS: usize = 2;
    fn path(&self) -> Path {
        Key::new(Kind::new("ticket"), &self.id).into()
    }
    fn version(&self) -> Version {
        let state = if self.answered_at.is_none() { "open" } else { "answered" };
        Version { state: state.to_owned(), epoch: 0, rev: self.rev }
    }
    fn due(&self) -> Option<Timestamp> {
        self.answered_at.is_none().then_some(self.answer_by)
    }
    fn places(&self) -> Vec<Place> {
        let sort = padded(self.answer_by);
        let of_asker = Place { list: format!("tickets-of#{}", self.asker), sort: sort.clone() };
        let open = self.answered_at.is_none().then(|| Place { list: "tickets-open".to_owned(), sort });
        [of_asker].into_iter().chain(open).collect()
    }
    fn kept_until(&self) -> Option<Timestamp> {
        Some(self.answered_at?.after(Duration::from_secs(60)))
    }
}

/// An entry of its log, by number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note(String, u64, String);

impl Record for Note {
    const LISTS: usize = 0;
    fn path(&self) -> Path {
        Path::child(Key::new(Kind::new("ticket"), &self.0), format!("{:09}", self.1))
    }
    fn version(&self) -> Version {
        Version::default()
    }
}

/// In the year 2100: a store that deletes by itself what has expired leaves it.
const NOW: Timestamp = Timestamp::from_millis(4_102_444_800_000);

async fn has_all_that_a_record_has(opened: Opened) -> Result<()> {
    let ledger = &opened.ledger;
    let by = |secs| NOW.after(Duration::from_secs(secs));
    let (id, asker) = ("t-1".to_owned(), "ann".to_owned());
    let first = Ticket { id, asker, answer_by: by(20), answered_at: None, rev: 1 };
    let second = Ticket { id: "t-2".to_owned(), answer_by: by(10), ..first.clone() };
    let open = |ticket: &Ticket| anyhow::Ok(Op::Put { row: Row::of(ticket)?, when: When::Absent });
    let note = |number, what: &str| Row::of(&Note("t-1".into(), number, what.into()));
    let tx = Tx::default().with(open(&first)?).with(open(&second)?).logged(note(1, "asked")?);
    assert_eq!(ledger.commit(&tx).await?, Committed::Done);
    assert_eq!(listed(ledger, "tickets-of#ann").await?, [second.clone(), first.clone()]);
    assert_eq!(listed(ledger, "tickets-open").await?, [second.clone(), first.clone()]);
    assert_eq!(ledger.due(by(15), 10).await?, [second.path()]);
    assert_eq!(ledger.due(by(20), 10).await?, [second.path(), first.path()]);

    let answered = Ticket { answered_at: Some(NOW), rev: 2, ..first.clone() };
    let answer = Op::Replace { row: Row::of(&answered)?, was: first.version(), counter: None };
    let tx = Tx::default().with(answer).logged(note(2, "answered")?);
    assert_eq!(ledger.commit(&tx).await?, Committed::Done);
    let Committed::Refused(held) = ledger.commit(&tx).await? else { bail!("it was answered twice") };
    let [Held::No { found: Some(found) }] = held.as_slice() else { bail!("{held:?}") };
    assert_eq!(read::<Ticket>(found)?, answered);
    assert_eq!(listed(ledger, "tickets-of#ann").await?, [second.clone(), answered.clone()]);
    assert_eq!(listed(ledger, "tickets-open").await?, std::slice::from_ref(&second));
    assert_eq!(ledger.due(by(20), 10).await?, [second.path()]);
    let log = Children { of: first.path().key, low: "0".into(), high: "9".into(), order: Order::Falling };
    let notes: Vec<Note> = ledger.children(&log, 10).await?.iter().map(read).collect::<Result<_>>()?;
    assert_eq!(notes.iter().map(|Note(_, _, what)| what).collect::<Vec<_>>(), ["answered", "asked"]);

    opened.sweep(by(59)).await?;
    assert!(ledger.get(&[first.path()]).await?.iter().all(Option::is_some), "it is kept for a minute");
    if opened.sweep(by(60)).await? {
        assert_eq!(ledger.get(&[first.path()]).await?, [None]);
        assert_eq!(listed(ledger, "tickets-of#ann").await?, [second]);
    }
    Ok(())
}

fn read<R: Record>(Stored { doc, beside, .. }: &Stored) -> Result<R> {
    Ok(serde_json::from_str::<R>(doc)?.beside(beside))
}

async fn listed(ledger: &Shared, list: &str) -> Result<Vec<Ticket>> {
    let all = Span { list: list.to_owned(), low: "0".to_owned(), high: "9".to_owned() };
    ledger.list(&all, 10).await?.iter().map(|at| read(at.row.as_ref().context("it is gone")?)).collect()
}

macro_rules! a_new_kind {
    ($adapter:ident) => {
        #[tokio::test]
        async fn $adapter() -> Result<()> {
            has_all_that_a_record_has(adapters::$adapter().await?).await
        }
    };
}
each_adapter!(a_new_kind);
