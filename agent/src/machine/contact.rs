//! When to sync next: heartbeats, long polls, backoff. It decides no deadline and sends nothing.

use std::time::Duration;

use motorpool_domain::runner::StateName;
use motorpool_domain::{Epoch, TaskId};
use motorpool_wire::agent::SyncAnswer;

use crate::clock::BootInstant;

const LONGEST_WAIT: Duration = Duration::from_secs(20);
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
/// A token that is refused is not accepted a moment later: a person must act.
const REFUSED_BACKOFF: Duration = Duration::from_secs(60);

/// However long an answer asks to wait, its cause may be gone before.
const LONGEST_TOLD: Duration = Duration::from_secs(600);

/// Whatever the answer asks for, it is neither more nor less often than this.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
const LONGEST_INTERVAL: Duration = Duration::from_secs(3_600);

#[derive(Debug)]
pub(super) struct Contact {
    jitter: Jitter,
    interval: Duration,
    failures: u32,
    in_flight: bool,
    next_at: Option<BootInstant>,
    seen: Option<Seen>,
}

/// What makes an answer differ from the one before.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    epoch: Epoch,
    state: StateName,
    task: Option<TaskId>,
}

impl Contact {
    pub(super) fn starting(seed: u64, now: BootInstant) -> Self {
        let jitter = Jitter { state: seed };
        Self {
            jitter,
            interval: Duration::ZERO,
            failures: 0,
            in_flight: false,
            next_at: Some(now),
            seen: None,
        }
    }

    pub(super) fn next_at(&self) -> Option<BootInstant> {
        self.next_at
    }

    /// How long the answer to the next request may wait for news. The server may ignore it.
    pub(super) fn wait(&self) -> Duration {
        self.interval.min(LONGEST_WAIT)
    }

    /// The request that goes out takes the place of any that is under way.
    pub(super) fn sent(&mut self) {
        self.in_flight = true;
        self.next_at = None;
    }

    /// There is something to report. An outage is not made worse by it: a backoff goes on.
    pub(super) fn report_at(&mut self, at: BootInstant) {
        if self.in_flight || self.failures == 0 {
            self.at_the_latest(at);
        }
    }

    pub(super) fn answered(&mut self, sent_at: BootInstant, answer: &SyncAnswer, now: BootInstant) {
        let held = !self.wait().is_zero() && now.since(sent_at) >= self.wait() / 2;
        let task = answer.task.as_ref().map(|task| task.id.clone());
        let seen = Some(Seen { epoch: answer.epoch, state: answer.state, task });
        let news = self.seen != seen;
        self.seen = seen;
        self.in_flight = false;
        self.failures = 0;
        self.interval =
            Duration::from_millis(answer.next_sync_in_ms).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
        // A server that holds polls must always have one to hold. One that does not shows it by answering twice the same.
        let pause = if news || held { SHORTEST_INTERVAL } else { self.jitter.around(self.interval) };
        self.at_the_latest((sent_at + pause).max(now));
    }

    pub(super) fn failed(&mut self, now: BootInstant) {
        self.failures = self.failures.saturating_add(1);
        let pause = self.jitter.backoff(self.failures, self.longest_backoff());
        self.failed_until(now + pause);
    }

    pub(super) fn refused(&mut self, now: BootInstant) {
        self.failures = self.failures.saturating_add(1);
        let pause = self.jitter.around(REFUSED_BACKOFF);
        self.failed_until(now + pause);
    }

    /// What was refused may be taken in another form: at once, and it is no outage.
    pub(super) fn retry_at(&mut self, at: BootInstant) {
        self.failed_until(at);
    }

    /// The pause before the `nth` try again of something else that keeps failing.
    pub(super) fn backoff(&mut self, nth: u32) -> Duration {
        self.jitter.backoff(nth, LONGEST_BACKOFF)
    }

    /// The same where the answer said how long to wait. It said so to many, who must not all come back in the same second.
    pub(super) fn backoff_beyond(&mut self, told: Duration, nth: u32) -> Duration {
        let told = told.min(LONGEST_TOLD);
        self.jitter.between(told, told.mul_f64(1.1)) + self.backoff(nth)
    }

    /// Who comes back only after four intervals is taken for dead.
    fn longest_backoff(&self) -> Duration {
        match self.interval {
            Duration::ZERO => LONGEST_BACKOFF,
            known => (known * 2).clamp(FIRST_BACKOFF * 2, LONGEST_BACKOFF),
        }
    }

    fn failed_until(&mut self, at: BootInstant) {
        self.in_flight = false;
        self.next_at = Some(at);
    }

    fn at_the_latest(&mut self, at: BootInstant) {
        self.next_at = Some(self.next_at.map_or(at, |next_at| next_at.min(at)));
    }
}

/// Randomness from a seed (splitmix64), so that the same inputs give the same effects.
#[derive(Debug)]
struct Jitter {
    state: u64,
}

impl Jitter {
    /// Up to a tenth more or less.
    fn around(&mut self, duration: Duration) -> Duration {
        self.between(duration.mul_f64(0.9), duration.mul_f64(1.1))
    }

    fn backoff(&mut self, nth: u32, longest: Duration) -> Duration {
        let doublings = nth.saturating_sub(1).min(16);
        let whole = FIRST_BACKOFF.saturating_mul(1 << doublings).min(longest);
        self.between(whole / 2, whole)
    }

    fn between(&mut self, low: Duration, high: Duration) -> Duration {
        // 53 bits fill a float exactly.
        let part = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        low + high.saturating_sub(low).mul_f64(part)
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest_pause_s(interval: Duration) -> u64 {
        let now = BootInstant::from_boot_ms(1_000);
        let mut contact = Contact { interval, ..Contact::starting(7, now) };
        let mut longest = Duration::ZERO;
        for _ in 0..40 {
            contact.failed(now);
            longest = longest.max(contact.next_at().unwrap().since(now));
        }
        longest.as_secs_f64().ceil() as u64
    }

    #[test]
    fn in_an_outage_an_agent_asks_often_enough_not_to_be_silent_when_it_is_over() {
        assert_eq!(longest_pause_s(Duration::ZERO), 30);
        assert_eq!(longest_pause_s(Duration::from_millis(100)), 1);
        assert_eq!(longest_pause_s(Duration::from_secs(1)), 2);
        assert_eq!(longest_pause_s(Duration::from_secs(15)), 30);
        assert_eq!(longest_pause_s(Duration::from_secs(600)), 30);
    }
}
