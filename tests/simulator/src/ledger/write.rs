//! The ledger's writes as values: so that one can be applied, repeated, applied to a second ledger later, and checked.

use motorpool_control::ports::ledger::{Ledger, LedgerError, Touch};
use motorpool_control::ports::tx::{Committed, Held, Op, Row, Tx};
use motorpool_domain::AuditEntry;
use motorpool_domain::record::Path;

#[derive(Debug, Clone)]
pub(crate) enum Write {
    Commit(Tx),
    Touch(Touch),
}

impl Write {
    /// A touch is answered like a transaction that is done: whether it had an effect, its sender is not told.
    pub(crate) async fn apply(&self, ledger: &dyn Ledger) -> Result<Committed, LedgerError> {
        match self {
            Self::Commit(tx) => ledger.commit(tx).await,
            Self::Touch(touch) => ledger.touch(touch).await.map(|()| Committed::Done),
        }
    }

    /// Whether it is over several items, so that others can conflict with it.
    pub(crate) fn is_transaction(&self) -> bool {
        match self {
            Self::Commit(tx) => tx.ops.len() + tx.log.len() > 1,
            Self::Touch(_) => false,
        }
    }

    /// Whose records it writes.
    pub(crate) fn paths(&self) -> Vec<Path> {
        match self {
            Self::Commit(tx) => tx.ops.iter().map(|op| op.path().clone()).collect(),
            Self::Touch(touch) => vec![touch.path.clone()],
        }
    }

    /// For the story.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Touch(Touch { path, epoch, marks, .. }) => {
                let marks: Vec<&str> = marks.iter().map(|(name, _)| name.as_str()).collect();
                format!("{path}@{epoch} is {}", marks.join(" and "))
            }
            Self::Commit(Tx { ops, log }) => {
                let parts: Vec<String> = ops.iter().map(op_in_words).chain(log.iter().map(entry)).collect();
                parts.join("; ")
            }
        }
    }
}

fn op_in_words(op: &Op) -> String {
    match op {
        Op::Put { row, when } => format!("put {} {} when {when:?}", row.path, row.version),
        Op::Replace { row, was, .. } => format!("{} {was} → {}", row.path, row.version),
        Op::Add { path, was, by, at_least, at_most } => {
            format!("{path} {by:+} within {at_least}..={at_most} of {was:?}")
        }
        Op::Check { path, when } => format!("{path} is {when:?}"),
        Op::Delete { path, was, .. } => format!("delete {path} {was}"),
    }
}

fn entry(row: &Row) -> String {
    match serde_json::from_str::<AuditEntry>(&row.doc) {
        Ok(AuditEntry { what, why, .. }) => format!("({what}: {why})"),
        Err(_) => format!("({})", row.doc),
    }
}

pub(crate) fn answer_in_words(answer: &Committed) -> String {
    let Committed::Refused(held) = answer else { return "done".to_owned() };
    let lost: Vec<String> = held
        .iter()
        .filter_map(|held| match held {
            Held::Yes => None,
            Held::No { found: Some(found) } => Some(format!("{} {}", found.path, found.beside.version)),
            Held::No { found: None } => Some("nothing".to_owned()),
        })
        .collect();
    format!("LOST to {}", lost.join(" and "))
}
