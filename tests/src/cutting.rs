//! Cuts: a control plane that is cut off at the n-th point of its work, before or after one of its calls, as a crash would. What it had
//! done by then is done.

use async_trait::async_trait;
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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Counts the points that are passed, and cuts at one of them, once.
#[derive(Debug, Default)]
pub struct Cuts {
    inner: Mutex<Inner>,
    cut: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    at: Option<usize>,
    passed: Vec<String>,
}

impl Cuts {
    /// Without `at`, it only counts.
    pub fn new(at: Option<usize>) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::new(Inner { at, passed: Vec::new() }), cut: Notify::new() })
    }

    /// From here on: counts anew, and cuts at this point.
    pub fn cut_at(&self, at: Option<usize>) {
        *self.inner() = Inner { at, passed: Vec::new() };
    }

    /// Returns at once; at the point of the cut, never.
    pub async fn pass(&self, what: String) {
        let cut = {
            let mut inner = self.inner();
            let cut = inner.at == Some(inner.passed.len());
            inner.passed.push(what);
            cut
        };
        if cut {
            self.cut.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// What came of `work`; nothing if it was cut off.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.cut.notified() => None,
            done = work => Some(done),
        }
    }

    /// What was passed so far, in its order.
    pub fn passed(&self) -> Vec<String> {
        self.inner().passed.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A ledger whose writes can be cut off. Reads are no points: nothing is done by them.
#[derive(Debug)]
pub struct Cutting {
    inner: Arc<dyn Ledger>,
    cuts: Arc<Cuts>,
}

impl Cutting {
    pub fn new(inner: Arc<dyn Ledger>, cuts: &Arc<Cuts>) -> Self {
        Self { inner, cuts: Arc::clone(cuts) }
    }

    async fn write<T>(&self, verb: &str, write: impl Future<Output = T>) -> T {
        self.cuts.pass(format!("before {verb}")).await;
        let written = write.await;
        self.cuts.pass(format!("after {verb}")).await;
        written
    }
}

#[async_trait]
impl Ledger for Cutting {
    async fn write_pool(&self, write: PoolWrite<'_>) -> Result<Written<PoolRecord>, LedgerError> {
        self.write("write_pool", self.inner.write_pool(write)).await
    }

    async fn pool(&self, name: &PoolName) -> Result<Option<PoolRecord>, LedgerError> {
        self.inner.pool(name).await
    }

    async fn pools(&self) -> Result<Vec<PoolRecord>, LedgerError> {
        self.inner.pools().await
    }

    async fn delete_pool(&self, name: &PoolName, seen: u64) -> Result<Deleted, LedgerError> {
        self.write("delete_pool", self.inner.delete_pool(name, seen)).await
    }

    async fn runner(&self, id: &RunnerId) -> Result<Option<Runner>, LedgerError> {
        self.inner.runner(id).await
    }

    async fn runners(&self, ids: &[RunnerId]) -> Result<Vec<Option<Runner>>, LedgerError> {
        self.inner.runners(ids).await
    }

    async fn list_runners(
        &self,
        pool: &PoolName,
        state: Option<StateName>,
        page: Page,
    ) -> Result<Listed<Runner>, LedgerError> {
        self.inner.list_runners(pool, state, page).await
    }

    async fn count_runners(
        &self,
        pool: &PoolName,
        state: StateName,
        at_most: u32,
    ) -> Result<u32, LedgerError> {
        self.inner.count_runners(pool, state, at_most).await
    }

    async fn write_runner(&self, write: RunnerWrite<'_>) -> Result<Written<Runner>, LedgerError> {
        self.write("write_runner", self.inner.write_runner(write)).await
    }

    async fn write_runners(&self, writes: &[RunnerWrite<'_>]) -> Result<AllWritten, LedgerError> {
        self.write("write_runners", self.inner.write_runners(writes)).await
    }

    async fn write_launch_intents(&self, write: IntentsWrite<'_>) -> Result<IntentsWritten, LedgerError> {
        self.write("write_launch_intents", self.inner.write_launch_intents(write)).await
    }

    async fn take_idle(&self, claim: ClaimGain<'_>, runner: RunnerWrite<'_>) -> Result<Taken, LedgerError> {
        self.write("take_idle", self.inner.take_idle(claim, runner)).await
    }

    async fn heartbeat(&self, id: &RunnerId, epoch: Epoch, at: Timestamp) -> Result<(), LedgerError> {
        self.write("heartbeat", self.inner.heartbeat(id, epoch, at)).await
    }

    async fn note_announced(&self, id: &RunnerId, epoch: Epoch, at: Timestamp) -> Result<(), LedgerError> {
        self.write("note_announced", self.inner.note_announced(id, epoch, at)).await
    }

    async fn look_again(&self, runner: &Runner, at: Timestamp) -> Result<(), LedgerError> {
        self.write("look_again", self.inner.look_again(runner, at)).await
    }

    async fn open_claim(&self, claim: &Claim, opening: ClaimOpening<'_>) -> Result<Opened, LedgerError> {
        self.write("open_claim", self.inner.open_claim(claim, opening)).await
    }

    async fn claim(&self, id: &ClaimId) -> Result<Option<Claim>, LedgerError> {
        self.inner.claim(id).await
    }

    async fn claim_by_key(&self, key: &ClaimKey) -> Result<Option<Claim>, LedgerError> {
        self.inner.claim_by_key(key).await
    }

    async fn claims_of(&self, owner: &Owner, workflow: &Workflow) -> Result<Vec<Claim>, LedgerError> {
        self.inner.claims_of(owner, workflow).await
    }

    async fn write_claim(&self, write: ClaimWrite<'_>) -> Result<Written<Claim>, LedgerError> {
        self.write("write_claim", self.inner.write_claim(write)).await
    }

    async fn list_claims(
        &self,
        pool: &PoolName,
        which: WhichClaims,
        page: Page,
    ) -> Result<Listed<Claim>, LedgerError> {
        self.inner.list_claims(pool, which, page).await
    }

    async fn note_shortage(&self, pool: &PoolName, shortage: &Shortage) -> Result<(), LedgerError> {
        self.write("note_shortage", self.inner.note_shortage(pool, shortage)).await
    }

    async fn shortages(&self, pool: &PoolName, now: Timestamp) -> Result<Vec<Shortage>, LedgerError> {
        self.inner.shortages(pool, now).await
    }

    async fn due(&self, now: Timestamp, at_most: u32) -> Result<Vec<Due>, LedgerError> {
        self.inner.due(now, at_most).await
    }

    async fn audit(&self, subject: &Subject, page: Page) -> Result<Listed<AuditEntry>, LedgerError> {
        self.inner.audit(subject, page).await
    }

    async fn note(&self, subject: &Subject, entry: &AuditEntry) -> Result<(), LedgerError> {
        self.write("note", self.inner.note(subject, entry)).await
    }

    async fn refresh_memory(&self) -> Result<Option<RefreshMemory>, LedgerError> {
        self.inner.refresh_memory().await
    }

    async fn put_refresh_memory(&self, memory: &RefreshMemory) -> Result<(), LedgerError> {
        self.write("put_refresh_memory", self.inner.put_refresh_memory(memory)).await
    }

    async fn ping(&self) -> Result<(), LedgerError> {
        self.inner.ping().await
    }
}
