//! A CI system that does not answer: until when nobody asks it, so that not each call waits as long as the first. It sends nothing.

use crate::transport::ANSWER;
use motorpool_domain::Timestamp;
use std::time::Duration;

/// Doubled while it goes on.
const FIRST: Duration = Duration::from_secs(15);
const LONGEST: Duration = Duration::from_secs(120);

#[derive(Debug, Default)]
pub(crate) struct Silence(Option<Silent>);

#[derive(Debug)]
struct Silent {
    pause: Duration,
    /// When the last time-out was noted.
    since: Timestamp,
    until: Timestamp,
}

impl Silence {
    /// How long nobody may ask. Once that is over one caller finds out for all whether it answers again: the others are told to wait for him.
    pub(crate) fn left_alone_for(&mut self, now: Timestamp) -> Option<Duration> {
        let silent = self.0.as_mut()?;
        let left = now.until(silent.until);
        if left.is_zero() {
            silent.until = now.after(ANSWER);
            return None;
        }
        Some(left)
    }

    /// What was asked at `asked_at` was not answered. Calls that were under way together are one time-out.
    pub(crate) fn timed_out(&mut self, asked_at: Timestamp, now: Timestamp) {
        let pause = match &self.0 {
            None => FIRST,
            Some(silent) if asked_at > silent.since => (silent.pause * 2).min(LONGEST),
            Some(_) => return,
        };
        self.0 = Some(Silent { pause, since: now, until: now.after(pause) });
    }

    /// It answered, or said at once that it can't.
    pub(crate) fn over(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + seconds * 1_000)
    }

    fn left(silence: &mut Silence, second: u64) -> Option<u64> {
        silence.left_alone_for(at(second)).map(|wait| wait.as_secs())
    }

    #[test]
    fn it_is_left_alone_for_longer_and_longer_and_tried_by_one_caller_at_a_time() {
        let (mut silence, mut now) = (Silence::default(), 0);
        assert_eq!(left(&mut silence, now), None);
        for pause in [15, 30, 60, 120, 120] {
            let asked = now;
            now += 20;
            silence.timed_out(at(asked), at(now));
            assert_eq!(left(&mut silence, now), Some(pause));
            now += pause;
            assert_eq!(left(&mut silence, now), None, "one tries");
            assert_eq!(left(&mut silence, now + 1), Some(19), "and the others wait for him");
        }
        silence.over();
        assert_eq!((left(&mut silence, now + 2), left(&mut silence, now + 2)), (None, None));
    }

    #[test]
    fn calls_that_time_out_together_are_one_time_out() {
        let mut silence = Silence::default();
        for asked in 0..16 {
            silence.timed_out(at(asked), at(asked + 20));
        }
        assert_eq!(left(&mut silence, 20), Some(15));
    }

    /// Its caller hung up, and nobody says how it went.
    #[test]
    fn who_tries_and_goes_away_keeps_the_others_waiting_no_longer_than_an_answer_may_take() {
        let mut silence = Silence::default();
        silence.timed_out(at(0), at(20));
        assert_eq!(left(&mut silence, 35), None);
        assert_eq!(left(&mut silence, 54), Some(1));
        assert_eq!(left(&mut silence, 55), None, "another tries");
    }
}
