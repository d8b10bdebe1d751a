//! The ledger as control planes see it through a network: every call waits at a gate; some are throttled, conflict, are applied
//! without an answer, or applied twice; listings lag. What is applied is held against the oracle's books.

mod books;
mod port;
mod write;

pub(crate) use books::Books;
pub use books::Engine;
pub(crate) use write::{Answer, Gain, Intents, PoolChange, RunnerChange, Write};

use super::calls::Kind;
use super::faults::Fault;
use super::gate::{Gate, Side, Toward};
use super::ground::Ground;
use super::oracle::Scene;
use super::schedule::Event;
use super::weather::Wind;
use motorpool_control::ports::ledger::LedgerError;
use motorpool_domain::pool::Pool;
use motorpool_domain::{ClaimId, PoolName, RunnerId};
use motorpool_ledger::MemoryLedger;
use std::future::Future;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct SimLedger {
    pub(crate) ground: Arc<Ground>,
    pub(crate) books: Arc<Books>,
}

/// How far an index may be behind.
const MOST_LAG_MS: u64 = 5_000;
/// How often the adapter repeats a transaction that conflicts before it gives up.
const CONFLICTS: usize = 4;
/// Of 10,000 writes that were under way when their sender crashed.
const LATE_AFTER_CRASH: u32 = 4_000;

impl SimLedger {
    /// A pool that is there from the beginning.
    pub(crate) fn define(&self, pool: Pool) {
        let first = PoolChange { seen: 0, rev: 1, pool, only_unused: false };
        self.apply(&Write::Pool(Box::new(first)), false).expect("the first write");
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
            return Err(failed(attempted, "the ledger is throttled"));
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

    /// A listing: as it is, or as it was.
    async fn listing<T: PartialEq>(
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

    async fn write(&self, write: Write) -> Result<Answer, LedgerError> {
        let on_the_way = OnTheWay { ground: &self.ground, write: Some(&write) };
        self.travels(Side::Before).await;
        on_the_way.arrived();
        self.may_be_throttled("write")?;
        if self.ground.strikes(Wind::LedgerAnswersLost) && self.ground.chance().hits(2_000) {
            send_late(&self.ground, &write);
            return Err(failed("write", "no answer came in time"));
        }
        for nth in 1..=CONFLICTS {
            if !write.is_transaction() || !self.ground.strikes(Wind::LedgerConflicts) {
                break;
            }
            self.ground.fired(Fault::TransactionConflict);
            if nth == CONFLICTS {
                return Err(failed("write", "the transaction conflicts with others"));
            }
            // The adapter waits and repeats it.
            self.travels(Side::Before).await;
        }
        let answer = self.apply(&write, false)?;
        if answer.done() && self.ground.strikes(Wind::LedgerAnswersLost) {
            if self.ground.chance().hits(5_000) {
                self.ground.fired(Fault::AnswerLostError);
                self.travels(Side::After).await;
                return Err(failed("write", "the answer was lost"));
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

    fn apply(&self, write: &Write, repeated: bool) -> Result<Answer, LedgerError> {
        self.must_be_allowed(write);
        let (answer, twin) = self.books.apply(write, self.ground.now_ms())?;
        self.ground.tell(|| {
            let again = if repeated { "again, " } else { "" };
            format!("ledger: {again}{}: {}", write.in_words(), answer.in_words())
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
            let raced = oracle.races(&scene, write, &answer);
            oracle.written(&scene, write, &answer, repeated);
            raced
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
            (Some(Kind::OldEpoch), Write::Heartbeat { .. }) => false,
            (Some(Kind::OldEpoch), _) => true,
            (_, _) => false,
        };
        if refused {
            self.ground.broken(21, &[], format!("a {kind:?} sync writes {write:?}"));
        }
    }

    /// What the ledger has now is what the oracle knows to be written: no more, no less.
    fn books_agree(&self, write: &Write) {
        let (runners, claims, pool) = self.touched(write);
        for id in runners {
            let found = self.books.now(self.books.ledger().runner(&id)).ok().flatten();
            self.ground.oracle().runner_is(self.ground.now_ms(), &id, found.as_ref());
        }
        for id in claims {
            let found = self.books.now(self.books.ledger().claim(&id)).ok().flatten();
            self.ground.oracle().claim_is(self.ground.now_ms(), &id, found.as_ref());
        }
        if let Some(name) = pool
            && let Ok(Some(record)) = self.books.now(self.books.ledger().pool(&name))
        {
            self.ground.oracle().slots_are(self.ground.now_ms(), &name, record.used);
        }
    }

    fn touched(&self, write: &Write) -> (Vec<RunnerId>, Vec<ClaimId>, Option<PoolName>) {
        match write {
            Write::Runner(change) => (vec![change.after.id.clone()], vec![], Some(change.after.pool.clone())),
            Write::Runners(changes) => {
                (changes.iter().map(|change| change.after.id.clone()).collect(), vec![], None)
            }
            Write::Intents(intents) => (
                intents.runners.iter().map(|runner| runner.id.clone()).collect(),
                intents.claim.iter().map(|gain| gain.write.after.id.clone()).collect(),
                Some(intents.pool.clone()),
            ),
            Write::Take { claim, runner } => {
                (vec![runner.after.id.clone()], vec![claim.write.after.id.clone()], None)
            }
            Write::Open { claim, .. } => (vec![], vec![claim.id.clone()], None),
            Write::Claim(change) => (vec![], vec![change.after.id.clone()], None),
            Write::Pool(_)
            | Write::DeletePool { .. }
            | Write::Heartbeat { .. }
            | Write::Announced { .. }
            | Write::LookAgain { .. }
            | Write::Shortage { .. }
            | Write::Note { .. }
            | Write::RefreshMemory(_) => (vec![], vec![], None),
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

fn failed(attempted: &str, why: &'static str) -> LedgerError {
    LedgerError::Failed { attempted: attempted.to_owned(), source: why.into() }
}
