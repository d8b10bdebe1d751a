//! The ledger over DynamoDB: AWS, or the embedded engine, the same to the last line. One table (see `table`), one item a
//! record. It decides nothing and scans nothing.

mod audit;
mod claims;
mod due;
mod expression;
mod items;
mod launch;
mod pools;
mod read;
mod refresh;
mod runners;
mod shortages;
mod take;
mod transact;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
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

#[derive(Debug, Clone)]
pub struct DynamoLedger {
    client: Client,
    table: String,
}

impl DynamoLedger {
    /// Over a table that is there already: see `table::ensure_table`.
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }
}

#[async_trait]
impl Ledger for DynamoLedger {
    async fn write_pool(&self, write: PoolWrite<'_>) -> Result<Written<PoolRecord>, LedgerError> {
        pools::write(self, write).await
    }

    async fn pool(&self, name: &PoolName) -> Result<Option<PoolRecord>, LedgerError> {
        pools::one(self, name).await
    }

    async fn pools(&self) -> Result<Vec<PoolRecord>, LedgerError> {
        pools::all(self).await
    }

    async fn delete_pool(&self, name: &PoolName, seen: u64) -> Result<Deleted, LedgerError> {
        pools::delete(self, name, seen).await
    }

    async fn runner(&self, id: &RunnerId) -> Result<Option<Runner>, LedgerError> {
        runners::one(self, id).await
    }

    async fn runners(&self, ids: &[RunnerId]) -> Result<Vec<Option<Runner>>, LedgerError> {
        runners::many(self, ids).await
    }

    async fn list_runners(
        &self,
        pool: &PoolName,
        state: Option<StateName>,
        page: Page,
    ) -> Result<Listed<Runner>, LedgerError> {
        runners::list(self, pool, state, page).await
    }

    async fn count_runners(
        &self,
        pool: &PoolName,
        state: StateName,
        at_most: u32,
    ) -> Result<u32, LedgerError> {
        runners::count(self, pool, state, at_most).await
    }

    async fn write_runners(&self, writes: &[RunnerWrite<'_>]) -> Result<AllWritten, LedgerError> {
        runners::write_all(self, writes).await
    }

    async fn note_shortage(&self, pool: &PoolName, shortage: &Shortage) -> Result<(), LedgerError> {
        shortages::note(self, pool, shortage).await
    }

    async fn shortages(&self, pool: &PoolName, now: Timestamp) -> Result<Vec<Shortage>, LedgerError> {
        shortages::of_pool(self, pool, now).await
    }

    async fn write_runner(&self, write: RunnerWrite<'_>) -> Result<Written<Runner>, LedgerError> {
        runners::write(self, write).await
    }

    async fn write_launch_intents(&self, write: IntentsWrite<'_>) -> Result<IntentsWritten, LedgerError> {
        launch::write(self, write).await
    }

    async fn take_idle(&self, claim: ClaimGain<'_>, runner: RunnerWrite<'_>) -> Result<Taken, LedgerError> {
        take::take_idle(self, claim, runner).await
    }

    async fn heartbeat(&self, id: &RunnerId, epoch: Epoch, at: Timestamp) -> Result<(), LedgerError> {
        runners::heartbeat(self, id, epoch, at).await
    }

    async fn note_announced(&self, id: &RunnerId, epoch: Epoch, at: Timestamp) -> Result<(), LedgerError> {
        runners::note_announced(self, id, epoch, at).await
    }

    async fn look_again(&self, runner: &Runner, at: Timestamp) -> Result<(), LedgerError> {
        due::look_again(self, runner, at).await
    }

    async fn open_claim(&self, claim: &Claim, opening: ClaimOpening<'_>) -> Result<Opened, LedgerError> {
        claims::open(self, claim, opening).await
    }

    async fn claim(&self, id: &ClaimId) -> Result<Option<Claim>, LedgerError> {
        claims::one(self, id).await
    }

    async fn claim_by_key(&self, key: &ClaimKey) -> Result<Option<Claim>, LedgerError> {
        claims::by_key(self, key).await
    }

    async fn claims_of(&self, owner: &Owner, workflow: &Workflow) -> Result<Vec<Claim>, LedgerError> {
        claims::of(self, owner, workflow).await
    }

    async fn write_claim(&self, write: ClaimWrite<'_>) -> Result<Written<Claim>, LedgerError> {
        claims::write(self, write).await
    }

    async fn list_claims(
        &self,
        pool: &PoolName,
        which: WhichClaims,
        page: Page,
    ) -> Result<Listed<Claim>, LedgerError> {
        claims::list(self, pool, which, page).await
    }

    async fn due(&self, now: Timestamp, at_most: u32) -> Result<Vec<Due>, LedgerError> {
        due::due(self, now, at_most).await
    }

    async fn audit(&self, subject: &Subject, page: Page) -> Result<Listed<AuditEntry>, LedgerError> {
        audit::list(self, subject, page).await
    }

    async fn note(&self, subject: &Subject, entry: &AuditEntry) -> Result<(), LedgerError> {
        audit::note(self, subject, entry).await
    }

    async fn refresh_memory(&self) -> Result<Option<RefreshMemory>, LedgerError> {
        refresh::memory(self).await
    }

    async fn put_refresh_memory(&self, memory: &RefreshMemory) -> Result<(), LedgerError> {
        refresh::put_memory(self, memory).await
    }

    async fn ping(&self) -> Result<(), LedgerError> {
        refresh::ping(self).await
    }
}

/// What could not be done, and why.
fn failed(
    attempted: impl Into<String>,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> LedgerError {
    LedgerError::Failed { attempted: attempted.into(), source: source.into() }
}
