//! The verbs of the port, each as a read, a listing or a write.

use super::write::{Answer, ClaimChange, Gain, Intents, Opening, PoolChange, RunnerChange, Write};
use super::{SimLedger, failed};
use async_trait::async_trait;
use futures_util::FutureExt;
use motorpool_control::ports::ledger::{
    AllWritten, ClaimGain, ClaimOpening, ClaimWrite, Deleted, Due, IntentsWrite, IntentsWritten, Ledger,
    LedgerError, Listed, Opened, Page, PoolRecord, PoolWrite, RefreshMemory, RunnerWrite, Subject, Taken,
    WhichClaims, Written,
};
use motorpool_domain::audit::AuditEntry;
use motorpool_domain::claim::{Claim, ClaimKey};
use motorpool_domain::ladder::Shortage;
use motorpool_domain::runner::{Runner, StateName};
use motorpool_domain::{ClaimId, Epoch, Owner, PoolName, RunnerId, Timestamp, Workflow};
use std::future::Future;

#[async_trait]
impl Ledger for SimLedger {
    async fn write_pool(&self, write: PoolWrite<'_>) -> Result<Written<PoolRecord>, LedgerError> {
        match self.write(Write::Pool(Box::new(PoolChange::of(write)))).await? {
            Answer::Pool(written) => Ok(*written),
            other => Err(mixed_up(&other)),
        }
    }

    async fn pool(&self, name: &PoolName) -> Result<Option<PoolRecord>, LedgerError> {
        self.read("read a pool", self.books.ledger().pool(name)).await
    }

    async fn pools(&self) -> Result<Vec<PoolRecord>, LedgerError> {
        let call = self.books.ledger().pools();
        self.listing("list the pools", call, |late| at_once(late.pools())).await
    }

    async fn delete_pool(&self, name: &PoolName, seen: u64) -> Result<Deleted, LedgerError> {
        match self.write(Write::DeletePool { name: name.clone(), seen }).await? {
            Answer::Deleted(deleted) => Ok(deleted),
            other => Err(mixed_up(&other)),
        }
    }

    async fn runner(&self, id: &RunnerId) -> Result<Option<Runner>, LedgerError> {
        self.read("read a runner", self.books.ledger().runner(id)).await
    }

    async fn runners(&self, ids: &[RunnerId]) -> Result<Vec<Option<Runner>>, LedgerError> {
        self.read("read runners", self.books.ledger().runners(ids)).await
    }

    async fn list_runners(
        &self,
        pool: &PoolName,
        state: Option<StateName>,
        page: Page,
    ) -> Result<Listed<Runner>, LedgerError> {
        let call = self.books.ledger().list_runners(pool, state, page.clone());
        self.listing("list runners", call, |late| at_once(late.list_runners(pool, state, page))).await
    }

    async fn count_runners(
        &self,
        pool: &PoolName,
        state: StateName,
        at_most: u32,
    ) -> Result<u32, LedgerError> {
        let call = self.books.ledger().count_runners(pool, state, at_most);
        self.listing("count runners", call, |late| at_once(late.count_runners(pool, state, at_most))).await
    }

    async fn write_runner(&self, write: RunnerWrite<'_>) -> Result<Written<Runner>, LedgerError> {
        match self.write(Write::Runner(Box::new(RunnerChange::of(write)))).await? {
            Answer::Runner(written) => Ok(*written),
            other => Err(mixed_up(&other)),
        }
    }

    async fn write_runners(&self, writes: &[RunnerWrite<'_>]) -> Result<AllWritten, LedgerError> {
        let changes = writes.iter().map(|write| RunnerChange::of(*write)).collect();
        match self.write(Write::Runners(changes)).await? {
            Answer::Runners(written) => Ok(written),
            other => Err(mixed_up(&other)),
        }
    }

    async fn note_shortage(&self, pool: &PoolName, shortage: &Shortage) -> Result<(), LedgerError> {
        let (pool, shortage) = (pool.clone(), shortage.clone());
        self.write(Write::Shortage { pool, shortage }).await.map(|_| ())
    }

    async fn shortages(&self, pool: &PoolName, now: Timestamp) -> Result<Vec<Shortage>, LedgerError> {
        self.read("read shortages", self.books.ledger().shortages(pool, now)).await
    }

    async fn write_launch_intents(&self, write: IntentsWrite<'_>) -> Result<IntentsWritten, LedgerError> {
        match self.write(Write::Intents(Box::new(Intents::of(write)))).await? {
            Answer::Intents(written) => Ok(written),
            other => Err(mixed_up(&other)),
        }
    }

    async fn take_idle(&self, claim: ClaimGain<'_>, runner: RunnerWrite<'_>) -> Result<Taken, LedgerError> {
        let claim = Box::new(Gain::of(claim));
        match self.write(Write::Take { claim, runner: Box::new(RunnerChange::of(runner)) }).await? {
            Answer::Taken(taken) => Ok(taken),
            other => Err(mixed_up(&other)),
        }
    }

    async fn heartbeat(&self, id: &RunnerId, epoch: Epoch, at: Timestamp) -> Result<(), LedgerError> {
        self.write(Write::Heartbeat { id: id.clone(), epoch, at }).await.map(|_| ())
    }

    async fn note_announced(&self, id: &RunnerId, epoch: Epoch, at: Timestamp) -> Result<(), LedgerError> {
        self.write(Write::Announced { id: id.clone(), epoch, at }).await.map(|_| ())
    }

    async fn look_again(&self, runner: &Runner, at: Timestamp) -> Result<(), LedgerError> {
        self.write(Write::LookAgain { runner: Box::new(runner.clone()), at }).await.map(|_| ())
    }

    async fn open_claim(&self, claim: &Claim, opening: ClaimOpening<'_>) -> Result<Opened, LedgerError> {
        let opening = Box::new(Opening::of(opening));
        match self.write(Write::Open { claim: Box::new(claim.clone()), opening }).await? {
            Answer::Opened(opened) => Ok(opened),
            other => Err(mixed_up(&other)),
        }
    }

    async fn claim(&self, id: &ClaimId) -> Result<Option<Claim>, LedgerError> {
        self.read("read a claim", self.books.ledger().claim(id)).await
    }

    async fn claim_by_key(&self, key: &ClaimKey) -> Result<Option<Claim>, LedgerError> {
        self.read("read a claim by its key", self.books.ledger().claim_by_key(key)).await
    }

    async fn claims_of(&self, owner: &Owner, workflow: &Workflow) -> Result<Vec<Claim>, LedgerError> {
        self.read("read a workflow's claims", self.books.ledger().claims_of(owner, workflow)).await
    }

    async fn write_claim(&self, write: ClaimWrite<'_>) -> Result<Written<Claim>, LedgerError> {
        match self.write(Write::Claim(Box::new(ClaimChange::of(write)))).await? {
            Answer::Claim(written) => Ok(*written),
            other => Err(mixed_up(&other)),
        }
    }

    async fn list_claims(
        &self,
        pool: &PoolName,
        which: WhichClaims,
        page: Page,
    ) -> Result<Listed<Claim>, LedgerError> {
        let call = self.books.ledger().list_claims(pool, which, page.clone());
        self.listing("list claims", call, |late| at_once(late.list_claims(pool, which, page))).await
    }

    async fn due(&self, now: Timestamp, at_most: u32) -> Result<Vec<Due>, LedgerError> {
        let call = self.books.ledger().due(now, at_most);
        self.listing("read what is due", call, |late| at_once(late.due(now, at_most))).await
    }

    async fn audit(&self, subject: &Subject, page: Page) -> Result<Listed<AuditEntry>, LedgerError> {
        self.read("read a log", self.books.ledger().audit(subject, page)).await
    }

    async fn note(&self, subject: &Subject, entry: &AuditEntry) -> Result<(), LedgerError> {
        self.write(Write::Note { subject: subject.clone(), entry: entry.clone() }).await.map(|_| ())
    }

    async fn refresh_memory(&self) -> Result<Option<RefreshMemory>, LedgerError> {
        self.read("read what refresh remembers", self.books.ledger().refresh_memory()).await
    }

    async fn put_refresh_memory(&self, memory: &RefreshMemory) -> Result<(), LedgerError> {
        self.write(Write::RefreshMemory(*memory)).await.map(|_| ())
    }

    async fn ping(&self) -> Result<(), LedgerError> {
        self.read("ping", self.books.ledger().ping()).await
    }
}

fn at_once<T>(call: impl Future<Output = T>) -> T {
    call.now_or_never().expect("the ledger in memory answers at once")
}

fn mixed_up(answer: &Answer) -> LedgerError {
    failed("answer", if answer.done() { "the answer is another write's" } else { "another write was lost" })
}
