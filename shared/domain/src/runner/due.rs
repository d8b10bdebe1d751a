//! What a runner that refresh finds due is due for, and whom the brake spares.

use super::{Look, Presence, Runner, StateName, look};
use crate::pool::Limits;
use crate::time::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DueFor {
    /// With what there is to see, if it stays beyond its threshold.
    Threshold(Option<Look>),
    Look(Look),
    /// It has changed since the index was read.
    Nothing,
}

pub fn due_for(runner: &Runner, limits: &Limits, listening_since: Timestamp, now: Timestamp) -> DueFor {
    let seen = look(runner, limits, listening_since, now);
    if runner.threshold.is_some_and(|threshold| threshold.passed(now)) {
        return DueFor::Threshold(seen);
    }
    seen.map_or(DueFor::Nothing, DueFor::Look)
}

/// Only an idle runner is reaped for its silence alone, and so only for one the brake is asked.
pub fn is_silent_while_idle(runner: &Runner, due_for: DueFor) -> bool {
    let silent = matches!(due_for, DueFor::Look(Look::Silent) | DueFor::Threshold(Some(Look::Silent)));
    silent && runner.state.name() == StateName::Idle
}

/// While most are silent at once nobody is ended for silence; that a machine is gone is certain all the same.
pub fn outlives_silence(presence: Presence, braked: bool) -> bool {
    match presence {
        Presence::Gone => false,
        Presence::There | Presence::Unknown => braked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::RunnerState;
    use crate::runner::launching::samples::runner;
    use crate::time::Threshold;

    #[test]
    fn a_runner_is_due_for_its_threshold_before_anything_else() {
        let (limits, start) = (Limits::default(), Timestamp::from_millis(0));
        let late = start.after(limits.silence());
        let idle =
            Runner { state: RunnerState::Idle, threshold: Some(Threshold(late)), ..runner(0, 1, true) };
        assert_eq!(due_for(&idle, &limits, start, start), DueFor::Look(Look::Heard));
        let silent = due_for(&idle, &limits, start, late);
        assert_eq!(silent, DueFor::Threshold(Some(Look::Silent)));
        assert!(is_silent_while_idle(&idle, silent));
        let gone =
            Runner { state: RunnerState::Terminated { why: "over".to_owned() }, threshold: None, ..idle };
        assert_eq!(due_for(&gone, &limits, start, late), DueFor::Nothing);
        assert!(!is_silent_while_idle(&gone, silent));
    }

    #[test]
    fn fault_20_the_brake_spares_whoever_may_be_there() {
        for presence in [Presence::There, Presence::Unknown] {
            assert!(outlives_silence(presence, true) && !outlives_silence(presence, false));
        }
        assert!(!outlives_silence(Presence::Gone, true));
    }
}
