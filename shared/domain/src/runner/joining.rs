//! How an agent joins as a runner, and how a runner's secret is renewed. Neither moves the runner to another state.

use crate::ids::LaunchId;
use crate::pool::BackendKind;
use crate::runner::{Credential, Runner, RunnerState};
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Joining {
    Joins(Box<Runner>),
    /// The same agent joined before; its answer was lost.
    Joined,
    /// Another agent was first.
    UsedUp,
    /// The runner's place is given up.
    Over,
}

/// What becomes of `runner` when an agent comes with its secret and would prove itself by `credential` from now on.
/// `same` compares hashes in constant time.
pub fn join(
    runner: &Runner,
    credential: &Credential,
    boot_id: &str,
    same: fn(&str, &str) -> bool,
    now: Timestamp,
) -> Joining {
    match &runner.credential {
        Some(known) if same(&known.token_sha256, &credential.token_sha256) => return Joining::Joined,
        Some(_) => return Joining::UsedUp,
        None => {}
    }
    let late = runner.threshold.is_some_and(|threshold| threshold.passed(now));
    match &runner.state {
        RunnerState::Terminating { .. } | RunnerState::Terminated { .. } => return Joining::Over,
        RunnerState::Created { .. } if late => return Joining::Over,
        RunnerState::Created { .. }
        | RunnerState::Resetting { .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Releasing { .. }
        | RunnerState::Quarantined { .. } => {}
    }
    Joining::Joins(Box::new(Runner {
        rev: runner.rev + 1,
        credential: Some(credential.clone()),
        // A known one stays: that the machine started anew meanwhile is for its next sync to tell.
        boot_id: runner.boot_id.clone().or_else(|| Some(boot_id.to_owned())),
        ..runner.clone()
    }))
}

/// Whether the machine that an agent comes from is the runner's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    Own,
    /// The launch's own answer is on its way, or was lost: whether this machine came of it, its provider is to be asked.
    NotNoted,
    Other,
}

/// What a provider itself says of a machine that claims to be a runner's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attested {
    /// It was made by the runner's launch, in the runner's place.
    Its,
    /// It is there, and is another's or nobody's.
    Another,
    /// It is not shown, or not yet.
    NotShown,
    /// There is nobody to ask: what a machine is, its secret alone tells.
    NobodyKnows,
}

/// Where all machines of a launch are told the same secret, only the machine that the record names may join by it.
pub fn identify(runner: &Runner, backend: BackendKind, machine_id: &str) -> Identity {
    match &runner.provider_id {
        _ if !backend.launches_alike() => Identity::Own,
        Some(known) if known == machine_id => Identity::Own,
        Some(_) => Identity::Other,
        None => Identity::NotNoted,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewal {
    Renewed(Box<Runner>),
    /// Its launch is known by the secret that it has.
    BeingLaunched,
    Over,
}

/// A secret belongs to its launch: under a new one the old is worth nothing, and neither is its agent's token.
pub fn renew_secret(runner: &Runner, launch: LaunchId) -> Renewal {
    match &runner.state {
        RunnerState::Terminated { .. } => Renewal::Over,
        RunnerState::Created { launched_at: None, .. } => Renewal::BeingLaunched,
        RunnerState::Created { .. }
        | RunnerState::Resetting { .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Releasing { .. }
        | RunnerState::Quarantined { .. }
        | RunnerState::Terminating { .. } => Renewal::Renewed(Box::new(Runner {
            rev: runner.rev + 1,
            launch,
            credential: None,
            handed_out: None,
            ..runner.clone()
        })),
    }
}

/// A fixed token is its runner's until an operator gives it another: the old one is worth nothing from then on, and no agent need come.
pub fn renew_token(runner: &Runner, token_sha256: String) -> Renewal {
    match renew_secret(runner, runner.launch.clone()) {
        Renewal::Renewed(renewed) => Renewal::Renewed(Box::new(Runner {
            credential: Some(Credential::fixed(&runner.id, token_sha256)),
            ..*renewed
        })),
        refused @ (Renewal::BeingLaunched | Renewal::Over) => refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::launching::samples::runner;
    use crate::time::Threshold;

    fn credential(token: &str) -> Credential {
        Credential { token_sha256: token.to_owned(), machine_id: "i-1".to_owned(), named: None, fixed: false }
    }

    const NOW: Timestamp = Timestamp::from_millis(0);

    fn joined(runner: &Runner, token: &str) -> Runner {
        let Joining::Joins(after) = join(runner, &credential(token), "boot-1", str::eq, NOW) else {
            panic!("{token} does not join")
        };
        *after
    }

    #[test]
    fn the_first_agent_joins_and_the_same_one_again_but_no_other() {
        let before = runner(0, 1, true);
        let after = joined(&before, "a");
        assert_eq!(after.credential, Some(credential("a")));
        assert_eq!((after.boot_id.as_deref(), after.rev), (Some("boot-1"), before.rev + 1));
        assert_eq!(
            (&after.state, after.threshold, after.epoch),
            (&before.state, before.threshold, before.epoch)
        );
        assert_eq!(join(&after, &credential("a"), "boot-1", str::eq, NOW), Joining::Joined);
        assert_eq!(join(&after, &credential("b"), "boot-1", str::eq, NOW), Joining::UsedUp);
    }

    #[test]
    fn refuse_23_another_machine_than_the_one_on_record_is_not_the_runner() {
        let noted = |id: Option<&str>| Runner { provider_id: id.map(str::to_owned), ..runner(0, 1, true) };
        for (known, backend, expected) in [
            (Some("i-1"), BackendKind::Ec2, Identity::Own),
            (Some("i-2"), BackendKind::Ec2, Identity::Other),
            (None, BackendKind::Ec2, Identity::NotNoted),
            (Some("local:a:r-1"), BackendKind::Local, Identity::Own),
        ] {
            assert_eq!(identify(&noted(known), backend, "i-1"), expected, "{known:?} {backend:?}");
        }
    }

    #[test]
    fn nobody_joins_what_is_over_or_came_too_late() {
        let over =
            |runner: &Runner, now| join(runner, &credential("a"), "boot-1", str::eq, now) == Joining::Over;
        let new = runner(0, 1, true);
        assert!(over(&new, Timestamp::from_millis(2)), "its time to join is over");
        let why = "over".to_owned();
        for state in [RunnerState::Terminating { why: why.clone(), told: 1 }, RunnerState::Terminated { why }]
        {
            assert!(over(&Runner { state, ..new.clone() }, NOW));
        }
        let idle = Runner { state: RunnerState::Idle, threshold: Some(Threshold(NOW)), ..new };
        assert!(!over(&idle, Timestamp::from_millis(2)), "whether it stays is for refresh to decide");
    }

    #[test]
    fn a_boot_that_is_known_stays_until_the_agent_tells_of_another() {
        let known = Runner { boot_id: Some("boot-0".to_owned()), ..runner(0, 1, true) };
        assert_eq!(joined(&known, "a").boot_id.as_deref(), Some("boot-0"));
    }

    #[test]
    fn a_renewed_secret_shuts_the_old_agent_out() {
        let launch = || LaunchId::parse("l-new").unwrap();
        let old = joined(&runner(0, 1, true), "a");
        let Renewal::Renewed(renewed) = renew_secret(&old, launch()) else { panic!("it is not renewed") };
        assert_eq!((&renewed.launch, &renewed.credential, renewed.rev), (&launch(), &None, old.rev + 1));
        assert_eq!(joined(&renewed, "b").credential, Some(credential("b")));
        assert_eq!(renew_secret(&runner(0, 1, false), launch()), Renewal::BeingLaunched);
        let over = Runner { state: RunnerState::Terminated { why: "over".to_owned() }, ..old };
        assert_eq!(renew_secret(&over, launch()), Renewal::Over);
    }

    #[test]
    fn a_fixed_token_is_renewed_at_once() {
        let before = runner(0, 1, true);
        let old = Runner { credential: Some(Credential::fixed(&before.id, "a".to_owned())), ..before };
        let Renewal::Renewed(renewed) = renew_token(&old, "b".to_owned()) else {
            panic!("it is not renewed")
        };
        assert_eq!(renewed.credential, Some(Credential::fixed(&old.id, "b".to_owned())));
        assert_eq!((renewed.rev, &renewed.state), (old.rev + 1, &old.state));
        assert_eq!(
            join(&old, &credential("c"), "boot-1", str::eq, NOW),
            Joining::UsedUp,
            "no agent joins it"
        );
        let over = Runner { state: RunnerState::Terminated { why: "over".to_owned() }, ..old };
        assert_eq!(renew_token(&over, "b".to_owned()), Renewal::Over);
    }
}
