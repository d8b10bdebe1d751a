//! A brake on floods of those who get nothing: callers that are not known, and callers that ask too much. So many answers a second go out at
//! once; each further one is kept back for a moment. What a flood gets is then no longer the processor but a queue of its own.

use crate::clock;
use crate::limits::HttpLimits;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Calm {
    begun: Instant,
    a_second: u64,
    pause: Duration,
    refusal_pause: Duration,
    most_at_once: usize,
    /// The second, and how many answers went out in it, in one number.
    counted: AtomicU64,
    kept_back: AtomicUsize,
    /// How many were kept back, ever.
    pauses: AtomicU32,
}

/// To whom an answer goes that is perhaps to be kept back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gets {
    /// Somebody whom nobody knows, and who is answered all the same.
    Something,
    Refused,
}

/// One answer that is kept back, and for how long.
#[derive(Debug)]
pub(crate) struct KeptBack {
    calm: Arc<Calm>,
    pub(crate) pause: Duration,
}

const COUNT_BITS: u32 = 32;
/// The golden section of all numbers: whatever comes one after the other is spread evenly over them.
const SPREAD: u32 = 0x9E37_79B9;

impl Calm {
    pub(crate) fn new(limits: &HttpLimits) -> Self {
        Self {
            begun: clock::now(),
            a_second: u64::from(limits.strangers_a_second),
            pause: limits.pause,
            refusal_pause: limits.refusal_pause,
            most_at_once: limits.pauses_at_once,
            counted: AtomicU64::new(0),
            kept_back: AtomicUsize::new(0),
            pauses: AtomicU32::new(0),
        }
    }

    /// Counts an answer; `Some` if it is to be kept back.
    pub(crate) fn count(self: &Arc<Self>, gets: Gets) -> Option<KeptBack> {
        let second = clock::now().duration_since(self.begun).as_secs();
        if !self.is_beyond(second) {
            return None;
        }
        let one_more = |kept: usize| (kept < self.most_at_once).then_some(kept + 1);
        self.kept_back.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).ok()?;
        Some(KeptBack { calm: Arc::clone(self), pause: self.next_pause(gets) })
    }

    /// From two thirds to four thirds of the usual one, and none like the last: who was refused at one moment would come back at one, too.
    fn next_pause(&self, gets: Gets) -> Duration {
        let usual = match gets {
            Gets::Something => self.pause,
            Gets::Refused => self.refusal_pause,
        };
        let turn = self.pauses.fetch_add(1, Ordering::Relaxed).wrapping_mul(SPREAD);
        usual.mul_f64((2.0 + 2.0 * f64::from(turn) / f64::from(u32::MAX)) / 3.0)
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
        self.calm.kept_back.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calm(strangers_a_second: u32, pauses_at_once: usize) -> Arc<Calm> {
        Arc::new(Calm::new(&HttpLimits { strangers_a_second, pauses_at_once, ..HttpLimits::default() }))
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
        let kept = calm.count(Gets::Refused);
        assert!(kept.is_some() && calm.count(Gets::Refused).is_none());
        drop(kept);
        assert!(calm.count(Gets::Refused).is_some());
    }

    #[test]
    fn those_who_are_refused_at_once_do_not_come_back_at_once() {
        let calm = calm(0, 1_000);
        let mut pauses: Vec<Duration> = (0..100).map(|_| calm.next_pause(Gets::Refused)).collect();
        pauses.sort();
        let (least, most) = (calm.refusal_pause * 2 / 3, calm.refusal_pause * 4 / 3);
        let slack = Duration::from_millis(1);
        assert!(pauses.iter().all(|pause| (least - slack..=most + slack).contains(pause)), "{pauses:?}");
        let widest = pauses.iter().zip(pauses.iter().skip(1)).map(|(one, next)| *next - *one).max();
        assert!(widest.is_some_and(|widest| widest < (most - least) / 20), "{widest:?}");
    }
}
