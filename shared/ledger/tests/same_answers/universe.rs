//! The paths, lists and versions that there are: so few that operations meet. No two rows ever have the same place or the same due time, of
//! which it is not said who comes first.

use crate::dice::Dice;
use motorpool_control::ports::tx::Row;
use motorpool_domain::Timestamp;
use motorpool_domain::record::{Key, Kind, Path, Place, Version};
use std::collections::BTreeSet;

/// Each with the number of lists that its rows stand in at most.
const KINDS: [(Kind, usize); 4] =
    [(Kind::new("solo"), 0), (Kind::new("one"), 1), (Kind::new("two"), 2), (Kind::new("three"), 3)];
const IDS: [&str; 3] = ["1", "2", "1/a"];
/// Likewise.
const CHILDREN: [(&str, usize); 4] = [("a", 1), ("b", 2), ("a/b", 0), ("é", 0)];
const PARENTS: [&str; 2] = ["1", "1/a"];

pub(crate) const LISTS: [&str; 3] = ["x", "y", "x#y"];
/// What a place begins with, and where a span may begin and end.
const SORTS: [&str; 5] = ["A", "a", "a-1", "b", "é"];
pub(crate) const END: &str = "\u{10ffff}";

const STATES: [&str; 3] = ["", "open", "shut"];
const MARKS: [&str; 3] = ["seen", "told", "größer.als#'"];
/// In the year 2100: whatever deletes what has expired finds nothing.
const KEPT: Timestamp = Timestamp::from_millis(4_102_444_800_000);
pub(crate) const LAST_DUE: u64 = 8_000;

/// A path, with the number of lists that its rows stand in at most.
#[derive(Debug, Clone)]
pub(crate) struct Spot {
    pub(crate) path: Path,
    pub(crate) lists: usize,
    /// No other's.
    number: u64,
}

pub(crate) fn keys() -> impl Iterator<Item = (Key, usize)> {
    KINDS.into_iter().flat_map(|(kind, lists)| IDS.map(move |id| (Key::new(kind.clone(), id), lists)))
}

pub(crate) fn spots() -> Vec<Spot> {
    let records = keys().map(|(key, lists)| (Path::from(key), lists));
    let parents = keys().map(|(key, _)| key).filter(|key| PARENTS.contains(&key.id.as_str()));
    let children =
        parents.flat_map(|key| CHILDREN.map(|(name, lists)| (Path::child(key.clone(), name), lists)));
    (0..).zip(records.chain(children)).map(|(number, (path, lists))| Spot { path, lists, number }).collect()
}

pub(crate) fn version(dice: &mut Dice) -> Version {
    Version { state: dice.pick(&STATES).to_owned(), epoch: dice.below(2), rev: dice.below(3) }
}

pub(crate) fn state(dice: &mut Dice) -> String {
    dice.pick(&STATES).to_owned()
}

/// The end of a span: where no row stands, where one may, or beyond all.
pub(crate) fn end(dice: &mut Dice) -> String {
    match dice.below(10) {
        0..2 => String::new(),
        2..6 => dice.pick(&SORTS).to_owned(),
        6..8 => format!("{}-{:02}", dice.pick(&SORTS), dice.below(40)),
        _ => END.to_owned(),
    }
}

pub(crate) fn marks(dice: &mut Dice) -> Vec<(String, u64)> {
    let mut names = BTreeSet::new();
    for _ in 0..dice.below(3) {
        names.insert(dice.pick(&MARKS));
    }
    names.into_iter().map(|name| (name.to_owned(), dice.below(1 << 45))).collect()
}

/// A row that no other is like, by its `stamp`.
pub(crate) fn row(dice: &mut Dice, spot: &Spot, stamp: u64) -> Row {
    let Spot { path, lists, number } = spot;
    let mut places = BTreeSet::new();
    for _ in 0..*lists {
        if dice.chance(70) {
            let sort = format!("{}-{number:02}", dice.pick(&SORTS));
            places.insert(Place { list: dice.pick(&LISTS).to_owned(), sort });
        }
    }
    let due = dice.chance(60).then(|| Timestamp::from_millis(dice.below(LAST_DUE / 100) * 100 + number));
    let mut places: Vec<Place> = places.into_iter().collect();
    if dice.chance(50) {
        places.reverse();
    }
    Row {
        path: path.clone(),
        version: version(dice),
        schema: u32::from(dice.chance(90)),
        doc: format!(r#"{{ "stamp": {stamp}, "größer": null }}"#),
        due,
        places,
        lists: *lists,
        kept_until: dice.chance(30).then_some(KEPT),
    }
}
