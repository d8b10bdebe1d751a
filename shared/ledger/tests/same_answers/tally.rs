//! What the calls came to: a comparison of calls that all end in the same way would prove nothing.

use crate::answer::Answer;
use crate::calls::Call;
use motorpool_control::ports::tx::{Committed, Held, Op, TxError};
use std::collections::BTreeMap;
use std::fmt;

/// Each must have been seen.
const ALL: [&str; 27] = [
    "done",
    "refused",
    "put held",
    "put found a row",
    "put found nothing",
    "replace held",
    "replace found a row",
    "replace found nothing",
    "add held",
    "add found a row",
    "add found nothing",
    "check held",
    "check found a row",
    "check found nothing",
    "delete held",
    "delete found a row",
    "delete found nothing",
    "no operation",
    "a path twice",
    "touch",
    "rows",
    "a list",
    "an empty list",
    "a count",
    "children",
    "no children",
    "due",
];

#[derive(Debug, Default)]
pub(crate) struct Tally(BTreeMap<&'static str, usize>);

impl Tally {
    pub(crate) fn count(&mut self, call: &Call, answer: &Answer) {
        if let (Call::Commit(tx), Answer::Committed(committed)) = (call, answer) {
            for (index, op) in tx.ops.iter().enumerate() {
                self.one(outcome(op, committed, index));
            }
        }
        self.one(match answer {
            Answer::Committed(Committed::Done) => "done",
            Answer::Committed(Committed::Refused(_)) => "refused",
            Answer::NoTransaction(TxError::Empty) => "no operation",
            Answer::NoTransaction(TxError::Twice(_)) => "a path twice",
            Answer::NoTransaction(TxError::TooMany(_) | TxError::Lists(_)) => "another mistake",
            Answer::Touched => "touch",
            Answer::Rows(_) => "rows",
            Answer::Listed(placed) if placed.is_empty() => "an empty list",
            Answer::Listed(_) => "a list",
            Answer::Counted(_) => "a count",
            Answer::Children(rows) if rows.is_empty() => "no children",
            Answer::Children(_) => "children",
            Answer::Due(_) => "due",
        });
    }

    /// All that can come of a call did, and of the transactions neither most were done nor most refused.
    pub(crate) fn is_full(&self) -> bool {
        let [done, refused] = ["done", "refused"].map(|what| self.0.get(what).copied().unwrap_or(0));
        ALL.iter().all(|what| self.0.contains_key(what)) && done < refused * 2 && refused < done * 2
    }

    fn one(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }
}

fn outcome(op: &Op, committed: &Committed, index: usize) -> &'static str {
    let held = match committed {
        Committed::Done => &Held::Yes,
        Committed::Refused(held) => held.get(index).unwrap_or(&Held::Yes),
    };
    let [yes, row, nothing] = match op {
        Op::Put { .. } => ["put held", "put found a row", "put found nothing"],
        Op::Replace { .. } => ["replace held", "replace found a row", "replace found nothing"],
        Op::Add { .. } => ["add held", "add found a row", "add found nothing"],
        Op::Check { .. } => ["check held", "check found a row", "check found nothing"],
        Op::Delete { .. } => ["delete held", "delete found a row", "delete found nothing"],
    };
    match held {
        Held::Yes => yes,
        Held::No { found: Some(_) } => row,
        Held::No { found: None } => nothing,
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told: Vec<String> = self.0.iter().map(|(what, many)| format!("{many} {what}")).collect();
        f.write_str(&told.join(", "))
    }
}
