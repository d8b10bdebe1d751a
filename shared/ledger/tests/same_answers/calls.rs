//! Random calls of the ledger, made with an eye on what is there: the conditions of about half of the transactions hold.

use crate::dice::Dice;
use crate::universe::{self, LAST_DUE, LISTS, Spot, keys, spots};
use motorpool_control::ports::ledger::{Children, Order, Span, Touch};
use motorpool_control::ports::tx::{Op, Row, Tx, When};
use motorpool_domain::Timestamp;
use motorpool_domain::record::{Key, Path, Version};
use motorpool_ledger::memory::Kept;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    Commit(Tx),
    Touch(Touch),
    Get(Vec<Path>),
    List(Span, usize),
    Count(Span, usize),
    Children(Children, usize),
    Due(Timestamp, usize),
}

pub(crate) struct Calls {
    dice: Dice,
    spots: Vec<Spot>,
    keys: Vec<Key>,
    stamp: u64,
    /// Sent again now and then, as after a lost answer.
    last: Option<Tx>,
}

/// How often an operation's condition is one that holds: of a few such ones, all do about half of the time.
const HOLDS_PERCENT: u64 = 83;

impl Calls {
    pub(crate) fn new(seed: u64) -> Self {
        let keys = keys().map(|(key, _)| key).collect();
        Self { dice: Dice::new(seed), spots: spots(), keys, stamp: 0, last: None }
    }

    /// `rows` is all there is.
    pub(crate) fn next(&mut self, rows: &[Kept]) -> Call {
        match self.dice.below(100) {
            0..60 => Call::Commit(self.transaction(rows)),
            60..72 => Call::Touch(self.touch(rows)),
            72..77 => Call::Get(self.paths()),
            77..85 => Call::List(self.span(), self.at_most()),
            85..89 => Call::Count(self.span(), self.at_most()),
            89..95 => Call::Children(self.children(), self.at_most()),
            _ => Call::Due(Timestamp::from_millis(self.dice.below(LAST_DUE)), self.at_most()),
        }
    }

    fn transaction(&mut self, rows: &[Kept]) -> Tx {
        if let Some(last) = self.last.clone()
            && self.dice.chance(4)
        {
            return last;
        }
        let mut left = self.spots.clone();
        let mut tx = Tx::default();
        for _ in 0..=self.dice.below(6) {
            let spot = self.spot(&mut left);
            tx = tx.with(self.op(&spot, found(rows, &spot.path)));
        }
        left.retain(|spot| spot.lists <= 1);
        for _ in 0..self.dice.below(3) {
            let spot = self.spot(&mut left);
            tx = tx.logged(self.row(&spot));
        }
        // A log alone, or nothing at all.
        if self.dice.chance(4) {
            tx.ops.clear();
        }
        self.last = Some(tx.clone());
        tx
    }

    /// One that the transaction has not used yet; seldom one that it will use again.
    fn spot(&mut self, left: &mut Vec<Spot>) -> Spot {
        let spot = self.dice.pick(left);
        if !self.dice.chance(3) {
            left.retain(|other| other.path != spot.path);
        }
        spot
    }

    fn row(&mut self, spot: &Spot) -> Row {
        self.stamp += 1;
        universe::row(&mut self.dice, spot, self.stamp)
    }

    fn op(&mut self, spot: &Spot, found: Option<&Kept>) -> Op {
        let holds = self.dice.chance(HOLDS_PERCENT);
        let path = spot.path.clone();
        match (self.dice.below(100), found) {
            (0..22, _) => Op::Put { row: self.row(spot), when: self.when(found, holds) },
            (22..34, _) => Op::Check { path, when: self.when(found, holds) },
            // Nothing that is asked of a missing row holds.
            (34.., None) if holds => Op::Put { row: self.row(spot), when: When::Absent },
            (34..62, _) => {
                let (was, counter) = self.was(found, holds);
                Op::Replace { row: self.row(spot), was, counter }
            }
            (62..78, _) => {
                let (was, counter) = self.was(found, holds);
                Op::Delete { path, was, counter, lists: spot.lists }
            }
            (78.., _) => {
                let (by, at_least, at_most) = self.sum(found.map_or(0, |found| found.counter), holds);
                let named = self.dice.chance(50);
                let was = named.then(|| self.was(found, holds).0);
                Op::Add { path, was, by, at_least, at_most }
            }
        }
    }

    fn when(&mut self, found: Option<&Kept>, holds: bool) -> When {
        match (found, holds) {
            (_, true) if self.dice.chance(40) => When::Always,
            (None, true) => When::Absent,
            (Some(found), true) => When::Is(found.row.version.clone()),
            (Some(_), false) if self.dice.chance(40) => When::Absent,
            (Some(found), false) => When::Is(self.other_than(&found.row.version)),
            (None, false) => When::Is(universe::version(&mut self.dice)),
        }
    }

    fn was(&mut self, found: Option<&Kept>, holds: bool) -> (Version, Option<u64>) {
        let Some(Kept { row, counter, .. }) = found else {
            return (universe::version(&mut self.dice), self.dice.chance(30).then_some(0));
        };
        let exactly = self.dice.chance(40);
        match holds {
            true => (row.version.clone(), exactly.then_some(*counter)),
            false if exactly => (row.version.clone(), Some(counter + 1 + self.dice.below(2))),
            false => (self.other_than(&row.version), self.dice.chance(30).then_some(*counter)),
        }
    }

    /// In one part, or in several.
    fn other_than(&mut self, version: &Version) -> Version {
        let Version { state, epoch, rev } = version.clone();
        match self.dice.below(4) {
            0 => Version { state: format!("{state}."), epoch, rev },
            1 => Version { state, epoch: epoch + 1, rev },
            2 => Version { state, epoch, rev: rev + 1 },
            _ => Version { rev: rev + 3, ..universe::version(&mut self.dice) },
        }
    }

    /// By how much, and between what.
    fn sum(&mut self, counter: u64, holds: bool) -> (i64, u64, u64) {
        let by = self.dice.pick(&[-3, -2, -1, 0, 1, 1, 2, 3]);
        match (counter.checked_add_signed(by), holds) {
            (Some(sum), true) => {
                let at_most = sum + self.dice.below(2);
                let at_most = if self.dice.chance(30) { u64::MAX } else { at_most };
                (by, sum.saturating_sub(self.dice.below(3)), at_most)
            }
            (None, true) => (1, 0, counter + 1),
            (Some(sum), false) => match self.dice.below(4) {
                0 => (by, sum + 1, u64::MAX),
                1 => (by, sum + 1, sum.saturating_sub(1)),
                _ => (by, 0, sum.checked_sub(1).unwrap_or(sum)),
            },
            (None, false) => (by, 0, u64::MAX),
        }
    }

    fn touch(&mut self, rows: &[Kept]) -> Touch {
        let Spot { path, .. } = self.dice.pick(&self.spots);
        let epoch = found(rows, &path).map(|found| found.row.version.epoch);
        let epoch = epoch.filter(|_| self.dice.chance(70)).unwrap_or_else(|| self.dice.below(3));
        let unless = universe::state(&mut self.dice);
        Touch { path, epoch, unless, marks: universe::marks(&mut self.dice) }
    }

    fn paths(&mut self) -> Vec<Path> {
        (0..self.dice.below(8)).map(|_| self.dice.pick(&self.spots).path).collect()
    }

    fn span(&mut self) -> Span {
        let [low, high] = [universe::end(&mut self.dice), universe::end(&mut self.dice)];
        Span { list: self.dice.pick(&LISTS).to_owned(), low, high }
    }

    fn children(&mut self) -> Children {
        let [low, high] = [universe::end(&mut self.dice), universe::end(&mut self.dice)];
        let order = self.dice.pick(&[Order::Rising, Order::Falling]);
        Children { of: self.dice.pick(&self.keys), low, high, order }
    }

    fn at_most(&mut self) -> usize {
        self.dice.pick(&[0, 1, 2, 3, 5, 8, 100, 100, 100])
    }
}

fn found<'r>(rows: &'r [Kept], path: &Path) -> Option<&'r Kept> {
    rows.iter().find(|kept| kept.row.path == *path)
}
