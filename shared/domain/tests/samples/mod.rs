//! One runner in each state, and one of each event, for tests that walk them all.
#![allow(dead_code, reason = "each test uses its own part")]
#![expect(clippy::unwrap_used, reason = "the samples are constants; a wrong one fails the test")]

use motorpool_domain::ci::{CiBinding, CiSystem, Registration};
use motorpool_domain::claim::{Ask, Claim, ClaimKey};
use motorpool_domain::ladder::{CapacityOption, LaunchCall};
use motorpool_domain::pool::{BackendKind, Clean, Dispatch, Rules};
use motorpool_domain::runner::{
    CleanProof, CleanStep, Credential, HandedOut, Hold, Holder, NewRunner, NextToken, Notice, Presence,
    ProofKind, Removal, Runner, RunnerEvent, RunnerState, StateName,
};
use motorpool_domain::samples;
use motorpool_domain::spec::Want;
use motorpool_domain::{
    CheckpointName, ClaimId, Epoch, JobId, Owner, PoolName, Threshold, Timestamp, Workflow,
};
use std::time::Duration;

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_000_000_000);

pub(crate) fn claim_id(name: &str) -> ClaimId {
    ClaimId::parse(format!("c-{name}")).unwrap()
}

pub(crate) fn rules(clean: Clean) -> Rules {
    Rules { clean, ..samples::rules() }
}

/// The same where the CI system hands out work by itself.
pub(crate) fn hook_rules(clean: Clean) -> Rules {
    let ci = CiBinding {
        system: CiSystem::GitLab,
        scope: "instance".to_owned(),
        group_id: 1,
        labels: Vec::new(),
        minimum_version: None,
    };
    Rules { backend: BackendKind::BareMetal, dispatch: Dispatch::Hook, ci: Some(ci), ..rules(clean) }
}

/// Those of a pool in which the event happens.
pub(crate) fn rules_for(event: &RunnerEvent, clean: Clean) -> Rules {
    let begins = matches!(event, RunnerEvent::CheckpointCreated { hold: Some(_), .. });
    let is_of_hooks = begins || [RunnerEvent::Paused, RunnerEvent::Unpaused].contains(event);
    if is_of_hooks { hook_rules(clean) } else { rules(clean) }
}

pub(crate) fn checkpoint_name(word: &str) -> CheckpointName {
    CheckpointName::of(&JobId::parse(word).unwrap(), NOW, 7)
}

pub(crate) fn hold_of_job(job: &str) -> Hold {
    let holder = Holder::Checkpoint(checkpoint_name(job));
    Hold { holder, warm: true, max_runtime: Duration::from_secs(1800) }
}

pub(crate) fn hold() -> Hold {
    hold_of("a")
}

pub(crate) fn hold_of(claim: &str) -> Hold {
    Hold { holder: Holder::Claim(claim_id(claim)), warm: true, max_runtime: Duration::from_secs(1800) }
}

pub(crate) fn intent(kept: bool) -> Runner {
    let new = NewRunner {
        kept,
        epoch: Epoch(3),
        threshold: Threshold(NOW.after(Duration::from_secs(60))),
        attempt: Some(attempt(1)),
        ..samples::new_runner("r-1", NOW)
    };
    Runner::intent(new, NOW)
}

/// A launched runner that nobody holds, and whose agent has not joined.
pub(crate) fn on_its_way(kept: bool) -> Runner {
    let state = RunnerState::Created { hold: None, launched_at: Some(NOW), attempt: Some(attempt(1)) };
    Runner { state, provider_id: Some("i-1".to_owned()), ..intent(kept) }
}

pub(crate) fn attempt(number: u32) -> LaunchCall {
    LaunchCall { number, ..LaunchCall::first(1, CapacityOption::only(samples::offer()), None) }
}

/// A runner in this state, held by claim `a` where somebody holds it.
pub(crate) fn in_state(name: StateName, kept: bool) -> Runner {
    let mut runner = intent(kept);
    let why = "a reason".to_owned();
    runner.state = match name {
        StateName::Created => {
            RunnerState::Created { hold: Some(hold()), launched_at: Some(NOW), attempt: Some(attempt(1)) }
        }
        StateName::Resetting => RunnerState::Resetting { attempt: 1, not_before: NOW, why, step: None },
        StateName::Idle => RunnerState::Idle,
        StateName::Claimed => RunnerState::Claimed { hold: hold() },
        StateName::Running => RunnerState::Running { hold: hold(), leaving: false },
        StateName::Releasing => RunnerState::Releasing { hold: hold() },
        StateName::Quarantined => RunnerState::Quarantined { why },
        StateName::Terminating => RunnerState::Terminating { why, told: 1 },
        StateName::Terminated => RunnerState::Terminated { why },
    };
    if matches!(name, StateName::Quarantined | StateName::Terminated) {
        runner.threshold = None;
    }
    if name != StateName::Created {
        (runner.credential, runner.boot_id) = (Some(credential()), Some("b-1".to_owned()));
    }
    if matches!(name, StateName::Idle | StateName::Claimed | StateName::Running | StateName::Releasing) {
        runner.proof = Some(CleanProof { how: ProofKind::Cleanup, at: NOW, task: None });
    }
    runner
}

/// What the agent of a sample runner proves itself by.
pub(crate) fn credential() -> Credential {
    Credential { token_sha256: "a hash".to_owned(), machine_id: "m-1".to_owned(), named: None, fixed: false }
}

/// The same, as the event can find it: a provider answers a launch only once.
pub(crate) fn in_state_for(event: &RunnerEvent, name: StateName, kept: bool) -> Runner {
    let mut runner = in_state(name, kept);
    if let (
        RunnerState::Created { launched_at, .. },
        RunnerEvent::Launched { .. } | RunnerEvent::Attempted { .. } | RunnerEvent::LaunchFailed { .. },
    ) = (&mut runner.state, event)
    {
        *launched_at = None;
    }
    if *event == RunnerEvent::Unpaused {
        runner.paused_at = Some(NOW);
    }
    runner
}

/// A moment at which the event can happen to a runner of [`in_state`].
pub(crate) fn moment_of(event: &RunnerEvent) -> Timestamp {
    let late = matches!(event, RunnerEvent::ThresholdPassed { .. });
    if late { NOW.after(Duration::from_secs(61)) } else { NOW }
}

/// Every event, by the words of the table in ARCHITECTURE.md.
pub(crate) fn events() -> Vec<(&'static str, RunnerEvent)> {
    events_of("a", NOW)
}

/// Every event as it is at `now`; where it is a claim's, of this claim. Claim `a` has more time for its runners than they get at first,
/// and every other claim has less.
pub(crate) fn events_of(claim: &str, now: Timestamp) -> Vec<(&'static str, RunnerEvent)> {
    let why = || "a reason".to_owned();
    let until = Threshold(now.after(Duration::from_secs(if claim == "a" { 3600 } else { 600 })));
    vec![
        ("launched", RunnerEvent::Launched { provider_id: "i-1".to_owned() }),
        ("another attempt", RunnerEvent::Attempted { attempt: attempt(2) }),
        ("launch failed", RunnerEvent::LaunchFailed { why: why() }),
        ("ready", RunnerEvent::Ready { until: None }),
        ("taken by a claim", RunnerEvent::Taken { hold: hold_of(claim) }),
        ("a job begins", RunnerEvent::CheckpointCreated { checkpoint: checkpoint_name(claim), hold: None }),
        (
            "a job of the CI system's begins",
            RunnerEvent::CheckpointCreated {
                checkpoint: checkpoint_name(claim),
                hold: Some(hold_of_job(claim)),
            },
        ),
        ("clean step settled", RunnerEvent::CleanIssued { step: CleanStep::Cleanup }),
        ("paused in CI", RunnerEvent::Paused),
        ("unpaused in CI", RunnerEvent::Unpaused),
        ("registered", RunnerEvent::Registered { until: None }),
        ("unhealthy", RunnerEvent::Unhealthy { why: why() }),
        ("its claim is ready", RunnerEvent::TimeBegins { until }),
        ("release", RunnerEvent::Release { why: why() }),
        ("deregistered", RunnerEvent::Deregistered),
        ("clean proven", RunnerEvent::CleanProven { how: ProofKind::Cleanup, task: None }),
        ("clean failed", RunnerEvent::CleanFailed { why: why() }),
        ("silent, machine there", RunnerEvent::Silent { presence: Presence::There }),
        ("silent, machine gone", RunnerEvent::Silent { presence: Presence::Gone }),
        ("silent, nobody knows", RunnerEvent::Silent { presence: Presence::Unknown }),
        ("new boot", RunnerEvent::NewBoot { boot_id: "b-2".to_owned() }),
        ("interruption notice", RunnerEvent::InterruptionNotice { notice: Notice::Interruption }),
        (
            "registration issued",
            RunnerEvent::RegistrationIssued {
                registration: Registration {
                    system: CiSystem::GitHub,
                    scope: "my-org".to_owned(),
                    name: "mp-1".to_owned(),
                    id: "1".to_owned(),
                },
                handed_out: HandedOut { count: 1, session: Some("a session".to_owned()) },
            },
        ),
        ("runner program seen", RunnerEvent::ProgramSeen { version: "2.330.0".to_owned() }),
        (
            "token changed",
            RunnerEvent::TokenChanged {
                from: credential().token_sha256,
                next: NextToken { token_sha256: "another".to_owned(), session: "a session".to_owned() },
            },
        ),
        ("replaced token misused", RunnerEvent::TokenMisused),
        ("threshold passed", RunnerEvent::ThresholdPassed { needed: false }),
        ("threshold passed, needed", RunnerEvent::ThresholdPassed { needed: true }),
        ("machine gone", RunnerEvent::ProviderGone),
        ("operator releases", RunnerEvent::OperatorRelease),
        ("operator removes", RunnerEvent::OperatorRemove { removal: Removal::IfFree }),
        ("operator drains", RunnerEvent::OperatorRemove { removal: Removal::Drain }),
        ("operator forces", RunnerEvent::OperatorRemove { removal: Removal::Force }),
    ]
}

pub(crate) fn claim(count: u32) -> Claim {
    let key = ClaimKey {
        owner: Owner::operator(),
        workflow: Workflow::parse("gh-1").unwrap(),
        pool: PoolName::parse("small").unwrap(),
    };
    let ask = Ask { count, want: Want::default(), max_runtime: Duration::from_secs(1800), idle_only: false };
    Claim::open(claim_id("a"), key, ask, Duration::from_secs(900), NOW)
}
