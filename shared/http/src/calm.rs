//! A brake on floods of those who get nothing: callers that are not known, and callers that ask too much. So many answers a second go out at
//! once; each further one is kept back for a moment. What a flood gets is then no longer the processor but a queue of its own.

use crate::clock;
use crate::limits::HttpLimits;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Calm {
    begun: Instant,
    a_second: u64,
    pub(crate) pause: Duration,
    most_at_once: usize,
    /// The second, and how many answers went out in it, in one number.
    counted: AtomicU64,
    kept_back: AtomicUsize,
}

/// One answer that is kept back.
#[derive(Debug)]
pub(crate) struct KeptBack(Arc<Calm>);

const COUNT_BITS: u32 = 32;

impl Calm {
    pub(crate) fn new(limits: &HttpLimits) -> Self {
        Self {
            begun: clock::now(),
            a_second: u64::from(limits.strangers_a_second),
            pause: limits.pause,
            most_at_once: limits.pauses_at_once,
            counted: AtomicU64::new(0),
            kept_back: AtomicUsize::new(0),
        }
    }

    /// Counts an answer; `Some` if it is to be kept back.
    pub(crate) fn count(self: &Arc<Self>) -> Option<KeptBack> {
        let second = clock::now().duration_since(self.begun).as_secs();
        if !self.is_beyond(second) {
            return None;
        }
        let one_more = |kept: usize| (kept < self.most_at_once).then_some(kept + 1);
        self.kept_back.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).ok()?;
        Some(KeptBack(Arc::clone(self)))
    }

    fn is_beyond(&self, second: u64) -> bool {
        let mut beyond = false;
        let count = |counted: u64| {
            let (of, count) = (counted >> COUNT_BITS, counted & u64::from(u32::MAX));
            let count = if of == second { count } else { 0 };
            beyond = count >= self.a_second;
            (!beyond).then_some((second << COUNT_BITS) | (count + 1))
        };
        // An error only says that there was nothing to count.
        let _ = self.counted.fetch_update(Ordering::AcqRel, Ordering::Relaxed, count);
        beyond
    }
}

impl Drop for KeptBack {
    fn drop(&mut self) {
        self.0.kept_back.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calm(strangers_a_second: u32, pauses_at_once: usize) -> Arc<Calm> {
        let pause = Duration::ZERO;
        Arc::new(Calm::new(&HttpLimits {
            strangers_a_second,
            pauses_at_once,
            pause,
            ..HttpLimits::default()
        }))
    }

    #[test]
    fn each_second_has_its_own_answers() {
        let calm = calm(2, 10);
        for second in [0, 1, 7] {
            assert!(!calm.is_beyond(second) && !calm.is_beyond(second), "{second}");
            assert!(calm.is_beyond(second) && calm.is_beyond(second), "{second}");
        }
    }

    #[test]
    fn no_more_are_kept_back_than_there_is_room_for() {
        let calm = calm(0, 1);
        let kept = calm.count();
        assert!(kept.is_some() && calm.count().is_none());
        drop(kept);
        assert!(calm.count().is_some());
    }
}
