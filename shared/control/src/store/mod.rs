//! The ledger's verbs: what is done to pools, runners and claims, each a few transactions over the ledger's port. Written once, whatever
//! keeps the records; the simulator proves the very code that ships.
//!
//! Every write is conditional on what it was decided from, and says whether it won. What should become of a record is decided in `domain`.

mod alert;
mod checkpoint;
mod claim;
mod delivery;
mod launch;
mod listing;
mod log;
mod opening;
mod pool;
mod refresh;
mod release;
mod runner;
mod runner_lists;
mod take;
mod team;
mod unpausing;

pub use alert::{AlertWrite, WhichAlerts};
pub use checkpoint::{CheckpointWrite, CheckpointWritten, WithRunner};
pub use claim::{ClaimWrite, WhichClaims};
pub use launch::{IntentsWrite, IntentsWritten};
pub use listing::{Listed, Page};
pub use opening::{ClaimGain, ClaimOpening, Opened};
pub use pool::{Deleted, PoolWrite};
pub use runner::{AllWritten, RunnerWrite};
pub use runner_lists::RunnerList;
pub use take::Taken;

use crate::ports::ledger::{Ledger, LedgerError, Span};
use crate::ports::tx::{Committed, Row, Stored, Tx};
use motorpool_domain::record::{Path, Record};
use std::sync::Arc;

#[derive(Debug, Clone)]
pub struct Store {
    ledger: Arc<dyn Ledger>,
}

/// Whether a conditional write won. Losing is an outcome, and shows what is there instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written<T> {
    Done,
    Lost { found: T },
    Missing,
}

/// What stands where a record was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<R> {
    Record(R),
    /// Of a newer version, or broken: it is there, is left as it is, and must not be taken for missing.
    Unreadable,
    Missing,
}

impl<R> Found<R> {
    pub fn record(&self) -> Option<&R> {
        match self {
            Self::Record(record) => Some(record),
            Self::Unreadable | Self::Missing => None,
        }
    }

    pub fn into_record(self) -> Option<R> {
        match self {
            Self::Record(record) => Some(record),
            Self::Unreadable | Self::Missing => None,
        }
    }
}

impl<R: Record> Found<R> {
    fn read(stored: Option<&Stored>) -> Self {
        match stored {
            Some(stored) => read_or_skip(stored).map_or(Self::Unreadable, Self::Record),
            None => Self::Missing,
        }
    }
}

impl Store {
    pub fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger }
    }

    /// Cheap proof that the ledger answers.
    pub async fn ping(&self) -> Result<(), LedgerError> {
        self.ledger.ping().await
    }

    async fn one<R: Record>(&self, path: Path) -> Result<Option<R>, LedgerError> {
        let found = self.ledger.get(std::slice::from_ref(&path)).await?;
        found.into_iter().flatten().next().as_ref().map(read).transpose()
    }

    /// In the order asked for. One that can't be read counts as missing, with an alert: it must not stand in the way of the others.
    async fn many<R: Record>(&self, paths: &[Path]) -> Result<Vec<Option<R>>, LedgerError> {
        Ok(self.find(paths).await?.into_iter().map(Found::into_record).collect())
    }

    /// The same for whoever would act on what is missing, and so must know it from what can't be read.
    async fn find<R: Record>(&self, paths: &[Path]) -> Result<Vec<Found<R>>, LedgerError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.ledger.get(paths).await?;
        Ok(found.iter().map(|stored| Found::read(stored.as_ref())).collect())
    }

    async fn count_up_to(&self, span: &Span, at_most: u32) -> Result<u32, LedgerError> {
        let counted = self.ledger.count(span, usize::try_from(at_most).unwrap_or(usize::MAX)).await?;
        Ok(u32::try_from(counted).unwrap_or(u32::MAX))
    }

    async fn commit(&self, tx: &Tx) -> Result<Committed, LedgerError> {
        self.ledger.commit(tx).await
    }
}

fn read<R: Record>(stored: &Stored) -> Result<R, LedgerError> {
    let unreadable = |source: Box<dyn std::error::Error + Send + Sync>| LedgerError::Unreadable {
        subject: stored.path.to_string(),
        source,
    };
    if stored.schema > R::SCHEMA {
        let what = format!("it is of schema {}, and this version knows {}", stored.schema, R::SCHEMA);
        return Err(unreadable(what.into()));
    }
    let record: R = serde_json::from_str(&stored.doc).map_err(|error| unreadable(error.into()))?;
    Ok(record.beside(&stored.beside))
}

/// For passes and lists: what can't be read is left as it is, and holds up nothing else.
fn read_or_skip<R: Record>(stored: &Stored) -> Option<R> {
    match read(stored) {
        Ok(record) => Some(record),
        Err(error) => {
            tracing::warn!(target: "alert", record = %stored.path, error = crate::error::chain(&error), "a record can't be read, and is left as it is");
            None
        }
    }
}

fn row<R: Record>(record: &R) -> Result<Row, LedgerError> {
    Row::of(record).map_err(|error| LedgerError::failed(format!("write {} as JSON", record.path()), error))
}
