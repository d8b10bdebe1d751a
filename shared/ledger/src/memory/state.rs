//! What the ledger in memory holds, and how its rows, lists and due times are kept in step. It checks no condition.

use super::Kept;
use motorpool_control::ports::ledger::{Children, Span};
use motorpool_domain::Timestamp;
use motorpool_domain::record::{Key, Kind, Path, Place};
use std::collections::{BTreeMap, BTreeSet};

/// Ordered throughout: the same calls give the same answers in the same order. Where two rows stand at the same place, or are due at the
/// same instant, their paths decide.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    rows: BTreeMap<Path, Kept>,
    lists: BTreeSet<(Place, Path)>,
    due: BTreeSet<(Timestamp, Path)>,
}

impl State {
    pub(super) fn rows(&self) -> impl Iterator<Item = &Kept> {
        self.rows.values()
    }

    pub(super) fn row(&self, path: &Path) -> Option<&Kept> {
        self.rows.get(path)
    }

    /// For what stands beside the document; where it stands and when it is due is not changed so.
    pub(super) fn row_mut(&mut self, path: &Path) -> Option<&mut Kept> {
        self.rows.get_mut(path)
    }

    pub(super) fn put(&mut self, kept: Kept) {
        let path = kept.row.path.clone();
        self.remove(&path);
        self.lists.extend(kept.row.places.iter().map(|place| (place.clone(), path.clone())));
        self.due.extend(kept.row.due.map(|at| (at, path.clone())));
        self.rows.insert(path, kept);
    }

    pub(super) fn remove(&mut self, path: &Path) {
        let Some(Kept { row, .. }) = self.rows.remove(path) else { return };
        for place in row.places {
            self.lists.remove(&(place, path.clone()));
        }
        if let Some(at) = row.due {
            self.due.remove(&(at, path.clone()));
        }
    }

    pub(super) fn sweep_expired(&mut self, now: Timestamp) -> usize {
        let expired = |kept: &&Kept| kept.row.kept_until.is_some_and(|until| until <= now);
        let paths: Vec<Path> = self.rows().filter(expired).map(|kept| kept.row.path.clone()).collect();
        for path in &paths {
            self.remove(path);
        }
        paths.len()
    }

    /// Each place of the span with who stands there.
    pub(super) fn listed(&self, span: &Span) -> impl Iterator<Item = (&String, &Path)> {
        let Span { list, low, high } = span;
        let from = (Place { list: list.clone(), sort: low.clone() }, first_path());
        let within = move |(place, _): &&(Place, Path)| place.list == *list && place.sort <= *high;
        self.lists.range(from..).take_while(within).map(|(place, path)| (&place.sort, path))
    }

    /// By name, rising.
    pub(super) fn children(&self, of: &Children) -> impl DoubleEndedIterator<Item = &Kept> {
        let Children { of, low, high, order: _ } = of;
        // A map has no range whose ends are the wrong way round; nothing is in such a one.
        let range = (low <= high)
            .then(|| self.rows.range(Path::child(of.clone(), low)..=Path::child(of.clone(), high)));
        range.into_iter().flatten().map(|(_, kept)| kept)
    }

    pub(super) fn due(&self, now: Timestamp) -> impl Iterator<Item = &Path> {
        self.due.iter().take_while(move |(at, _)| *at <= now).map(|(_, path)| path)
    }
}

/// None comes before it.
fn first_path() -> Path {
    Path::from(Key::new(Kind::new(""), ""))
}
