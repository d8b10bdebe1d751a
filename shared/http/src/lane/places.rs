//! Places, counted without a lock: how many of something may be under way at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub(crate) struct Places {
    taken: AtomicUsize,
    most: usize,
}

/// One place, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Places>);

impl Places {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { taken: AtomicUsize::new(0), most })
    }

    pub(crate) fn take(self: &Arc<Self>) -> Option<Place> {
        let one_more = |taken: usize| (taken < self.most).then_some(taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).ok()?;
        Some(Place(Arc::clone(self)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.taken.load(Ordering::Acquire) == 0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_once_and_given_back() {
        let places = Places::new(2);
        let first = places.take().unwrap();
        let _second = places.take().unwrap();
        assert!(places.take().is_none());
        drop(first);
        assert!(places.take().is_some() && !places.is_empty());
        assert!(Places::new(0).take().is_none());
    }
}
