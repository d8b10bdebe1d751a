//! The ledger port: the truth, in verbs. Every write is conditional on what it was decided from, and says whether it won.

use async_trait::async_trait;
use motorpool_domain::audit::AuditEntry;
use motorpool_domain::claim::{Claim, ClaimKey};
use motorpool_domain::ladder::Shortage;
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{Runner, StateName};
use motorpool_domain::{ClaimId, Epoch, Owner, PoolName, RunnerId, Timestamp, Workflow};

#[async_trait]
pub trait Ledger: Send + Sync + std::fmt::Debug {
    /// Defines a pool, or changes its rules, if it is as it was seen. Its slot counter stays as it is.
    async fn write_pool(&self, write: PoolWrite<'_>) -> Result<Written<PoolRecord>, LedgerError>;
    async fn pool(&self, name: &PoolName) -> Result<Option<PoolRecord>, LedgerError>;
    /// All pools, by name.
    async fn pools(&self) -> Result<Vec<PoolRecord>, LedgerError>;
    /// Only a pool that still has the revision that was read, and no slot in use, is deleted.
    async fn delete_pool(&self, name: &PoolName, seen: u64) -> Result<Deleted, LedgerError>;

    /// The record itself, as it is now.
    async fn runner(&self, id: &RunnerId) -> Result<Option<Runner>, LedgerError>;
    /// The records themselves, in the order asked for.
    async fn runners(&self, ids: &[RunnerId]) -> Result<Vec<Option<Runner>>, LedgerError>;
    /// For display, sweeps and a first look: an index, and so perhaps late. Terminated runners are listed only when asked for by state. Of
    /// those that are created, the ones that nobody holds come first.
    async fn list_runners(
        &self,
        pool: &PoolName,
        state: Option<StateName>,
        page: Page,
    ) -> Result<Listed<Runner>, LedgerError>;
    /// How many runners of the pool are listed in `state`, counted up to `at_most`.
    async fn count_runners(
        &self,
        pool: &PoolName,
        state: StateName,
        at_most: u32,
    ) -> Result<u32, LedgerError>;

    /// `after` in the place of `before`, if that is still what is there. Entering `terminated` gives the slot back.
    async fn write_runner(&self, write: RunnerWrite<'_>) -> Result<Written<Runner>, LedgerError>;
    /// One transaction: each `after` in the place of its `before`, all or none. At most 25, and none enters `terminated`.
    async fn write_runners(&self, writes: &[RunnerWrite<'_>]) -> Result<AllWritten, LedgerError>;
    /// One transaction: the slots, the intents, and the claim that gains them.
    async fn write_launch_intents(&self, write: IntentsWrite<'_>) -> Result<IntentsWritten, LedgerError>;
    /// One transaction: the claim is still as it was read, or opened with it, and gains the runner; the runner is idle or on
    /// its way for nobody, and is taken.
    async fn take_idle(&self, claim: ClaimGain<'_>, runner: RunnerWrite<'_>) -> Result<Taken, LedgerError>;

    /// The agent was heard at `at`. Neither audited, nor a change of the record, nor of any index.
    async fn heartbeat(&self, id: &RunnerId, epoch: Epoch, at: Timestamp) -> Result<(), LedgerError>;
    /// A queue was told at `at` that this runner is idle.
    async fn note_announced(&self, id: &RunnerId, epoch: Epoch, at: Timestamp) -> Result<(), LedgerError>;
    /// The record was looked at, and need not be before `at`. Nothing happens if it has changed since.
    async fn look_again(&self, runner: &Runner, at: Timestamp) -> Result<(), LedgerError>;

    /// A new claim under its key, without a runner yet.
    async fn open_claim(&self, claim: &Claim, opening: ClaimOpening<'_>) -> Result<Opened, LedgerError>;
    async fn claim(&self, id: &ClaimId) -> Result<Option<Claim>, LedgerError>;
    /// The latest claim with this key.
    async fn claim_by_key(&self, key: &ClaimKey) -> Result<Option<Claim>, LedgerError>;
    /// The latest claim of the workflow on each pool.
    async fn claims_of(&self, owner: &Owner, workflow: &Workflow) -> Result<Vec<Claim>, LedgerError>;
    async fn write_claim(&self, write: ClaimWrite<'_>) -> Result<Written<Claim>, LedgerError>;
    /// For display and sweeps, oldest first: an index, and so perhaps late.
    async fn list_claims(
        &self,
        pool: &PoolName,
        which: WhichClaims,
        page: Page,
    ) -> Result<Listed<Claim>, LedgerError>;

    /// What the provider had none of, for whoever launches next. Forgotten when it is over.
    async fn note_shortage(&self, pool: &PoolName, shortage: &Shortage) -> Result<(), LedgerError>;
    /// Those of the pool that are not over at `now`.
    async fn shortages(&self, pool: &PoolName, now: Timestamp) -> Result<Vec<Shortage>, LedgerError>;

    /// What is due at `now`, up to `at_most`: a hint of where to look.
    async fn due(&self, now: Timestamp, at_most: u32) -> Result<Vec<Due>, LedgerError>;

    /// The subject's log, newest first.
    async fn audit(&self, subject: &Subject, page: Page) -> Result<Listed<AuditEntry>, LedgerError>;
    /// An entry that belongs to no write of a record.
    async fn note(&self, subject: &Subject, entry: &AuditEntry) -> Result<(), LedgerError>;

    /// What refresh remembers from pass to pass.
    async fn refresh_memory(&self) -> Result<Option<RefreshMemory>, LedgerError>;
    async fn put_refresh_memory(&self, memory: &RefreshMemory) -> Result<(), LedgerError>;

    /// Cheap proof that the ledger answers.
    async fn ping(&self) -> Result<(), LedgerError>;
}

#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("the ledger could not {attempted}")]
    Failed {
        attempted: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The caller's mistake, not the ledger's.
    #[error("'{after}' is not where a page of this listing ended")]
    BadPage { after: String },
    #[error("the ledger's record of {subject} can't be read")]
    Unreadable {
        subject: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Whether a conditional write won. Losing is an outcome, and shows what is there instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written<T> {
    Done,
    Lost { found: T },
    Missing,
}

/// Whether a transaction over several records won.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllWritten {
    Done,
    /// At least one of them is not as it was read; nothing was written.
    Lost,
}

/// The condition is the state, epoch and revision of `before`.
#[derive(Debug, Clone, Copy)]
pub struct RunnerWrite<'a> {
    pub before: &'a Runner,
    pub after: &'a Runner,
    /// When to look at it, if that comes before its threshold.
    pub look_at: Option<Timestamp>,
    pub entry: &'a AuditEntry,
}

/// The condition is the revision and state of `before`.
#[derive(Debug, Clone, Copy)]
pub struct ClaimWrite<'a> {
    pub before: &'a Claim,
    pub after: &'a Claim,
    pub entry: &'a AuditEntry,
}

/// A claim that gains runners. One that is not in the ledger yet is opened by the same write: `after` is then the first that is
/// written of it, and the condition is that its key is free.
#[derive(Debug, Clone, Copy)]
pub struct ClaimGain<'a> {
    pub write: ClaimWrite<'a>,
    pub opening: Option<ClaimOpening<'a>>,
}

/// How a claim takes its key: nobody has it, or `replaces`, which has ended.
#[derive(Debug, Clone, Copy)]
pub struct ClaimOpening<'a> {
    pub replaces: Option<&'a ClaimId>,
    pub entry: &'a AuditEntry,
}

impl<'a> From<ClaimWrite<'a>> for ClaimGain<'a> {
    fn from(write: ClaimWrite<'a>) -> Self {
        Self { write, opening: None }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct IntentsWrite<'a> {
    pub pool: &'a PoolName,
    /// The pool's limit: the slots in use stay at or below it.
    pub max: u32,
    /// Only if exactly so many slots are in use: for who decided on that number.
    pub only_if_used: Option<u32>,
    /// At most 25, none of which exists. A terminated record of an earlier life is replaced.
    pub runners: &'a [Runner],
    pub look_at: Option<Timestamp>,
    pub claim: Option<ClaimGain<'a>>,
    pub entry: &'a AuditEntry,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntentsWritten {
    Done,
    /// Not so many slots are free, or the number in use was another.
    NoSlots {
        used: u32,
    },
    /// The claim moved on, or another has its key.
    ClaimLost,
    /// A live runner has that id.
    Exists,
    NoPool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    Done,
    /// The claim moved on: ended, or gained another runner meanwhile; or another has its key.
    ClaimLost,
    /// Somebody else has the runner, or it is no longer idle.
    RunnerLost {
        found: Option<Box<Runner>>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    Done,
    /// Another claim has the key.
    Lost {
        found: Option<ClaimId>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    Done,
    InUse {
        used: u32,
    },
    /// It was defined anew meanwhile.
    Changed,
    Missing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRecord {
    pub pool: Pool,
    /// Of the definition; slots do not change it.
    pub rev: u64,
    /// Slots in use: live runners and launch intents.
    pub used: u32,
}

/// A pool as it should be, on the condition that it still is as it was seen.
#[derive(Debug, Clone, Copy)]
pub struct PoolWrite<'a> {
    /// The revision that was read; 0 where there was no pool.
    pub seen: u64,
    pub rev: u64,
    pub pool: &'a Pool,
    /// Also on the condition that no slot is in use.
    pub only_unused: bool,
}

impl PoolWrite<'_> {
    /// Whether the record is what this very write made, though its answer was lost.
    pub fn made(&self, record: &PoolRecord) -> bool {
        (record.rev, &record.pool) == (self.rev, self.pool)
    }
}

/// How much of a listing, and from where on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub at_most: u32,
    pub after: Option<String>,
}

impl Page {
    pub fn first(at_most: u32) -> Self {
        Self { at_most, after: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<T> {
    pub items: Vec<T>,
    /// Where the next page begins; nothing after the last.
    pub next: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichClaims {
    /// Those that lack a runner.
    Short,
    /// Those that wait for something, be it only for the runners that they have.
    Waiting,
    Open,
    /// Ended ones as well, while they are kept.
    All,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Due {
    Runner(RunnerId),
    Claim(ClaimId),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    Runner(RunnerId),
    Claim(ClaimId),
    Pool(PoolName),
}

/// Kept from pass to pass, so that a gap between passes shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefreshMemory {
    pub last_pass_at: Timestamp,
    pub last_sweep_at: Timestamp,
    /// Since when heartbeats could have arrived without a gap.
    pub listening_since: Timestamp,
}
