//! A notice that a runner is idle: whether it is still true, and whether the runner may be taken by it now. Whom it suits is not decided here.

use crate::ids::Epoch;
use crate::pool::Limits;
use crate::runner::{Look, Runner, RunnerState, look};
use crate::time::Timestamp;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Announced {
    Takeable,
    /// True all the same: refresh decides what becomes of the runner, and it may stay.
    NotNow(String),
    /// It says nothing true any more.
    Stale,
}

/// A notice of this epoch, beside the record as it is now.
pub fn announced(runner: &Runner, epoch: Epoch, limits: &Limits, now: Timestamp) -> Announced {
    if runner.state != RunnerState::Idle || runner.epoch != epoch || runner.draining {
        return Announced::Stale;
    }
    // Since when refresh itself has been at work matters to whom it ends, not to whom it passes over.
    if look(runner, limits, Timestamp::from_millis(0), now) == Some(Look::Silent) {
        return Announced::NotNow(format!("{} has not been heard from lately", runner.id));
    }
    if runner.threshold.is_some_and(|threshold| threshold.passed(now)) {
        return Announced::NotNow(format!("the time of {} is over", runner.id));
    }
    Announced::Takeable
}

/// An idle runner is announced again so long after its last announcement.
const AGAIN: Duration = Duration::from_secs(300);

/// Whether a queue should be told now that this runner is idle: it never was, only in an earlier idleness, or so long ago that the notice may be lost.
pub fn is_to_be_announced(runner: &Runner, now: Timestamp) -> bool {
    let known = runner.announced_at.filter(|at| *at >= runner.entered_at);
    runner.state == RunnerState::Idle && known.is_none_or(|at| now.since(at) >= AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::launching::samples::runner;
    use crate::time::Threshold;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn idle() -> Runner {
        Runner {
            state: RunnerState::Idle,
            threshold: Some(Threshold::in_(Duration::from_secs(300), NOW)),
            seen_at: Some(NOW),
            ..runner(0, 1, true)
        }
    }

    fn now(runner: &Runner) -> Announced {
        announced(runner, Epoch::FIRST, &Limits::default(), NOW)
    }

    #[test]
    fn a_notice_is_stale_once_its_runner_moved_on() {
        assert_eq!(now(&idle()), Announced::Takeable);
        for moved in [
            Runner { epoch: Epoch::FIRST.next(), ..idle() },
            Runner { draining: true, ..idle() },
            Runner { state: RunnerState::Terminating { why: "over".to_owned(), told: 0 }, ..idle() },
        ] {
            assert_eq!(now(&moved), Announced::Stale, "{:?}", moved.state);
        }
    }

    #[test]
    fn a_silent_runner_and_one_whose_time_is_over_are_passed_over_and_stay_announced() {
        let silent = Runner { seen_at: Some(Timestamp::from_millis(0)), ..idle() };
        assert!(matches!(now(&silent), Announced::NotNow(why) if why.contains("heard")));
        let late = Runner { threshold: Some(Threshold(Timestamp::from_millis(1))), ..idle() };
        assert!(matches!(now(&late), Announced::NotNow(why) if why.contains("time")));
    }

    #[test]
    fn inv_10_an_idle_runner_is_announced_until_a_queue_was_told_lately() {
        let told = |at| Runner { announced_at: at, entered_at: NOW, ..idle() };
        let later = NOW.after(AGAIN);
        for (runner, at, expected) in [
            (told(None), NOW, true),
            (told(Some(NOW)), NOW, false),
            (told(Some(Timestamp::from_millis(1))), NOW, true),
            (told(Some(NOW)), later, true),
            (
                Runner { state: RunnerState::Quarantined { why: "broken".to_owned() }, ..told(None) },
                NOW,
                false,
            ),
        ] {
            assert_eq!(is_to_be_announced(&runner, at), expected, "{runner:?}");
        }
    }
}
