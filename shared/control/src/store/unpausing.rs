//! Calls that have a runner's CI system bring it jobs again, written down before they are made.

use super::{Store, read, row};
use crate::ports::ledger::LedgerError;
use crate::ports::tx::{Committed, Op, Tx, When};
use motorpool_domain::RunnerId;
use motorpool_domain::record::Record;
use motorpool_domain::runner::{Runner, Unpausing};

impl Store {
    /// The last that was begun and is not known to have ended.
    pub async fn unpausing(&self, runner: &RunnerId) -> Result<Option<Unpausing>, LedgerError> {
        self.one(Unpausing::path_of(runner)).await
    }

    /// One transaction: `next` is begun in the place of `last`, and the runner is as it was read. Says whether it is so.
    pub async fn begin_unpausing(
        &self,
        runner: &Runner,
        last: Option<&Unpausing>,
        next: &Unpausing,
    ) -> Result<bool, LedgerError> {
        const CALL: usize = 0;
        let when = last.map_or(When::Absent, |last| When::Is(last.version()));
        let tx = Tx::default()
            .with(Op::Put { row: row(next)?, when })
            .with(Op::Check { path: runner.path(), when: When::Is(runner.version()) });
        let committed = self.commit(&tx).await?;
        let found: Option<Unpausing> = committed.lost(CALL).flatten().map(read).transpose()?;
        // Nobody else has drawn the same: it is this very write, whose answer was lost.
        Ok(committed == Committed::Done || found.as_ref() == Some(next))
    }

    /// It is over, and so much is left of it. Nothing happens if another was begun since.
    pub async fn end_unpausing(&self, call: &Unpausing, left: Option<&Unpausing>) -> Result<(), LedgerError> {
        let was = call.version();
        let op = match left {
            Some(left) => Op::Put { row: row(left)?, when: When::Is(was) },
            None => Op::Delete { path: call.path(), was, counter: None, lists: Unpausing::LISTS },
        };
        self.commit(&Tx::default().with(op)).await?;
        Ok(())
    }
}
