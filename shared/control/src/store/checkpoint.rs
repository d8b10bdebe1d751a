//! Checkpoints: opened and finalized together with their runner's step, written alone where they only notice what became of it, and found by
//! name, by job and by pool.

use super::listing::{self, Listed, Page};
use super::runner::{self, RunnerWrite};
use super::{Found, Store, Written, log, read, read_or_skip, row};
use crate::ports::ledger::LedgerError;
use crate::ports::tx::{Committed, Op, Tx, When};
use motorpool_domain::checkpoint::{Checkpoint, active_checkpoints, checkpoints_of_job};
use motorpool_domain::record::{Key, Record};
use motorpool_domain::runner::Runner;
use motorpool_domain::{AuditEntry, CheckpointName, JobId, PoolName, Timestamp};

/// The condition is the version of `before`.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointWrite<'a> {
    pub before: &'a Checkpoint,
    pub after: &'a Checkpoint,
    pub entry: &'a AuditEntry,
}

/// What a checkpoint's write asks of its runner.
#[derive(Debug, Clone, Copy)]
pub enum WithRunner<'a> {
    /// It takes this step with it.
    Moves(RunnerWrite<'a>),
    /// It is still as it was read.
    Stays(&'a Runner),
    Whatever,
}

/// Whether a write over a checkpoint and its runner won.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointWritten {
    Done,
    /// One of them is not as it was read; nothing was written.
    Lost,
}

impl Store {
    pub async fn checkpoint(&self, name: &CheckpointName) -> Result<Option<Checkpoint>, LedgerError> {
        self.one(Key::from(name).into()).await
    }

    /// In the order asked for.
    pub async fn find_checkpoints(
        &self,
        names: &[CheckpointName],
    ) -> Result<Vec<Found<Checkpoint>>, LedgerError> {
        let paths: Vec<_> = names.iter().map(|name| Key::from(name).into()).collect();
        self.find(&paths).await
    }

    /// One transaction: the runner is as it was read and takes this step, and the checkpoint is new.
    pub async fn create_checkpoint(
        &self,
        checkpoint: &Checkpoint,
        entry: &AuditEntry,
        runner: RunnerWrite<'_>,
    ) -> Result<CheckpointWritten, LedgerError> {
        const RUNNER: usize = 0;
        let tx = Tx::default()
            .with(runner::replace(runner)?)
            .with(Op::Put { row: row(checkpoint)?, when: When::Absent })
            .logged(log::of(runner.after, runner.entry)?)
            .logged(log::of(checkpoint, entry)?);
        let committed = self.commit(&tx).await?;
        let found: Option<Runner> = committed.lost(RUNNER).flatten().map(read).transpose()?;
        // Nobody else knows the name: a runner that has it is this very write, whose answer was lost.
        let is_repeated = found.is_some_and(|found| found.checkpoint.as_ref() == Some(&checkpoint.name));
        Ok(written(committed == Committed::Done || is_repeated))
    }

    /// One transaction: the checkpoint is as it was read, and so is its runner, as far as `with` says.
    pub async fn finalize_checkpoint(
        &self,
        write: CheckpointWrite<'_>,
        with: WithRunner<'_>,
    ) -> Result<CheckpointWritten, LedgerError> {
        const RECORD: usize = 0;
        let CheckpointWrite { before: _, after, entry } = write;
        let mut tx = Tx::default().with(replace(write)?).logged(log::of(after, entry)?);
        match with {
            WithRunner::Moves(runner) => {
                tx = tx.with(runner::replace(runner)?).logged(log::of(runner.after, runner.entry)?);
            }
            WithRunner::Stays(runner) => {
                let when = When::Is(runner.version());
                tx = tx.with(Op::Check { path: runner.path(), when });
            }
            WithRunner::Whatever => {}
        }
        let committed = self.commit(&tx).await?;
        let found: Option<Checkpoint> = committed.lost(RECORD).flatten().map(read).transpose()?;
        Ok(written(committed == Committed::Done || found.is_some_and(|found| found == *after)))
    }

    /// One transaction: how the runner is cleaned is settled while the checkpoint that it follows from is as it was read. Nothing is known of a
    /// runner whose checkpoint is gone, and so nothing is asked of it.
    pub async fn issue_clean(
        &self,
        runner: RunnerWrite<'_>,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Written<Runner>, LedgerError> {
        const RUNNER: usize = 0;
        let mut tx =
            Tx::default().with(runner::replace(runner)?).logged(log::of(runner.after, runner.entry)?);
        if let Some(checkpoint) = checkpoint {
            tx = tx.with(Op::Check { path: checkpoint.path(), when: When::Is(checkpoint.version()) });
        }
        let committed = self.commit(&tx).await?;
        if committed == Committed::Done {
            return Ok(Written::Done);
        }
        match committed.lost(RUNNER) {
            Some(Some(found)) => Ok(Written::Lost { found: read(found)? }),
            Some(None) => Ok(Written::Missing),
            // The checkpoint moved on: whoever issues reads both anew.
            None => Ok(Written::Lost { found: runner.before.clone() }),
        }
    }

    /// The record was looked at, and need not be before `at`. Nothing happens if it has changed since.
    pub async fn look_at_checkpoint_again(
        &self,
        checkpoint: &Checkpoint,
        at: Timestamp,
    ) -> Result<(), LedgerError> {
        let later = Checkpoint { look_at: at, ..checkpoint.clone() };
        let op = Op::Replace { row: row(&later)?, was: checkpoint.version(), counter: None };
        self.commit(&Tx::default().with(op)).await?;
        Ok(())
    }

    /// Those of a job that have not come to their end: an index, and so perhaps late.
    pub async fn checkpoints_of_job(
        &self,
        job: &JobId,
        at_most: usize,
    ) -> Result<Vec<Checkpoint>, LedgerError> {
        let placed = self.ledger.list(&listing::whole(&checkpoints_of_job(job)), at_most).await?;
        Ok(placed.iter().filter_map(|placed| placed.row.as_ref()).filter_map(read_or_skip).collect())
    }

    /// Those of a pool that have not come to their end: an index, and so perhaps late.
    pub async fn active_checkpoints(
        &self,
        pool: &PoolName,
        page: Page,
    ) -> Result<Listed<Checkpoint>, LedgerError> {
        let span = listing::page_of(&active_checkpoints(pool), &page)?;
        let placed = self.ledger.list(&span, listing::to_read(&page)).await?;
        let Listed { items, next } = listing::cut(placed, &page, |placed| placed.sort.clone());
        let found = items.iter().filter_map(|placed| placed.row.as_ref()).filter_map(read_or_skip);
        Ok(Listed { items: found.collect(), next })
    }

    /// How many of a pool have not come to their end, counted up to `at_most`.
    pub async fn count_active_checkpoints(&self, pool: &PoolName, at_most: u32) -> Result<u32, LedgerError> {
        self.count_up_to(&listing::whole(&active_checkpoints(pool)), at_most).await
    }
}

fn replace(write: CheckpointWrite<'_>) -> Result<Op, LedgerError> {
    let CheckpointWrite { before, after, entry: _ } = write;
    Ok(Op::Replace { row: row(after)?, was: before.version(), counter: None })
}

fn written(done: bool) -> CheckpointWritten {
    if done { CheckpointWritten::Done } else { CheckpointWritten::Lost }
}
