//! What refresh goes by: what is due, and what it remembers from pass to pass.

use super::{Store, row};
use crate::ports::ledger::LedgerError;
use crate::ports::tx::{Op, Tx, When};
use motorpool_domain::Timestamp;
use motorpool_domain::record::Path;
use motorpool_domain::refresh::RefreshMemory;

impl Store {
    /// What is due at `now`, up to `at_most`: a hint of where to look.
    pub async fn due(&self, now: Timestamp, at_most: u32) -> Result<Vec<Path>, LedgerError> {
        self.ledger.due(now, usize::try_from(at_most).unwrap_or(usize::MAX)).await
    }

    /// Nothing also where it is of a newer version, which is left as it is.
    pub async fn refresh_memory(&self) -> Result<Option<RefreshMemory>, LedgerError> {
        Ok(self.many(&[RefreshMemory::path_of()]).await?.into_iter().flatten().next())
    }

    /// In the place of the memory that it was made from. Another pass that has written meanwhile knows better.
    pub async fn put_refresh_memory(&self, memory: &RefreshMemory) -> Result<(), LedgerError> {
        let row = row(&RefreshMemory { rev: memory.rev + 1, ..*memory })?;
        let op = match memory.rev {
            0 => Op::Put { row, when: When::Absent },
            rev => Op::Replace { row, was: RefreshMemory::version_of(rev), counter: None },
        };
        self.commit(&Tx::default().with(op)).await?;
        Ok(())
    }
}
