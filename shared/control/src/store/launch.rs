//! Launch intents: one transaction over the pool's slots, the new runners, the claim that gains them, and all their logs.

use super::opening::{self, ClaimGain};
use super::{Store, log, pool, read, row, runner};
use crate::ports::ledger::LedgerError;
use crate::ports::tx::{Committed, Op, Tx, When};
use motorpool_domain::pool::PoolRecord;
use motorpool_domain::record::Record;
use motorpool_domain::runner::{Runner, RunnerToken};
use motorpool_domain::{AuditEntry, PoolName, RunnerId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy)]
pub struct IntentsWrite<'a> {
    pub pool: &'a PoolName,
    /// The revision of the pool's definition that the launch was decided on.
    pub seen: u64,
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
    /// The pool was defined anew.
    PoolChanged {
        found: Box<PoolRecord>,
    },
    /// The claim moved on, or another has its name.
    ClaimLost,
    /// A live runner has that id.
    Exists,
    NoPool,
}

/// The transaction's order: the pool, the runners, the claim if there is one (and its name, if it is opened), the runners' tokens if they have any.
const POOL: usize = 0;
const FIRST_RUNNER: usize = 1;

/// Of ids that were in use before: the runner as it ended.
type Ended = BTreeMap<RunnerId, Runner>;

impl Store {
    /// One transaction: the slots, the intents, and the claim that gains them.
    pub async fn write_launch_intents(&self, write: IntentsWrite<'_>) -> Result<IntentsWritten, LedgerError> {
        must_be_new(&write)?;
        let first = self.commit_intents(&write, &Ended::new()).await?;
        let ended = ended_before(&write, &first)?;
        let committed = match ended.is_empty() {
            true => first,
            false => self.commit_intents(&write, &ended).await?,
        };
        match committed {
            Committed::Done => Ok(IntentsWritten::Done),
            refused => why_not_launched(&write, &refused),
        }
    }

    async fn commit_intents(
        &self,
        write: &IntentsWrite<'_>,
        ended: &Ended,
    ) -> Result<Committed, LedgerError> {
        let IntentsWrite { pool, seen, max, only_if_used, runners, look_at, claim, entry } = *write;
        let name = FIRST_RUNNER + runners.len() + 1;
        let tx = |free| {
            let mut tx = Tx::default().with(pool::take_slots(pool, seen, runners.len(), max, only_if_used));
            for runner in runners {
                let when = ended.get(&runner.id).map_or(When::Absent, |ended| When::Is(ended.version()));
                tx = tx.with(Op::Put { row: row(runner)?.due_by(look_at), when });
                tx = tx.logged(log::of(runner, entry)?);
            }
            if let Some(claim) = claim {
                tx.ops.extend(opening::gain(claim, free)?);
                tx.log.extend(opening::gain_log(claim)?);
            }
            // Of who is born with one; last, so that the others keep their places.
            for token in runners.iter().filter_map(RunnerToken::of_new) {
                tx = tx.with(Op::Put { row: row(&token)?, when: When::Always });
            }
            Ok(tx)
        };
        self.commit_opening(claim.and_then(|claim| claim.opening), name, tx).await
    }
}

/// Those of the ids that belonged to a runner of an earlier life, which is over.
fn ended_before(write: &IntentsWrite<'_>, refused: &Committed) -> Result<Ended, LedgerError> {
    let mut ended = Ended::new();
    for (index, intent) in (FIRST_RUNNER..).zip(write.runners) {
        if let Some(stored) = refused.lost(index).flatten() {
            let found: Runner = read(stored)?;
            if !found.state.name().live() && found.epoch < intent.epoch {
                ended.insert(found.id.clone(), found);
            }
        }
    }
    Ok(ended)
}

fn why_not_launched(write: &IntentsWrite<'_>, refused: &Committed) -> Result<IntentsWritten, LedgerError> {
    // A launch's id is fresh, and its intents are written all together: whose record is of this launch was written by this very write.
    if let (Some(first), Some(Some(stored))) = (write.runners.first(), refused.lost(FIRST_RUNNER))
        && read::<Runner>(stored)?.launch == first.launch
    {
        return Ok(IntentsWritten::Done);
    }
    let behind_runners = FIRST_RUNNER + write.runners.len();
    if refused.lost(POOL) == Some(None) {
        return Ok(IntentsWritten::NoPool);
    }
    if refused.lost(behind_runners).is_some() || refused.lost(behind_runners + 1).is_some() {
        return Ok(IntentsWritten::ClaimLost);
    }
    if (FIRST_RUNNER..behind_runners).any(|index| refused.lost(index).is_some()) {
        return Ok(IntentsWritten::Exists);
    }
    match refused.lost(POOL).flatten() {
        Some(stored) => {
            let found: PoolRecord = read(stored)?;
            Ok(match found.rev == write.seen {
                true => IntentsWritten::NoSlots { used: found.used },
                false => IntentsWritten::PoolChanged { found: Box::new(found) },
            })
        }
        None => Err(LedgerError::failed(
            format!("write launch intents for pool {}", write.pool),
            "the transaction was refused for no condition that it has",
        )),
    }
}

/// No more intents than a launch has, each with an id of its own.
fn must_be_new(write: &IntentsWrite<'_>) -> Result<(), LedgerError> {
    let ids: BTreeSet<_> = write.runners.iter().map(|runner| &runner.id).collect();
    if ids.len() == write.runners.len() && runner::go_together(ids.len()) {
        return Ok(());
    }
    let why = format!("they must be at most {}, each with an id of its own", Store::MOST_TOGETHER);
    Err(LedgerError::failed(format!("write {} launch intents", write.runners.len()), why))
}
