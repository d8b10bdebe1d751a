//! Stories of one runner: drawn from a fixed seed, told by `decide`. A story begins in any state, two claims want the runner, most
//! events are those that its state waits for, and time often stands just before or at its threshold. No property is asserted here.

mod reached;

pub(crate) use reached::{Reached, Taken};

use crate::samples::{NOW, credential, events_of, hook_rules, in_state, intent, on_its_way, rules};
use motorpool_domain::pool::Clean;
use motorpool_domain::runner::{
    Decision, Joining, Removal, Runner, RunnerEvent, RunnerState, StateName, decide, join,
};
use motorpool_domain::{Threshold, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use std::cell::RefCell;
use std::time::Duration;

const SEED: u64 = 20;
const STORIES: u32 = 10000;
const LONGEST: usize = 25;
/// How many events come after the end: all of them alike, so a few will do.
const AFTER_THE_END: usize = 3;

/// Tells every story to `property`, which asserts what must hold and notes the cases that it is about. All properties hear the same
/// stories. `about`: the cases that must have come up, each at least [`Reached::ENOUGH`] times.
pub(crate) fn in_every_story(about: &[&str], property: impl Fn(&[Step], &mut Reached)) {
    let config = Config {
        cases: STORIES,
        rng_seed: RngSeed::Fixed(SEED),
        failure_persistence: None,
        ..Config::default()
    };
    let reached = RefCell::new(Reached::default());
    let told = TestRunner::new(config).run(&story(), |story| {
        let steps = story.tell();
        property(&steps, &mut reached.borrow_mut());
        Ok(())
    });
    assert!(told.is_ok(), "{}", told.err().map(|error| error.to_string()).unwrap_or_default());
    reached.into_inner().must_have(about);
}

/// One event of a story, and what was decided.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The record that whoever brought the event had read: an earlier one, if it came late.
    pub(crate) read: Runner,
    pub(crate) before: Runner,
    /// By the words of the state table.
    pub(crate) name: &'static str,
    pub(crate) event: RunnerEvent,
    pub(crate) now: Timestamp,
    /// In a pool whose CI system hands out work by itself.
    pub(crate) hook: bool,
    pub(crate) outcome: Outcome,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Decided(Decision),
    /// The record is not the one that was read, and the event is not meant for what was found in its place.
    Void,
}

impl Step {
    pub(crate) fn after(&self) -> Option<&Runner> {
        match &self.outcome {
            Outcome::Decided(Decision::Change(change)) => Some(&change.after),
            Outcome::Decided(Decision::Stay | Decision::Refuse(_)) | Outcome::Void => None,
        }
    }

    /// The time of the state that the event found had passed.
    pub(crate) fn late(&self) -> bool {
        self.before.threshold.is_some_and(|threshold| threshold.passed(self.now))
    }
}

#[derive(Debug, Clone)]
struct Story {
    start: Start,
    kept: bool,
    clean: Clean,
    /// In a pool whose CI system hands out work by itself; all machines there are kept.
    hook: bool,
    moves: Vec<Move>,
}

#[derive(Debug, Clone, Copy)]
enum Start {
    /// A launch intent of the pool, for nobody yet.
    Intent,
    /// The same, and the provider has taken the launch.
    OnItsWay,
    In(StateName),
}

#[derive(Debug, Clone)]
struct Move {
    gap: Gap,
    claim: &'static str,
    /// Which event, among those of the moment by their weights.
    pick: u32,
    /// How many records ago whoever brings the event has read.
    lag: usize,
}

/// How far the clock goes on before an event.
#[derive(Debug, Clone, Copy)]
enum Gap {
    Millis(u64),
    /// To the last instant before the threshold.
    Last,
    /// To the threshold.
    Over,
}

fn story() -> impl Strategy<Value = Story> {
    // A launch has the most to go wrong before it is a runner like any other.
    let launches = [Start::Intent, Start::OnItsWay, Start::OnItsWay, Start::In(StateName::Created)];
    let start = prop::sample::select([&launches[..], &StateName::ALL.map(Start::In)].concat());
    let clean = prop_oneof![Just(Clean::Replace), Just(Clean::Cleanup), Just(Clean::Keep)];
    let hook = prop::bool::weighted(0.3);
    (start, any::<bool>(), clean, hook, prop::collection::vec(one_move(), 1..LONGEST))
        .prop_map(|(start, kept, clean, hook, moves)| Story { start, kept: kept || hook, clean, hook, moves })
}

fn one_move() -> impl Strategy<Value = Move> {
    let gap = prop_oneof![
        24 => (0u64..3_000).prop_map(Gap::Millis),
        2 => (0u64..400_000).prop_map(Gap::Millis),
        1 => Just(Gap::Last),
        1 => Just(Gap::Over),
    ];
    let lag = prop_oneof![5 => Just(0usize), 1 => 1usize..4];
    (gap, prop::sample::select(vec!["a", "b"]), any::<u32>(), lag).prop_map(|(gap, claim, pick, lag)| Move {
        gap,
        claim,
        pick,
        lag,
    })
}

impl Story {
    fn tell(&self) -> Vec<Step> {
        let Self { start, kept, clean, hook, moves } = self;
        let rules = if *hook { hook_rules(*clean) } else { rules(*clean) };
        let mut records = vec![match start {
            Start::Intent => intent(*kept),
            Start::OnItsWay => on_its_way(*kept),
            Start::In(state) => in_state(*state, *kept),
        }];
        let mut now = NOW;
        let mut steps = Vec::new();
        for Move { gap, claim, pick, lag } in moves {
            let Some(found) = records.last() else { break };
            now = gap.after(now, found);
            let (name, event) = choose(found, events_of(claim, now), now, *pick);
            if tells_of_its_agent(&event)
                && let Joining::Joins(joined) = join(found, &credential(), "b-1", str::eq, now)
            {
                records.push(*joined);
            }
            let read = records.get(records.len().saturating_sub(1 + lag)).or(records.first());
            let (Some(before), Some(read)) = (records.last().cloned(), read.cloned()) else { break };
            if tells_of_its_agent(&event) && before.credential.is_none() {
                continue;
            }
            let meant = read == before || event.is_meant_for(&before, &read);
            let outcome = match meant {
                true => Outcome::Decided(decide(&before, &event, &rules, now)),
                false => Outcome::Void,
            };
            let step = Step { read, before, name, event, now, hook: *hook, outcome };
            records.extend(step.after().cloned());
            steps.push(step);
            let ended = |step: &&Step| step.before.state.name() == StateName::Terminated;
            if steps.iter().rev().take_while(ended).count() == AFTER_THE_END {
                break;
            }
        }
        steps
    }
}

impl Gap {
    fn after(self, now: Timestamp, runner: &Runner) -> Timestamp {
        let end = runner.threshold.map(|Threshold(end)| end);
        match self {
            Self::Millis(millis) => now.after(Duration::from_millis(millis)),
            Self::Last => {
                end.map_or(now, |end| now.max(Timestamp::from_millis(end.as_millis().saturating_sub(1))))
            }
            Self::Over => end.map_or(now, |end| now.max(end)),
        }
    }
}

fn choose(
    runner: &Runner,
    events: Vec<(&'static str, RunnerEvent)>,
    now: Timestamp,
    pick: u32,
) -> (&'static str, RunnerEvent) {
    let late = runner.threshold.is_some_and(|threshold| threshold.passed(now));
    let weights: Vec<u32> = events.iter().map(|(_, event)| weight(runner, late, event)).collect();
    let mut left = pick % weights.iter().sum::<u32>();
    let which = weights.iter().position(|weight| match left.checked_sub(*weight) {
        Some(rest) => {
            left = rest;
            false
        }
        None => true,
    });
    events.into_iter().nth(which.unwrap_or(0)).unwrap_or(("machine gone", RunnerEvent::ProviderGone))
}

/// What a runner waits for comes often; everything else seldom.
fn weight(runner: &Runner, late: bool, event: &RunnerEvent) -> u32 {
    use RunnerEvent as E;
    let awaited = match &runner.state {
        RunnerState::Created { launched_at: None, .. } => matches!(event, E::Launched { .. }),
        RunnerState::Created { hold: None, .. } | RunnerState::Idle => {
            matches!(event, E::Taken { .. } | E::CheckpointCreated { hold: Some(_), .. })
        }
        RunnerState::Created { hold: Some(_), .. } | RunnerState::Running { .. } => {
            matches!(event, E::Release { .. })
        }
        RunnerState::Resetting { .. } => matches!(event, E::CleanProven { .. }),
        RunnerState::Claimed { .. } => matches!(event, E::Registered { .. }),
        RunnerState::Releasing { .. } => matches!(event, E::Deregistered),
        RunnerState::Quarantined { .. } => matches!(event, E::OperatorRelease),
        RunnerState::Terminating { .. } | RunnerState::Terminated { .. } => false,
    };
    let now_and_then = matches!(
        event,
        E::Attempted { .. }
            | E::LaunchFailed { .. }
            | E::Unhealthy { .. }
            | E::TimeBegins { .. }
            | E::NewBoot { .. }
            | E::TokenMisused
            | E::OperatorRemove { removal: Removal::Drain }
    );
    let is_paused = runner.paused_at.is_some();
    let to_and_from_ci = (*event == E::Paused && !is_paused) || (*event == E::Unpaused && is_paused);
    if awaited || to_and_from_ci || (late && matches!(event, E::ThresholdPassed { .. })) {
        12
    } else if matches!(event, E::Ready { .. }) {
        5
    } else if matches!(event, E::RegistrationIssued { .. } | E::ProgramSeen { .. }) {
        3
    } else if now_and_then {
        2
    } else {
        1
    }
}

/// Events that only an agent brings: by then it has joined.
fn tells_of_its_agent(event: &RunnerEvent) -> bool {
    use RunnerEvent as E;
    match event {
        E::Ready { .. }
        | E::Registered { .. }
        | E::Unhealthy { .. }
        | E::Deregistered
        | E::CleanProven { .. }
        | E::CleanFailed { .. }
        | E::NewBoot { .. }
        | E::RegistrationIssued { .. }
        | E::ProgramSeen { .. }
        | E::TokenChanged { .. } => true,
        E::Launched { .. }
        | E::Attempted { .. }
        | E::LaunchFailed { .. }
        | E::Taken { .. }
        | E::CheckpointCreated { .. }
        | E::CleanIssued { .. }
        | E::Paused
        | E::Unpaused
        | E::TimeBegins { .. }
        | E::Release { .. }
        | E::Silent { .. }
        | E::InterruptionNotice { .. }
        | E::TokenMisused
        | E::ThresholdPassed { .. }
        | E::ProviderGone
        | E::OperatorRelease
        | E::OperatorRemove { .. } => false,
    }
}
