//! Runners: reading, listing, and the conditional write of one record or several with their log entries. Heartbeats and announcements are
//! marks beside the record, and no change of it.

use super::listing::{self, Listed, Page};
use super::{Found, Store, Written, log, pool, read, read_or_skip, row};
use crate::ports::ledger::{LedgerError, Touch};
use crate::ports::tx::{Committed, Op, Tx, When};
use crate::secrets::same;
use motorpool_domain::pool::{PoolRecord, Rules};
use motorpool_domain::record::{Key, Path, Record};
use motorpool_domain::runner::{ANNOUNCED, Runner, RunnerToken, SEEN, StateName, next_look};
use motorpool_domain::{AuditEntry, Epoch, PoolName, RunnerId, Timestamp};
use std::collections::BTreeSet;

/// The condition is the state, epoch and revision of `before`.
#[derive(Debug, Clone, Copy)]
pub struct RunnerWrite<'a> {
    pub before: &'a Runner,
    pub after: &'a Runner,
    /// When to look at it, if that comes before its threshold.
    pub look_at: Option<Timestamp>,
    pub entry: &'a AuditEntry,
}

impl<'a> RunnerWrite<'a> {
    /// At the time of its entry, in a pool with these rules.
    pub fn of(before: &'a Runner, after: &'a Runner, rules: &Rules, entry: &'a AuditEntry) -> Self {
        Self { before, after, look_at: next_look(after, rules, entry.at), entry }
    }
}

/// Whether a transaction over several records won.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllWritten {
    Done,
    /// At least one of them is not as it was read; nothing was written.
    Lost,
}

impl Store {
    /// So many runners are written in one transaction at most: a launch is one call to the provider, and one transaction.
    pub const MOST_TOGETHER: u32 = 25;

    /// The record itself, as it is now.
    pub async fn runner(&self, id: &RunnerId) -> Result<Option<Runner>, LedgerError> {
        self.one(Key::from(id).into()).await
    }

    /// The records themselves, in the order asked for.
    pub async fn runners(&self, ids: &[RunnerId]) -> Result<Vec<Option<Runner>>, LedgerError> {
        self.many(&paths(ids)).await
    }

    /// The same for whoever would act on a runner that is missing.
    pub async fn find_runners(&self, ids: &[RunnerId]) -> Result<Vec<Found<Runner>>, LedgerError> {
        self.find(&paths(ids)).await
    }

    /// A pool and some of its runners, in one read.
    pub async fn pool_and_runners(
        &self,
        pool: &PoolName,
        ids: &[RunnerId],
    ) -> Result<(Option<PoolRecord>, Vec<Found<Runner>>), LedgerError> {
        let paths = [vec![Key::from(pool).into()], paths(ids)].concat();
        let mut found = self.ledger.get(&paths).await?.into_iter();
        let pool = found.next().flatten().as_ref().map(read).transpose()?;
        Ok((pool, found.map(|stored| Found::read(stored.as_ref())).collect()))
    }

    /// The runner whose token has this hash, if its record says so as well: a token that was replaced is nobody's.
    pub async fn runner_by_token(&self, token_sha256: &str) -> Result<Option<Runner>, LedgerError> {
        let Some(token) = self.token(token_sha256).await? else { return Ok(None) };
        Ok(self.runner(&token.runner).await?.filter(|runner| token.is_good_for(runner, same)))
    }

    /// What is known of a token by its hash, good or not.
    pub async fn token(&self, token_sha256: &str) -> Result<Option<RunnerToken>, LedgerError> {
        self.one(RunnerToken::path_of(token_sha256)).await
    }

    /// Somebody who should not have it was seen to use this token at `at`.
    pub async fn note_misused(&self, token: RunnerToken, at: Timestamp) -> Result<(), LedgerError> {
        let token = RunnerToken { misused_at: Some(at), ..token };
        self.commit(&Tx::default().with(Op::Put { row: row(&token)?, when: When::Always })).await?;
        Ok(())
    }

    /// For display, sweeps and a first look: an index, and so perhaps late. Terminated runners are listed only when asked for by state. Of
    /// those that are created, the ones that nobody holds come first.
    pub async fn list_runners(
        &self,
        pool: &PoolName,
        state: Option<StateName>,
        page: Page,
    ) -> Result<Listed<Runner>, LedgerError> {
        let span = listing::runner_span(pool, state, &page)?;
        let placed = self.ledger.list(&span, listing::to_read(&page)).await?;
        let Listed { items, next } = listing::cut(placed, &page, |placed| placed.sort.clone());
        let found = items.iter().filter_map(|placed| placed.row.as_ref()).filter_map(read_or_skip::<Runner>);
        // The index is late: who has moved on since is not what was asked for.
        let asked_for = |runner: &Runner| state.is_none_or(|state| runner.state.name() == state);
        Ok(Listed { items: found.filter(asked_for).collect(), next })
    }

    /// How many runners of the pool are listed in `state`, counted up to `at_most`.
    pub async fn count_runners(
        &self,
        pool: &PoolName,
        state: StateName,
        at_most: u32,
    ) -> Result<u32, LedgerError> {
        let span = listing::runner_span(pool, Some(state), &Page::first(at_most))?;
        self.count_up_to(&span, at_most).await
    }

    /// `after` in the place of `before`, if that is still what is there. Entering `terminated` gives the slot back.
    pub async fn write_runner(&self, write: RunnerWrite<'_>) -> Result<Written<Runner>, LedgerError> {
        const RECORD: usize = 0;
        let RunnerWrite { before, after, entry, .. } = write;
        let mut alone = Tx::default().with(replace(write)?).logged(log::of(after, entry)?);
        for token in RunnerToken::changed(before, after, entry.at) {
            alone = alone.with(Op::Put { row: row(&token)?, when: When::Always });
        }
        let ends = before.state.name().live() && !after.state.name().live();
        let mut committed = match ends {
            true => self.commit(&alone.clone().with(pool::give_slot_back(&after.pool))).await?,
            false => self.commit(&alone).await?,
        };
        if ends && committed != Committed::Done && committed.lost(RECORD).is_none() {
            // The end of a machine is written even if its pool should be gone or its counter wrong.
            tracing::warn!(runner = %after.id, pool = %after.pool, "an ended runner had no slot to give back");
            committed = self.commit(&alone).await?;
        }
        match committed.lost(RECORD) {
            None => Ok(Written::Done),
            Some(None) => Ok(Written::Missing),
            Some(Some(found)) => Ok(Written::Lost { found: read(found)? }),
        }
    }

    /// One transaction: each `after` in the place of its `before`, all or none. At most 25, and none enters `terminated`.
    pub async fn write_runners(&self, writes: &[RunnerWrite<'_>]) -> Result<AllWritten, LedgerError> {
        must_go_together(writes)?;
        let mut tx = Tx::default();
        for write in writes {
            tx = tx.with(replace(*write)?).logged(log::of(write.after, write.entry)?);
        }
        let committed = self.commit(&tx).await?;
        if committed == Committed::Done {
            return Ok(AllWritten::Done);
        }
        for (index, write) in writes.iter().enumerate() {
            let found = committed.lost(index).flatten().map(read).transpose()?;
            if !found.is_some_and(|found| is_what_was_written(&found, write.after)) {
                return Ok(AllWritten::Lost);
            }
        }
        Ok(AllWritten::Done)
    }

    /// The agent was heard at `at`. Neither audited, nor a change of the record, nor of any index.
    pub async fn heartbeat(&self, id: &RunnerId, epoch: Epoch, at: Timestamp) -> Result<(), LedgerError> {
        self.touch_runner(id, epoch, SEEN, at).await
    }

    /// A queue was told at `at` that this runner is idle.
    pub async fn note_announced(
        &self,
        id: &RunnerId,
        epoch: Epoch,
        at: Timestamp,
    ) -> Result<(), LedgerError> {
        self.touch_runner(id, epoch, ANNOUNCED, at).await
    }

    /// The record was looked at, and need not be before `at`. Nothing happens if it has changed since.
    pub async fn look_again(&self, runner: &Runner, at: Timestamp) -> Result<(), LedgerError> {
        let op = Op::Replace { row: row(runner)?.due_by(Some(at)), was: runner.version(), counter: None };
        self.commit(&Tx::default().with(op)).await?;
        Ok(())
    }

    /// A word from an earlier life, or about one that is over, changes nothing.
    async fn touch_runner(
        &self,
        id: &RunnerId,
        epoch: Epoch,
        mark: &str,
        at: Timestamp,
    ) -> Result<(), LedgerError> {
        let touch = Touch {
            path: Key::from(id).into(),
            epoch: epoch.0,
            unless: StateName::Terminated.as_str().to_owned(),
            marks: vec![(mark.to_owned(), at.as_millis())],
        };
        self.ledger.touch(&touch).await
    }
}

fn paths(ids: &[RunnerId]) -> Vec<Path> {
    ids.iter().map(|id| Key::from(id).into()).collect()
}

/// `after` in the place of `before`, as a part of a transaction.
pub(super) fn replace(write: RunnerWrite<'_>) -> Result<Op, LedgerError> {
    let RunnerWrite { before, after, look_at, entry: _ } = write;
    Ok(Op::Replace { row: row(after)?.due_by(look_at), was: before.version(), counter: None })
}

/// The record is what this write makes of it, as far as a write makes it: its own write, whose answer was lost, or one that meant the same.
fn is_what_was_written(found: &Runner, after: &Runner) -> bool {
    Runner { seen_at: after.seen_at, announced_at: after.announced_at, ..found.clone() } == *after
}

/// Whether so many runners may be written in one transaction.
pub(super) fn go_together(count: usize) -> bool {
    u32::try_from(count).is_ok_and(|count| count <= Store::MOST_TOGETHER)
}

/// No more records than a launch has, none of them twice, and none that would give its slot back.
fn must_go_together(writes: &[RunnerWrite<'_>]) -> Result<(), LedgerError> {
    let ids: BTreeSet<_> = writes.iter().map(|write| &write.before.id).collect();
    let ends = writes.iter().any(|write| !write.after.state.name().live());
    if ids.len() == writes.len() && !ids.is_empty() && go_together(ids.len()) && !ends {
        return Ok(());
    }
    let why = format!("they must be 1 to {}, each another, and none may end", Store::MOST_TOGETHER);
    Err(LedgerError::failed(format!("write {} runners together", writes.len()), why))
}
