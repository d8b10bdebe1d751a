//! What a transaction means for pools, runners and claims: read from its documents and from what was there before. The verbs that made it are
//! not asked.

use motorpool_control::ports::tx::{Op, Stored, Tx};
use motorpool_domain::checkpoint::{CHECKPOINT, Checkpoint};
use motorpool_domain::claim::{CLAIM, Claim};
use motorpool_domain::ladder::Shortage;
use motorpool_domain::pool::{POOL, Pool, PoolShortage};
use motorpool_domain::record::{Path, Record};
use motorpool_domain::runner::{RUNNER, Runner};
use motorpool_domain::{CheckpointName, ClaimId, PoolName, RunnerId};
use std::collections::BTreeMap;

/// What a transaction would change, in the order of its operations.
#[derive(Debug, Default)]
pub(crate) struct Meaning {
    pub(crate) pools: Vec<PoolChange>,
    pub(crate) runners: Vec<RunnerChange>,
    pub(crate) claims: Vec<ClaimChange>,
    pub(crate) checkpoints: Vec<CheckpointChange>,
    pub(crate) shortages: Vec<(PoolName, Shortage)>,
    pub(crate) slots: Option<SlotsTaken>,
}

/// Slots of a pool are taken, by who thought that it may use so many.
#[derive(Debug)]
pub(crate) struct SlotsTaken {
    pub(crate) pool: PoolName,
    pub(crate) max: u32,
}

#[derive(Debug)]
pub(crate) enum PoolChange {
    Defined(Box<Pool>),
    Deleted(PoolName),
}

/// Nothing `before`: a launch intent.
#[derive(Debug)]
pub(crate) struct RunnerChange {
    pub(crate) before: Option<Runner>,
    pub(crate) after: Runner,
}

/// Nothing `before`: it is opened.
#[derive(Debug)]
pub(crate) struct ClaimChange {
    pub(crate) before: Option<Claim>,
    pub(crate) after: Claim,
}

/// Nothing `before`: its job begins.
#[derive(Debug)]
pub(crate) struct CheckpointChange {
    pub(crate) before: Option<Checkpoint>,
    pub(crate) after: Checkpoint,
}

/// What a record is, by its path.
pub(crate) enum Subject {
    Runner(RunnerId),
    Claim(ClaimId),
    Pool(PoolName),
    Checkpoint(CheckpointName),
    Other,
}

impl Subject {
    pub(crate) fn of(path: &Path) -> Self {
        let (kind, id) = (&path.key.kind, path.key.id.as_str());
        let known = |subject: Option<Self>| subject.unwrap_or(Self::Other);
        match &path.child {
            Some(_) => Self::Other,
            None if *kind == RUNNER => known(RunnerId::parse(id).ok().map(Self::Runner)),
            None if *kind == CLAIM => known(ClaimId::parse(id).ok().map(Self::Claim)),
            None if *kind == CHECKPOINT => known(CheckpointName::parse(id).ok().map(Self::Checkpoint)),
            None if *kind == POOL => known(PoolName::parse(id).ok().map(Self::Pool)),
            None => Self::Other,
        }
    }
}

impl Meaning {
    /// `before` is what stood at the transaction's paths.
    pub(crate) fn of(tx: &Tx, before: &BTreeMap<Path, Stored>) -> Self {
        let mut meaning = Self::default();
        for op in &tx.ops {
            let before = before.get(op.path());
            match op {
                Op::Put { row, .. } => meaning.written(&row.path, &row.doc, None),
                // Only when it is due is another.
                Op::Replace { row, was, .. } if row.version == *was => {}
                Op::Replace { row, .. } => meaning.written(&row.path, &row.doc, before),
                Op::Add { path, by, at_most, .. } => {
                    if let (Subject::Pool(pool), true) = (Subject::of(path), *by > 0) {
                        let max = u32::try_from(*at_most).unwrap_or(u32::MAX);
                        meaning.slots = Some(SlotsTaken { pool, max });
                    }
                }
                Op::Delete { path, .. } => {
                    if let Subject::Pool(pool) = Subject::of(path) {
                        meaning.pools.push(PoolChange::Deleted(pool));
                    }
                }
                Op::Check { .. } => {}
            }
        }
        meaning
    }

    fn written(&mut self, path: &Path, doc: &str, before: Option<&Stored>) {
        match Subject::of(path) {
            Subject::Runner(_) => {
                let (before, after) = (before.map(|before| read(&before.doc)), read(doc));
                self.runners.push(RunnerChange { before, after });
            }
            Subject::Claim(_) => {
                let (before, after) = (before.map(|before| read(&before.doc)), read(doc));
                self.claims.push(ClaimChange { before, after });
            }
            Subject::Checkpoint(_) => {
                let (before, after) = (before.map(|before| read(&before.doc)), read(doc));
                self.checkpoints.push(CheckpointChange { before, after });
            }
            Subject::Pool(_) => self.pools.push(PoolChange::Defined(Box::new(read(doc)))),
            Subject::Other => {
                if let Ok(PoolShortage { pool, shortage }) = serde_json::from_str(doc) {
                    self.shortages.push((pool, shortage));
                }
            }
        }
    }
}

/// What a control plane writes can be read: it has just been made of such a record.
fn read<R: serde::de::DeserializeOwned>(doc: &str) -> R {
    serde_json::from_str(doc).expect("a record that was just written")
}

/// The record itself, with what stands beside it.
pub(crate) fn record<R: Record>(stored: &Stored) -> R {
    read::<R>(&stored.doc).beside(&stored.beside)
}
