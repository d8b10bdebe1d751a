//! The ledger in memory: for tests and simulations, and the plainest statement of what every adapter does. One lock, no clock, no chance:
//! every call completes at its first poll, nothing outlives the process, and nothing expires unless it is asked to.

mod state;

use async_trait::async_trait;
use motorpool_control::ports::ledger::{Children, Ledger, LedgerError, Order, Placed, Span, Touch};
use motorpool_control::ports::tx::{Committed, Held, Op, Row, Stored, Tx, When};
use motorpool_domain::Timestamp;
use motorpool_domain::record::{Beside, Marks, Path, Version};
use state::State;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A clone begins with the same rows, and shares nothing.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    state: Mutex<State>,
}

/// A row with all that the ledger keeps of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub row: Row,
    pub counter: u64,
    pub marks: Marks,
}

impl MemoryLedger {
    pub fn new() -> Self {
        Self::default()
    }

    /// All there is, by path.
    pub fn rows(&self) -> Vec<Kept> {
        self.state().rows().cloned().collect()
    }

    /// Deletes what need not be kept at `now`, and tells how many rows that were.
    pub fn sweep_expired(&self, now: Timestamp) -> usize {
        self.state().sweep_expired(now)
    }

    /// A panic in another holder's thread leaves no half-done write: conditions are evaluated before anything is changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for MemoryLedger {
    fn clone(&self) -> Self {
        Self { state: Mutex::new(self.state().clone()) }
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn get(&self, paths: &[Path]) -> Result<Vec<Option<Stored>>, LedgerError> {
        let state = self.state();
        Ok(paths.iter().map(|path| state.row(path).map(Kept::stored)).collect())
    }

    async fn commit(&self, tx: &Tx) -> Result<Committed, LedgerError> {
        tx.check().map_err(|error| LedgerError::failed("commit a transaction", error))?;
        let mut state = self.state();
        let held: Vec<Held> = tx.ops.iter().map(|op| answer(op, state.row(op.path()))).collect();
        if held.iter().any(|held| *held != Held::Yes) {
            return Ok(Committed::Refused(held));
        }
        for op in &tx.ops {
            write(&mut state, op);
        }
        for row in &tx.log {
            state.put(Kept::new(row));
        }
        Ok(Committed::Done)
    }

    async fn touch(&self, touch: &Touch) -> Result<(), LedgerError> {
        let Touch { path, epoch, unless, marks } = touch;
        if let Some(Kept { row, marks: noted, .. }) = self.state().row_mut(path)
            && row.version.epoch == *epoch
            && row.version.state != *unless
        {
            noted.extend(marks.iter().cloned());
        }
        Ok(())
    }

    async fn list(&self, span: &Span, at_most: usize) -> Result<Vec<Placed>, LedgerError> {
        let state = self.state();
        let placed = |(sort, path): (&String, &Path)| Placed {
            sort: sort.clone(),
            path: path.clone(),
            row: state.row(path).map(Kept::stored),
        };
        Ok(state.listed(span).take(at_most).map(placed).collect())
    }

    async fn count(&self, span: &Span, at_most: usize) -> Result<usize, LedgerError> {
        Ok(self.state().listed(span).take(at_most).count())
    }

    async fn children(&self, of: &Children, at_most: usize) -> Result<Vec<Stored>, LedgerError> {
        let state = self.state();
        let rising = state.children(of);
        Ok(match of.order {
            Order::Rising => rising.take(at_most).map(Kept::stored).collect(),
            Order::Falling => rising.rev().take(at_most).map(Kept::stored).collect(),
        })
    }

    async fn due(&self, now: Timestamp, at_most: usize) -> Result<Vec<Path>, LedgerError> {
        Ok(self.state().due(now).take(at_most).cloned().collect())
    }

    async fn ping(&self) -> Result<(), LedgerError> {
        Ok(())
    }
}

impl Kept {
    /// As a put leaves it.
    fn new(row: &Row) -> Self {
        Self { row: row.clone(), counter: 0, marks: Marks::new() }
    }

    fn stored(&self) -> Stored {
        let Self { row, counter, marks } = self;
        let beside = Beside { version: row.version.clone(), counter: *counter, marks: marks.clone() };
        Stored { path: row.path.clone(), schema: row.schema, doc: row.doc.clone(), beside }
    }

    fn is(&self, version: &Version, counter: Option<u64>) -> bool {
        self.row.version == *version && counter.is_none_or(|counter| counter == self.counter)
    }
}

fn answer(op: &Op, found: Option<&Kept>) -> Held {
    if holds(op, found) {
        return Held::Yes;
    }
    Held::No { found: found.map(|found| Box::new(found.stored())) }
}

fn holds(op: &Op, found: Option<&Kept>) -> bool {
    match op {
        Op::Put { when, .. } | Op::Check { when, .. } => match when {
            When::Always => true,
            When::Absent => found.is_none(),
            When::Is(version) => found.is_some_and(|found| found.is(version, None)),
        },
        Op::Replace { was, counter, .. } | Op::Delete { was, counter, .. } => {
            found.is_some_and(|found| found.is(was, *counter))
        }
        Op::Add { path: _, was, by, at_least, at_most } => {
            let found = found.filter(|found| was.as_ref().is_none_or(|was| found.is(was, None)));
            let sum = found.and_then(|found| found.counter.checked_add_signed(*by));
            sum.is_some_and(|sum| (*at_least..=*at_most).contains(&sum))
        }
    }
}

/// What an operation does whose condition holds.
fn write(state: &mut State, op: &Op) {
    match op {
        Op::Put { row, when: _ } => state.put(Kept::new(row)),
        Op::Replace { row, was: _, counter: _ } => {
            let beside = state.row(&row.path).map(|found| (found.counter, found.marks.clone()));
            let (counter, marks) = beside.unwrap_or_default();
            state.put(Kept { row: row.clone(), counter, marks });
        }
        Op::Add { path, was: _, by, at_least: _, at_most: _ } => {
            if let Some(found) = state.row_mut(path) {
                found.counter = found.counter.saturating_add_signed(*by);
            }
        }
        Op::Check { path: _, when: _ } => {}
        Op::Delete { path, was: _, counter: _, lists: _ } => state.remove(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use motorpool_domain::record::{Key, Kind, Place};

    fn row(id: &str, kept_until: Option<u64>) -> Row {
        Row {
            path: Key::new(Kind::new("thing"), id).into(),
            version: Version::default(),
            schema: 1,
            doc: "{}".to_owned(),
            due: Some(Timestamp::from_millis(1)),
            places: vec![Place { list: "things".to_owned(), sort: id.to_owned() }],
            lists: 1,
            kept_until: kept_until.map(Timestamp::from_millis),
        }
    }

    /// The simulator has no runtime to wait with.
    fn put(ledger: &MemoryLedger, row: Row) {
        let tx = Tx::default().with(Op::Put { row, when: When::Absent });
        assert_eq!(ledger.commit(&tx).now_or_never().unwrap().unwrap(), Committed::Done);
    }

    #[test]
    fn a_clone_shares_nothing() {
        let ledger = MemoryLedger::new();
        put(&ledger, row("a", None));
        let clone = ledger.clone();
        assert_eq!(clone.rows(), [Kept::new(&row("a", None))]);
        put(&clone, row("b", None));
        put(&ledger, row("c", None));
        assert_eq!(clone.rows(), ["a", "b"].map(|id| Kept::new(&row(id, None))));
        assert_eq!(ledger.rows(), ["a", "c"].map(|id| Kept::new(&row(id, None))));
    }

    #[test]
    fn what_has_expired_is_swept_with_its_places() {
        let ledger = MemoryLedger::new();
        for (id, kept_until) in [("a", Some(5)), ("b", Some(6)), ("c", None)] {
            put(&ledger, row(id, kept_until));
        }
        assert_eq!(ledger.sweep_expired(Timestamp::from_millis(4)), 0);
        assert_eq!(ledger.sweep_expired(Timestamp::from_millis(5)), 1);
        let left: Vec<Path> = ledger.rows().into_iter().map(|kept| kept.row.path).collect();
        assert_eq!(left, [row("b", None).path, row("c", None).path]);
        let due = ledger.due(Timestamp::from_millis(9), 9).now_or_never().unwrap().unwrap();
        assert_eq!(due, left);
        let all = Span { list: "things".to_owned(), low: String::new(), high: "z".to_owned() };
        assert_eq!(ledger.count(&all, 9).now_or_never().unwrap().unwrap(), 2);
    }
}
