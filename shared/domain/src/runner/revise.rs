//! What an operator says anew of a machine: its own commands, what its CI system knows it by, its hardware. Neither its state nor its life changes.

use super::{OwnCommands, Runner, RunnerState};
use crate::spec::Offer;
use crate::text::steers;

/// How many characters a machine's own command may have.
pub const LONGEST_COMMAND: usize = 4_096;
/// What a machine's own command must look like, for the API's document.
pub const COMMAND_PATTERN: &str = r"^[^\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]+$";

/// Whether a shell can be given this text, and a person can be shown it. A script may have lines and tabs.
pub fn is_command(text: &str) -> bool {
    let fits = |character| matches!(character, '\n' | '\t') || !steers(character);
    (1..=LONGEST_COMMAND).contains(&text.chars().count()) && text.chars().all(fits)
}

/// What is to become of each of them: `Some(None)` removes it, `None` leaves it as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Revision {
    pub cleanup: Option<Option<String>>,
    pub reset: Option<Option<String>>,
    pub readiness: Option<Option<String>>,
    pub ci_runner: Option<Option<String>>,
    /// As it is to be, if that changes.
    pub offer: Option<Offer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revised {
    Changed(Box<Runner>),
    /// It is so already.
    Same,
    /// A job runs on it, whose end its CI system will tell under the name that it has.
    JobRuns,
    Over,
}

/// The runner as an operator wants it. A command that is out already is not called back: what it proves, it proves, and the next one is the new one.
pub fn revise(runner: &Runner, revision: &Revision) -> Revised {
    match &runner.state {
        RunnerState::Terminating { .. } | RunnerState::Terminated { .. } => return Revised::Over,
        RunnerState::Created { .. }
        | RunnerState::Resetting { .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Releasing { .. }
        | RunnerState::Quarantined { .. } => {}
    }
    let Revision { cleanup, reset, readiness, ci_runner, offer } = revision;
    let OwnCommands { cleanup: old_cleanup, reset: old_reset, readiness: old_readiness } =
        runner.commands.clone();
    let mut after = Runner {
        commands: OwnCommands {
            cleanup: cleanup.clone().unwrap_or(old_cleanup),
            reset: reset.clone().unwrap_or(old_reset),
            readiness: readiness.clone().unwrap_or(old_readiness),
        },
        ci_runner: ci_runner.clone().unwrap_or_else(|| runner.ci_runner.clone()),
        offer: offer.clone().unwrap_or_else(|| runner.offer.clone()),
        ..runner.clone()
    };
    if after == *runner {
        return Revised::Same;
    }
    if after.ci_runner != runner.ci_runner {
        match &runner.state {
            RunnerState::Running { .. } => return Revised::JobRuns,
            // Under its new name its CI system was never told to bring it no jobs: it is told before anything is done to it.
            RunnerState::Releasing { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Quarantined { .. } => {
                after.paused_at = None;
            }
            RunnerState::Created { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => {}
        }
    }
    after.rev += 1;
    Revised::Changed(Box::new(after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ClaimId;
    use crate::runner::launching::samples::runner;
    use crate::runner::{Hold, Holder};
    use crate::time::Timestamp;
    use std::time::Duration;

    fn set(text: &str) -> Option<Option<String>> {
        Some(Some(text.to_owned()))
    }

    fn changed(runner: &Runner, revision: &Revision) -> Runner {
        match revise(runner, revision) {
            Revised::Changed(after) => *after,
            other @ (Revised::Same | Revised::JobRuns | Revised::Over) => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_named_is_changed_and_the_rest_stays() {
        let before = Runner { state: RunnerState::Idle, ..runner(0, 1, true) };
        let revision = Revision { cleanup: set("clean"), ci_runner: set("42"), ..Revision::default() };
        let after = changed(&before, &revision);
        assert_eq!(after.commands.cleanup.as_deref(), Some("clean"));
        assert_eq!((after.ci_runner.as_deref(), after.rev), (Some("42"), before.rev + 1));
        assert_eq!((&after.state, after.epoch, &after.offer), (&before.state, before.epoch, &before.offer));
        assert_eq!(revise(&after, &revision), Revised::Same, "again is harmless");
        assert_eq!(revise(&after, &Revision::default()), Revised::Same);
        let removed = changed(&after, &Revision { cleanup: Some(None), ..Revision::default() });
        assert_eq!((removed.commands.cleanup, removed.ci_runner.as_deref()), (None, Some("42")));
    }

    #[test]
    fn under_another_name_its_ci_system_is_told_again_to_bring_it_no_jobs() {
        let why = "used".to_owned();
        let not_before = Timestamp::default();
        let paused = Runner { paused_at: Some(not_before), ..runner(0, 1, true) };
        let renamed = Revision { ci_runner: set("43"), ..Revision::default() };
        let hold = Hold {
            holder: Holder::Claim(ClaimId::parse("c-1").unwrap()),
            warm: true,
            max_runtime: Duration::ZERO,
        };
        for (state, stays_paused) in [
            (RunnerState::Idle, true),
            (RunnerState::Resetting { attempt: 1, not_before, why: why.clone(), step: None }, false),
            (RunnerState::Releasing { hold: hold.clone() }, false),
            (RunnerState::Quarantined { why: why.clone() }, false),
        ] {
            let before = Runner { state, ..paused.clone() };
            assert_eq!(changed(&before, &renamed).paused_at.is_some(), stays_paused, "{:?}", before.state);
            let reset = Revision { reset: set("reset"), ..Revision::default() };
            assert!(changed(&before, &reset).paused_at.is_some(), "a command has no part in it");
        }
        let running = Runner { state: RunnerState::Running { hold, leaving: false }, ..paused.clone() };
        assert_eq!(revise(&running, &renamed), Revised::JobRuns);
        let over = Runner { state: RunnerState::Terminated { why }, ..paused };
        assert_eq!(revise(&over, &Revision::default()), Revised::Over);
    }

    #[test]
    fn refuse_13_a_command_is_a_script_and_steers_nothing() {
        for good in ["true", "a; b | c > d && $(e) `f` \"g\" 'h'", "set -e\n\tmake clean", "Zürich"] {
            assert!(is_command(good), "{good:?}");
        }
        for bad in ["", "a\0b", "a\rb", "\u{1b}[2J", "\u{202e}ab", "\u{7f}", &"a".repeat(LONGEST_COMMAND + 1)]
        {
            assert!(!is_command(bad), "{bad:?}");
        }
    }
}
