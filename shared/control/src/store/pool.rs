//! Pools: their definition, the counter of slots in use, and what the provider had none of.

use super::{Store, Written, listing, read, read_or_skip, row};
use crate::ports::ledger::{Children, LedgerError, Order};
use crate::ports::tx::{Committed, Held, Op, Tx, When};
use motorpool_domain::claim::{Claim, ClaimKey, ClaimName};
use motorpool_domain::ladder::Shortage;
use motorpool_domain::pool::{POOLS, Pool, PoolRecord, PoolShortage, SHORTAGE};
use motorpool_domain::record::{Key, Path, Record};
use motorpool_domain::{PoolName, Timestamp};

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

/// More than any ladder has rungs; whoever has more tries some of them once more.
const MOST_SHORTAGES: usize = 500;

impl Store {
    pub async fn pool(&self, name: &PoolName) -> Result<Option<PoolRecord>, LedgerError> {
        self.one(Key::from(name).into()).await
    }

    /// The pool of a claim's key, and the latest claim with that key.
    pub async fn pool_and_claim(
        &self,
        key: &ClaimKey,
    ) -> Result<(Option<PoolRecord>, Option<Claim>), LedgerError> {
        let paths = [Key::from(&key.pool).into(), ClaimName::path_of(key)];
        let mut found = self.ledger.get(&paths).await?.into_iter();
        let pool = found.next().flatten().as_ref().map(read).transpose()?;
        match found.next().flatten().as_ref().map(read::<ClaimName>).transpose()? {
            Some(name) => Ok((pool, self.claim(&name.claim).await?)),
            None => Ok((pool, None)),
        }
    }

    /// All pools, by name.
    pub async fn pools(&self) -> Result<Vec<PoolRecord>, LedgerError> {
        let placed = self.ledger.list(&listing::whole(POOLS), usize::MAX).await?;
        Ok(placed.iter().filter_map(|placed| placed.row.as_ref()).filter_map(read_or_skip).collect())
    }

    /// Defines a pool, or changes its rules, if it is as it was seen. Its slot counter stays as it is.
    pub async fn write_pool(&self, write: PoolWrite<'_>) -> Result<Written<PoolRecord>, LedgerError> {
        let PoolWrite { seen, rev, pool, only_unused } = write;
        let row = row(&PoolRecord { pool: pool.clone(), rev, used: 0 })?;
        let op = match seen {
            0 => Op::Put { row, when: When::Absent },
            seen => Op::Replace { row, was: PoolRecord::version_of(seen), counter: only_unused.then_some(0) },
        };
        Ok(match self.found_instead(op).await? {
            None => Written::Done,
            // This very write, whose answer was lost.
            Some(Some(found)) if (found.rev, &found.pool) == (rev, pool) => Written::Done,
            Some(Some(found)) => Written::Lost { found },
            Some(None) => Written::Missing,
        })
    }

    /// Only a pool that still has the revision that was read, and no slot in use, is deleted.
    pub async fn delete_pool(&self, name: &PoolName, seen: u64) -> Result<Deleted, LedgerError> {
        let was = PoolRecord::version_of(seen);
        let op = Op::Delete { path: Key::from(name).into(), was, counter: Some(0), lists: PoolRecord::LISTS };
        Ok(match self.found_instead(op).await? {
            None => Deleted::Done,
            Some(None) => Deleted::Missing,
            Some(Some(PoolRecord { rev, .. })) if rev != seen => Deleted::Changed,
            Some(Some(PoolRecord { used, .. })) => Deleted::InUse { used },
        })
    }

    /// What was there instead of what the operation needs; nothing if it is done.
    async fn found_instead(&self, op: Op) -> Result<Option<Option<PoolRecord>>, LedgerError> {
        match self.commit(&Tx::default().with(op)).await? {
            Committed::Done => Ok(None),
            Committed::Refused(held) => match held.into_iter().next() {
                Some(Held::No { found: Some(found) }) => Ok(Some(Some(read(&found)?))),
                Some(Held::No { found: None } | Held::Yes) | None => Ok(Some(None)),
            },
        }
    }

    /// What the provider had none of, for whoever launches next. Forgotten when it is over.
    pub async fn note_shortage(&self, pool: &PoolName, shortage: &Shortage) -> Result<(), LedgerError> {
        let row = row(&PoolShortage { pool: pool.clone(), shortage: shortage.clone() })?;
        let put = |when| Tx::default().with(Op::Put { row: row.clone(), when });
        // What stands there already is replaced, unless a newer version wrote it.
        if let Some(Some(found)) = self.commit(&put(When::Absent)).await?.lost(0)
            && read_or_skip::<PoolShortage>(found).is_some()
        {
            self.commit(&put(When::Always)).await?;
        }
        Ok(())
    }

    /// Those of the pool that are not over at `now`.
    pub async fn shortages(&self, pool: &PoolName, now: Timestamp) -> Result<Vec<Shortage>, LedgerError> {
        let (low, high) = (SHORTAGE.to_owned(), format!("{SHORTAGE}~"));
        let children = Children { of: Key::from(pool), low, high, order: Order::Rising };
        let found = self.ledger.children(&children, MOST_SHORTAGES).await?;
        let known = found.iter().filter_map(read_or_skip::<PoolShortage>).map(|known| known.shortage);
        // What has expired is there until somebody clears it away.
        Ok(known.filter(|shortage| shortage.until > now).collect())
    }
}

/// `more` slots of the pool, if it is still of this definition and that leaves it within `max`; and only if exactly so many are in use, where that
/// is asked for.
pub(super) fn take_slots(pool: &PoolName, seen: u64, more: usize, max: u32, only_if_used: Option<u32>) -> Op {
    let more = u64::try_from(more).unwrap_or(u64::MAX);
    let (at_least, at_most) = match only_if_used {
        None => (more, u64::from(max)),
        Some(used) => (u64::from(used) + more, u64::from(max).min(u64::from(used) + more)),
    };
    let (was, by) = (Some(PoolRecord::version_of(seen)), i64::try_from(more).unwrap_or(i64::MAX));
    Op::Add { path: slots(pool), was, by, at_least, at_most }
}

pub(super) fn give_slot_back(pool: &PoolName) -> Op {
    Op::Add { path: slots(pool), was: None, by: -1, at_least: 0, at_most: u64::from(u32::MAX) }
}

fn slots(pool: &PoolName) -> Path {
    Key::from(pool).into()
}
