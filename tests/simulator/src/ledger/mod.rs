//! The ledger as control planes see it through a network: every call waits at a gate; some are throttled, conflict, are applied
//! without an answer, or applied twice; indexes lag. What is applied is held against the oracle's books.

mod books;
mod meaning;
mod write;

pub(crate) use books::Books;
pub(crate) use books::Engine;
pub(crate) use meaning::{
    CheckpointChange, ClaimChange, Meaning, PoolChange, RunnerChange, SlotsTaken, Subject,
};
pub(crate) use write::Write;

use super::calls::Kind;
use super::faults::Fault;
use super::gate::{Gate, Side, Toward};
use super::ground::Ground;
use super::oracle::Scene;
use super::schedule::Event;
use super::weather::Wind;
use async_trait::async_trait;
use futures_util::FutureExt;
use meaning::record;
use motorpool_control::ports::ledger::{Children, Ledger, LedgerError, Placed, Span, Touch};
use motorpool_control::ports::tx::{Committed, Op, Row, Stored, Tx, When};
use motorpool_domain::Timestamp;
use motorpool_domain::pool::{Pool, PoolRecord};
use motorpool_domain::record::Path;
use motorpool_domain::runner::SEEN;
use motorpool_ledger::MemoryLedger;
use std::future::Future;
use std::sync::Arc;
use write::answer_in_words;

#[derive(Debug)]
pub(crate) struct SimLedger {
    pub(crate) ground: Arc<Ground>,
    pub(crate) books: Arc<Books>,
}

/// How far an index may be behind.
pub(crate) const MOST_LAG_MS: u64 = 5_000;
/// How often the adapter repeats a transaction that conflicts before it gives up.
const CONFLICTS: usize = 4;
/// Of 10,000 writes that were under way when their sender crashed.
const LATE_AFTER_CRASH: u32 = 4_000;

#[async_trait]
impl Ledger for SimLedger {
    async fn get(&self, paths: &[Path]) -> Result<Vec<Option<Stored>>, LedgerError> {
        self.read("read records", self.books.ledger().get(paths)).await
    }

    async fn commit(&self, tx: &Tx) -> Result<Committed, LedgerError> {
        self.write(Write::Commit(tx.clone())).await
    }

    async fn touch(&self, touch: &Touch) -> Result<(), LedgerError> {
        self.write(Write::Touch(touch.clone())).await.map(|_| ())
    }

    /// The places may be late; the records that stand there are not.
    async fn list(&self, span: &Span, at_most: usize) -> Result<Vec<Placed>, LedgerError> {
        let now = self.books.ledger().list(span, at_most);
        let late = |late: &MemoryLedger| at_once(late.list(span, at_most));
        let mut placed = self.index(&format!("list {}", span.list), now, late).await?;
        let paths: Vec<Path> = placed.iter().map(|placed| placed.path.clone()).collect();
        let found = self.books.at(&paths);
        for placed in &mut placed {
            placed.row = found.get(&placed.path).cloned();
        }
        Ok(placed)
    }

    async fn count(&self, span: &Span, at_most: usize) -> Result<usize, LedgerError> {
        let now = self.books.ledger().count(span, at_most);
        let late = |late: &MemoryLedger| at_once(late.count(span, at_most));
        self.index(&format!("count {}", span.list), now, late).await
    }

    async fn children(&self, of: &Children, at_most: usize) -> Result<Vec<Stored>, LedgerError> {
        self.read("read what stands under a key", self.books.ledger().children(of, at_most)).await
    }

    async fn due(&self, now: Timestamp, at_most: usize) -> Result<Vec<Path>, LedgerError> {
        let present = self.books.ledger().due(now, at_most);
        self.index("read what is due", present, |late| at_once(late.due(now, at_most))).await
    }

    async fn ping(&self) -> Result<(), LedgerError> {
        self.read("ping", self.books.ledger().ping()).await
    }
}

impl SimLedger {
    /// A pool that is there from the beginning.
    pub(crate) fn define(&self, pool: Pool) {
        let row = Row::of(&PoolRecord { pool, rev: 1, used: 0 }).expect("a pool can be written");
        let tx = Tx::default().with(Op::Put { row, when: When::Absent });
        self.apply(&Write::Commit(tx), false).expect("the first write");
    }

    async fn travels(&self, side: Side) {
        let slow = self.ground.strikes(Wind::LedgerSlow);
        let wait_ms = match slow {
            true => self.ground.chance().between(400, 6_000),
            false => self.ground.chance().skewed(2, 400),
        };
        Gate::new(&self.ground, wait_ms, side, Toward::Ledger).await;
    }

    async fn arrives(&self, attempted: &str) -> Result<(), LedgerError> {
        self.travels(Side::Before).await;
        self.may_be_throttled(attempted)
    }

    fn may_be_throttled(&self, attempted: &str) -> Result<(), LedgerError> {
        if self.ground.strikes(Wind::LedgerThrottled) {
            self.ground.fired(Fault::LedgerThrottled);
            self.ground.tell(|| format!("ledger: throttled, could not {attempted}"));
            return Err(LedgerError::failed(attempted, "the ledger is throttled"));
        }
        Ok(())
    }

    async fn read<T>(
        &self,
        attempted: &str,
        call: impl Future<Output = Result<T, LedgerError>> + Send,
    ) -> Result<T, LedgerError> {
        self.arrives(attempted).await?;
        self.books.now(call)
    }

    /// What an index says: as it is, or as it was.
    async fn index<T: PartialEq>(
        &self,
        attempted: &str,
        call: impl Future<Output = Result<T, LedgerError>> + Send,
        late: impl FnOnce(&MemoryLedger) -> Result<T, LedgerError> + Send,
    ) -> Result<T, LedgerError> {
        self.arrives(attempted).await?;
        let now = self.books.now(call);
        if !self.ground.strikes(Wind::IndexLags) {
            return now;
        }
        let lag_ms = self.ground.chance().between(100, MOST_LAG_MS);
        let then = self.books.late(self.ground.now_ms().saturating_sub(lag_ms), late);
        if let (Ok(now), Ok(then)) = (&now, &then)
            && now != then
        {
            self.ground.fired(Fault::IndexLags);
            self.ground.tell(|| format!("ledger: an index is {lag_ms} ms behind, {attempted}"));
        }
        then
    }

    async fn write(&self, write: Write) -> Result<Committed, LedgerError> {
        let on_the_way = OnTheWay { ground: &self.ground, write: Some(&write) };
        self.travels(Side::Before).await;
        on_the_way.arrived();
        self.may_be_throttled("write")?;
        if self.ground.strikes(Wind::LedgerAnswersLost) && self.ground.chance().hits(2_000) {
            send_late(&self.ground, &write);
            return Err(LedgerError::failed("write", "no answer came in time"));
        }
        for nth in 1..=CONFLICTS {
            if !write.is_transaction() || !self.ground.strikes(Wind::LedgerConflicts) {
                break;
            }
            self.ground.fired(Fault::TransactionConflict);
            if nth == CONFLICTS {
                return Err(LedgerError::failed("write", "the transaction conflicts with others"));
            }
            // The adapter waits and repeats it.
            self.travels(Side::Before).await;
        }
        let answer = self.apply(&write, false)?;
        if answer == Committed::Done && self.ground.strikes(Wind::LedgerAnswersLost) {
            if self.ground.chance().hits(5_000) {
                self.ground.fired(Fault::AnswerLostError);
                self.travels(Side::After).await;
                return Err(LedgerError::failed("write", "the answer was lost"));
            }
            // As the SDK does: it repeats the call, and its caller gets the second answer.
            self.ground.fired(Fault::AnswerLostRepeated);
            let wait_ms = self.ground.chance().skewed(50, 90_000);
            Gate::new(&self.ground, wait_ms, Side::After, Toward::Ledger).await;
            let again = self.apply(&write, true)?;
            self.travels(Side::After).await;
            return Ok(again);
        }
        if self.ground.chance().hits(4_000) {
            self.travels(Side::After).await;
        }
        Ok(answer)
    }

    /// A write arrives whose sender no longer waits for it.
    pub(crate) fn arrive_late(&self, write: &Write) {
        // That it fails now, nobody hears.
        let _unheard = self.apply(write, false);
    }

    fn apply(&self, write: &Write, repeated: bool) -> Result<Committed, LedgerError> {
        self.must_be_allowed(write);
        let before = self.books.at(&write.paths());
        let (answer, twin) = self.books.apply(write, self.ground.now_ms())?;
        self.ground.tell(|| {
            let again = if repeated { "again, " } else { "" };
            format!("ledger: {again}{}: {}", write.in_words(), answer_in_words(&answer))
        });
        if let Some(twin) = twin {
            let what =
                format!("the embedded ledger answers {answer:?}, the one in memory {twin:?}, to {write:?}");
            self.ground.broken(25, &[], what);
        }
        let raced = {
            let yard = self.ground.yard();
            let scene = Scene {
                now_ms: self.ground.now_ms(),
                acting: self.ground.acting(),
                yard: &yard,
                outage: self.ground.weather.outage_lately(self.ground.now_ms()),
            };
            let mut oracle = self.ground.oracle();
            match write {
                Write::Touch(touch) => {
                    oracle.touched(touch);
                    false
                }
                Write::Commit(tx) => {
                    let raced = oracle.races(&scene, tx, &answer);
                    if answer == Committed::Done {
                        oracle.written(&scene, &Meaning::of(tx, &before));
                    }
                    raced
                }
            }
        };
        if raced {
            self.ground.fired(Fault::RefreshRacesClaim);
        }
        self.books_agree(write);
        Ok(answer)
    }

    /// Invariant 21: what comes with a wrong token, or from an old epoch.
    fn must_be_allowed(&self, write: &Write) {
        let kind = self.ground.acting().map(|acting| acting.kind);
        let refused = match (kind, write) {
            (Some(Kind::StaleToken), _) => true,
            (Some(Kind::CopiedToken), Write::Touch(touch)) => {
                touch.marks.iter().any(|(mark, _)| mark == SEEN)
            }
            (Some(Kind::OldEpoch), Write::Touch(_)) => false,
            (Some(Kind::OldEpoch), _) => true,
            (_, _) => false,
        };
        if refused {
            self.ground.broken(21, &[], format!("a {kind:?} sync writes {write:?}"));
        }
    }

    /// What the ledger has now is what the oracle knows to be written: no more, no less.
    fn books_agree(&self, write: &Write) {
        let Write::Commit(tx) = write else { return };
        let paths: Vec<Path> = tx.ops.iter().map(|op| op.path().clone()).collect();
        let found = self.books.at(&paths);
        let now_ms = self.ground.now_ms();
        let mut oracle = self.ground.oracle();
        for path in &paths {
            let stored = found.get(path);
            match Subject::of(path) {
                Subject::Runner(id) => oracle.runner_is(now_ms, &id, stored.map(record).as_ref()),
                Subject::Claim(id) => oracle.claim_is(now_ms, &id, stored.map(record).as_ref()),
                Subject::Checkpoint(id) => oracle.checkpoint_is(now_ms, &id, stored.map(record).as_ref()),
                Subject::Pool(name) => {
                    if let Some(PoolRecord { used, .. }) = stored.map(record) {
                        oracle.slots_are(now_ms, &name, used);
                    }
                }
                Subject::Other => {}
            }
        }
    }
}

/// A write between its sender and the ledger. If its sender crashes meanwhile, it may arrive all the same.
struct OnTheWay<'a> {
    ground: &'a Ground,
    write: Option<&'a Write>,
}

impl OnTheWay<'_> {
    fn arrived(mut self) {
        self.write = None;
    }
}

impl Drop for OnTheWay<'_> {
    fn drop(&mut self) {
        if let Some(write) = self.write.take()
            && self.ground.chance().hits(LATE_AFTER_CRASH)
        {
            send_late(self.ground, write);
        }
    }
}

fn send_late(ground: &Ground, write: &Write) {
    ground.fired(Fault::LateWrite);
    let wait_ms = ground.chance().skewed(10, 10_000);
    ground.plan_in(wait_ms, Event::LateWrite(Box::new(write.clone())));
}

fn at_once<T>(call: impl Future<Output = T>) -> T {
    call.now_or_never().expect("the ledger in memory answers at once")
}
