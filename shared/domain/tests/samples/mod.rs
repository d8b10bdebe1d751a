//! One runner in each state, and one of each event, for tests that walk them all.
#![allow(dead_code, reason = "each test uses its own part")]
#![expect(clippy::unwrap_used, reason = "the samples are constants; a wrong one fails the test")]

use motorpool_domain::ci::{CiSystem, Registration};
use motorpool_domain::claim::{Ask, Claim, ClaimKey};
use motorpool_domain::ladder::{Attempt, Rung};
use motorpool_domain::pool::{BackendKind, Clean, Commands, Dispatch, Limits, Rules};
use motorpool_domain::runner::{
    Hold, NewRunner, Notice, Presence, ProofKind, Removal, Runner, RunnerEvent, RunnerState, StateName,
};
use motorpool_domain::spec::{Offer, Spec, Usage, Want};
use motorpool_domain::{ClaimId, Epoch, LaunchId, Owner, PoolName, RunnerId, Threshold, Timestamp, Workflow};
use std::time::Duration;

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_000_000_000);

pub(crate) fn claim_id(name: &str) -> ClaimId {
    ClaimId::parse(format!("c-{name}")).unwrap()
}

pub(crate) fn rules(clean: Clean) -> Rules {
    Rules {
        backend: BackendKind::Local,
        dispatch: Dispatch::Claim,
        clean,
        max: 10,
        min_idle: 0,
        limits: Limits::default(),
        offer: offer(),
        commands: Commands::default(),
        ec2: None,
        ci: None,
    }
}

pub(crate) fn offer() -> Offer {
    Offer {
        instance_type: "local".to_owned(),
        usage: Usage::OnDemand,
        spec: Spec { cpu: 2, memory_mb: 2048 },
    }
}

pub(crate) fn hold() -> Hold {
    Hold { claim: claim_id("a"), warm: true, max_runtime: Duration::from_secs(1800) }
}

pub(crate) fn intent(kept: bool) -> Runner {
    let new = NewRunner {
        id: RunnerId::parse("r-1").unwrap(),
        pool: PoolName::parse("small").unwrap(),
        launch: LaunchId::parse("l-1").unwrap(),
        index: 0,
        offer: offer(),
        kept,
        hold: None,
        epoch: Epoch(3),
        threshold: Threshold(NOW.after(Duration::from_secs(60))),
        attempt: Some(attempt(1)),
    };
    Runner::intent(new, NOW)
}

pub(crate) fn attempt(number: u32) -> Attempt {
    Attempt { number, ..Attempt::first(1, Rung::only(offer()), None) }
}

pub(crate) fn in_state(name: StateName, kept: bool) -> Runner {
    let mut runner = intent(kept);
    let why = "a reason".to_owned();
    runner.state = match name {
        StateName::Created => {
            RunnerState::Created { hold: Some(hold()), launched_at: Some(NOW), attempt: Some(attempt(1)) }
        }
        StateName::Resetting => RunnerState::Resetting { attempt: 1, not_before: NOW, why },
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
    runner
}

/// Every event, by the words of the table in ARCHITECTURE.md.
pub(crate) fn events() -> Vec<(&'static str, RunnerEvent)> {
    let why = || "a reason".to_owned();
    let until = Threshold(NOW.after(Duration::from_secs(3600)));
    vec![
        ("launched", RunnerEvent::Launched { provider_id: "i-1".to_owned() }),
        ("another attempt", RunnerEvent::Attempted { attempt: attempt(2) }),
        ("launch failed", RunnerEvent::LaunchFailed { why: why() }),
        ("ready", RunnerEvent::Ready { until: None }),
        ("taken by a claim", RunnerEvent::Taken { hold: hold() }),
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
            },
        ),
        ("runner program seen", RunnerEvent::ProgramSeen { version: "2.330.0".to_owned() }),
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
