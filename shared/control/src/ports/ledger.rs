//! The ledger port: one transactional store of documents. It knows no kind of record, and decides nothing; what a pool or a claim is stands
//! above it, in `store`.

use super::tx::{Committed, Stored, Tx};
use async_trait::async_trait;
use motorpool_domain::Timestamp;
use motorpool_domain::record::{Key, Path};

#[async_trait]
pub trait Ledger: Send + Sync + std::fmt::Debug {
    /// The rows themselves, as they are now, in the order asked for.
    async fn get(&self, paths: &[Path]) -> Result<Vec<Option<Stored>>, LedgerError>;

    /// All of the transaction or nothing of it. An answer means that it is durable. The same transaction again after a lost answer is refused
    /// by its own writes: what that means, its caller knows.
    async fn commit(&self, tx: &Tx) -> Result<Committed, LedgerError>;

    /// Notes marks beside a row: no change of its version, and of no index. Nothing happens where the row is not of this life.
    async fn touch(&self, touch: &Touch) -> Result<(), LedgerError>;

    /// A stretch of a list, in its order: from an index, and so perhaps late.
    async fn list(&self, span: &Span, at_most: usize) -> Result<Vec<Placed>, LedgerError>;

    /// How many places a stretch of a list has, counted up to `at_most`: from an index, and so perhaps late.
    async fn count(&self, span: &Span, at_most: usize) -> Result<usize, LedgerError>;

    /// What stands under a key, by name, as it is now.
    async fn children(&self, of: &Children, at_most: usize) -> Result<Vec<Stored>, LedgerError>;

    /// What is due at `now`, the longest overdue first: from an index, and so perhaps late.
    async fn due(&self, now: Timestamp, at_most: usize) -> Result<Vec<Path>, LedgerError>;

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

impl LedgerError {
    pub fn failed(
        attempted: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Failed { attempted: attempted.into(), source: source.into() }
    }
}

/// Marks for a row that has this epoch, and is in another state than `unless`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touch {
    pub path: Path,
    pub epoch: u64,
    pub unless: String,
    /// By name, in milliseconds.
    pub marks: Vec<(String, u64)>,
}

/// A stretch of one list, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub list: String,
    pub low: String,
    pub high: String,
}

/// A place in a list, and what stands there; nothing, if it is gone meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    pub sort: String,
    pub path: Path,
    pub row: Option<Stored>,
}

/// The children of a key whose names lie between these two, both included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Children {
    pub of: Key,
    pub low: String,
    pub high: String,
    pub order: Order,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Rising,
    Falling,
}
