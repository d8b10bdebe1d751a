//! A transaction of the port as writes of items, and DynamoDB's answer as the port's. Conditions are evaluated by DynamoDB alone.

use std::collections::BTreeMap;

use motorpool_control::ports::ledger::{LedgerError, Touch};
use motorpool_control::ports::tx::{Committed, Held, Op, Row, Tx, When};
use motorpool_domain::record::{Path, Version};

use super::DynamoLedger;
use super::expression::Expression;
use super::rows::{self, COUNTER, EPOCH, REV, STATE, n, s};
use super::transact::{self, Condition, Outcome, Write};

pub(super) async fn commit(ledger: &DynamoLedger, tx: &Tx) -> Result<Committed, LedgerError> {
    let attempted = attempted(tx);
    tx.check().map_err(|error| LedgerError::failed(&attempted, error))?;
    let conditional = tx.ops.iter().enumerate().filter_map(|(index, op)| Some((index, of_row(op)?)));
    // The writes with a condition come first, so that the answers to them do, too.
    let (ops, mut writes): (Vec<usize>, Vec<Write>) = conditional.unzip();
    writes.extend(tx.ops.iter().flat_map(of_pointers));
    writes.extend(tx.log.iter().flat_map(logged));
    if writes.is_empty() {
        return Ok(Committed::Done);
    }
    let conditions = match transact::write(ledger, &attempted, writes).await? {
        Outcome::Done => return Ok(Committed::Done),
        Outcome::Refused(conditions) => conditions,
    };
    let mut held = vec![Held::Yes; tx.ops.len()];
    for (index, condition) in ops.into_iter().zip(conditions) {
        if let Condition::Failed { found } = condition
            && let Some(held) = held.get_mut(index)
        {
            let found = found.as_ref().map(rows::stored).transpose()?;
            *held = Held::No { found: found.map(Box::new) };
        }
    }
    Ok(Committed::Refused(held))
}

pub(super) async fn touch(ledger: &DynamoLedger, touch: &Touch) -> Result<(), LedgerError> {
    let Touch { path, epoch, unless, marks } = touch;
    if marks.is_empty() {
        return Ok(());
    }
    // DynamoDB refuses to set an attribute twice; the last of a name counts.
    let marks: BTreeMap<&String, &u64> = marks.iter().map(|(name, at)| (name, at)).collect();
    let of_life =
        Expression::default().only_if(EPOCH, "=", n(*epoch)).only_if(STATE, "<>", s(unless.as_str()));
    let with = marks.into_iter().fold(of_life, |with, (name, at)| with.set(&rows::mark(name), n(*at)));
    let write = Write::Update { key: rows::key(path), with };
    match transact::write(ledger, &format!("note marks beside {path}"), vec![write]).await? {
        // Of another life.
        Outcome::Done | Outcome::Refused(_) => Ok(()),
    }
}

fn attempted(tx: &Tx) -> String {
    let logged = tx.log.iter().map(|row| &row.path);
    let paths: Vec<&Path> = tx.ops.iter().map(Op::path).chain(logged).collect();
    match paths.as_slice() {
        [] => "write nothing".to_owned(),
        [path] => format!("write {path}"),
        [path, others @ ..] => format!("write {path} and {} more", others.len()),
    }
}

/// What an operation does to its row itself, and on which condition; nothing, if it does nothing on none.
fn of_row(op: &Op) -> Option<Write> {
    Some(match op {
        Op::Put { row, when } => Write::Put { item: rows::new_item(row), only_if: only_when(when) },
        Op::Replace { row, was, counter } => Write::Update {
            key: rows::key(&row.path),
            with: only_still(was, *counter).columns(rows::columns(row)),
        },
        Op::Add { path, was, by, at_least, at_most } => {
            let bound = |bound: u64| n(i128::from(bound) - i128::from(*by));
            let still = was.as_ref().map_or_else(Expression::default, |was| only_still(was, None));
            let enough = still.only_if(COUNTER, ">=", bound(*at_least));
            let within = enough.only_if(COUNTER, "<=", bound(*at_most));
            Write::Update { key: rows::key(path), with: within.raise(COUNTER, n(*by)) }
        }
        Op::Check { path: _, when: When::Always } => return None,
        Op::Check { path, when } => Write::Check { key: rows::key(path), only_if: only_when(when) },
        Op::Delete { path, was, counter, lists: _ } => {
            Write::Delete { key: rows::key(path), only_if: only_still(was, *counter) }
        }
    })
}

/// What an operation does to the pointers beside its row: those of an earlier document go.
fn of_pointers(op: &Op) -> Vec<Write> {
    match op {
        Op::Put { row, .. } | Op::Replace { row, .. } => {
            let pointer = |number| match rows::pointer(row, number) {
                Some(item) => Write::Put { item, only_if: Expression::default() },
                None => no_pointer(&row.path, number),
            };
            (1..row.lists).map(pointer).collect()
        }
        Op::Delete { path, lists, .. } => (1..*lists).map(|number| no_pointer(path, number)).collect(),
        Op::Add { .. } | Op::Check { .. } => Vec::new(),
    }
}

/// A log entry has a path of its own: there are no pointers of an earlier document.
fn logged(row: &Row) -> impl Iterator<Item = Write> {
    let pointers = (1..row.places.len()).filter_map(|number| rows::pointer(row, number));
    let items = std::iter::once(rows::new_item(row)).chain(pointers);
    items.map(|item| Write::Put { item, only_if: Expression::default() })
}

fn no_pointer(path: &Path, number: usize) -> Write {
    Write::Delete { key: rows::pointer_key(path, number), only_if: Expression::default() }
}

fn only_when(when: &When) -> Expression {
    match when {
        When::Always => Expression::default(),
        When::Absent => Expression::default().only_if_absent(),
        When::Is(version) => only_still(version, None),
    }
}

fn only_still(version: &Version, counter: Option<u64>) -> Expression {
    let Version { state, epoch, rev } = version;
    let life = Expression::default().only_if(STATE, "=", s(state)).only_if(EPOCH, "=", n(*epoch));
    let still = life.only_if(REV, "=", n(*rev));
    match counter {
        Some(counter) => still.only_if(COUNTER, "=", n(counter)),
        None => still,
    }
}

#[cfg(test)]
mod tests {
    use motorpool_domain::record::{Key, Kind};

    use super::*;
    use crate::dynamodb::expression::Parts;

    fn path() -> Path {
        Path::from(Key::new(Kind::new("thing"), "a"))
    }

    fn was() -> Version {
        Version { state: "open".to_owned(), epoch: 3, rev: 7 }
    }

    fn row() -> Row {
        let version = Version { rev: 8, ..was() };
        let doc = "{}".to_owned();
        Row {
            path: path(),
            version,
            schema: 1,
            doc,
            due: None,
            places: Vec::new(),
            lists: 0,
            kept_until: None,
        }
    }

    /// The conditions that DynamoDB is given for the operation, with names and values in their places.
    fn conditions(op: &Op) -> Vec<String> {
        let expression = match of_row(op).unwrap() {
            Write::Put { item: _, only_if } => only_if,
            Write::Update { key: _, with } => with,
            Write::Delete { key: _, only_if } | Write::Check { key: _, only_if } => only_if,
        };
        let Parts { condition, names, values, update: _ } = expression.parts();
        let (names, values) = (names.unwrap_or_default(), values.unwrap_or_default());
        let in_place = |word: &str| match (names.get(word), values.get(word)) {
            (Some(name), _) => name.clone(),
            (None, Some(value)) => value.as_n().or(value.as_s()).unwrap().clone(),
            (None, None) => word.to_owned(),
        };
        let clause = |clause: &str| clause.split(' ').map(in_place).collect::<Vec<_>>().join(" ");
        condition.iter().flat_map(|condition| condition.split(" AND ")).map(clause).collect()
    }

    #[test]
    fn inv_02_what_was_read_is_compared_whole() {
        let version = ["state = open", "epoch = 3", "rev = 7"];
        for op in [
            Op::Put { row: row(), when: When::Is(was()) },
            Op::Check { path: path(), when: When::Is(was()) },
            Op::Replace { row: row(), was: was(), counter: None },
            Op::Delete { path: path(), was: was(), counter: None, lists: 0 },
        ] {
            assert_eq!(conditions(&op), version, "{op:?}");
        }
        let with_counter = [&version[..], &["counter = 2"]].concat();
        for op in [
            Op::Replace { row: row(), was: was(), counter: Some(2) },
            Op::Delete { path: path(), was: was(), counter: Some(2), lists: 0 },
        ] {
            assert_eq!(conditions(&op), with_counter, "{op:?}");
        }
    }

    #[test]
    fn inv_17_both_bounds_of_a_counter_are_compared_as_it_was_before() {
        let add = |was, by| Op::Add { path: path(), was, by, at_least: 1, at_most: 9 };
        assert_eq!(conditions(&add(None, 2)), ["counter >= -1", "counter <= 7"]);
        assert_eq!(conditions(&add(None, -2)), ["counter >= 3", "counter <= 11"]);
        let whole = ["state = open", "epoch = 3", "rev = 7", "counter >= 3", "counter <= 11"];
        assert_eq!(conditions(&add(Some(was()), -2)), whole);
    }
}
