//! A transaction of the ledger as a value: what is to be written, each part with its condition. It can be printed, kept, repeated and cut
//! short by who knows nothing of what it means.

use motorpool_domain::Timestamp;
use motorpool_domain::record::{Beside, Path, Place, Record, Version};
use std::collections::BTreeSet;

/// All of it, or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tx {
    /// Each on another path.
    pub ops: Vec<Op>,
    /// Written with the rest, on no condition; on paths of their own, where nothing stands that is in more lists than one.
    pub log: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// A whole new row: counter and marks of an earlier one are gone.
    Put { row: Row, when: When },
    /// Another document in the place of one that still has this version; counter and marks stay.
    Replace {
        row: Row,
        was: Version,
        /// Also on the condition that the counter is exactly this.
        counter: Option<u64>,
    },
    /// The row is there, and its counter becomes `by` more, which is within these bounds.
    Add {
        path: Path,
        /// Also on the condition that the row still has this version, which stays.
        was: Option<Version>,
        by: i64,
        at_least: u64,
        at_most: u64,
    },
    /// Nothing is written, and the row is as said.
    Check { path: Path, when: When },
    /// The row goes, if it still has this version.
    Delete {
        path: Path,
        was: Version,
        /// Also on the condition that the counter is exactly this.
        counter: Option<u64>,
        /// In how many lists a row of its kind stands at most.
        lists: usize,
    },
}

impl Op {
    pub fn path(&self) -> &Path {
        match self {
            Self::Put { row, .. } | Self::Replace { row, .. } => &row.path,
            Self::Add { path, .. } | Self::Check { path, .. } | Self::Delete { path, .. } => path,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    Always,
    Absent,
    Is(Version),
}

/// A document, and all that the ledger needs to know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub path: Path,
    pub version: Version,
    pub schema: u32,
    /// JSON.
    pub doc: String,
    pub due: Option<Timestamp>,
    pub places: Vec<Place>,
    /// In how many lists a row of its kind stands at most: so many places of an earlier document are looked for.
    pub lists: usize,
    /// From when on it may be deleted.
    pub kept_until: Option<Timestamp>,
}

impl Row {
    pub fn of<R: Record>(record: &R) -> Result<Self, serde_json::Error> {
        Ok(Self {
            path: record.path(),
            version: record.version(),
            schema: record.schema(),
            doc: serde_json::to_string(record)?,
            due: record.due(),
            places: record.places(),
            lists: R::LISTS,
            kept_until: record.kept_until(),
        })
    }

    /// Looked at `at` already, if it is due at all and that is earlier.
    #[must_use]
    pub fn due_by(self, at: Option<Timestamp>) -> Self {
        Self { due: self.due.map(|due| at.map_or(due, |at| due.min(at))), ..self }
    }
}

/// A row as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub path: Path,
    pub schema: u32,
    pub doc: String,
    pub beside: Beside,
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Committed {
    Done,
    /// Nothing was written. One answer for each operation, in its order; at least one of them did not hold.
    Refused(Vec<Held>),
}

/// Whether an operation's condition held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    Yes,
    No { found: Option<Box<Stored>> },
}

/// More than any verb needs, and as many as DynamoDB takes in one transaction.
pub const MOST_WRITES: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TxError {
    #[error("it has {0} writes; one transaction takes {MOST_WRITES}")]
    TooMany(usize),
    #[error("it writes {0} twice")]
    Twice(Path),
    #[error("{0} stands in more lists than its kind may")]
    Lists(Path),
    #[error("it has no operation")]
    Empty,
}

impl Tx {
    #[must_use]
    pub fn with(mut self, op: Op) -> Self {
        self.ops.push(op);
        self
    }

    #[must_use]
    pub fn logged(mut self, row: Row) -> Self {
        self.log.push(row);
        self
    }

    /// What every adapter asks before it does anything: so that none takes what another would refuse.
    pub fn check(&self) -> Result<(), TxError> {
        let writes: usize = self.ops.iter().map(writes).sum::<usize>() + self.log.len();
        if self.ops.is_empty() && self.log.is_empty() {
            return Err(TxError::Empty);
        }
        if writes > MOST_WRITES {
            return Err(TxError::TooMany(writes));
        }
        let mut paths = BTreeSet::new();
        for path in self.ops.iter().map(Op::path).chain(self.log.iter().map(|row| &row.path)) {
            if !paths.insert(path) {
                return Err(TxError::Twice(path.clone()));
            }
        }
        match self.rows().find(|row| row.places.len() > row.lists) {
            Some(row) => Err(TxError::Lists(row.path.clone())),
            None => Ok(()),
        }
    }

    /// Every document that it would write.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        let written = self.ops.iter().filter_map(|op| match op {
            Op::Put { row, .. } | Op::Replace { row, .. } => Some(row),
            Op::Add { .. } | Op::Check { .. } | Op::Delete { .. } => None,
        });
        written.chain(&self.log)
    }
}

/// A place beyond the first is a write of its own where the store has one list index.
fn writes(op: &Op) -> usize {
    match op {
        Op::Put { row, .. } | Op::Replace { row, .. } => row.lists.max(1),
        Op::Delete { lists, .. } => (*lists).max(1),
        Op::Add { .. } | Op::Check { .. } => 1,
    }
}

impl Committed {
    /// Whether the condition of the operation at `index` failed, and what was there.
    pub fn lost(&self, index: usize) -> Option<Option<&Stored>> {
        match self {
            Self::Done => None,
            Self::Refused(held) => match held.get(index)? {
                Held::Yes => None,
                Held::No { found } => Some(found.as_deref()),
            },
        }
    }
}
