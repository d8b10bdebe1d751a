//! The simulator: real control planes and real agents in a world that owns clock, network, queue, provider and scheduling, all
//! drawn from one seed. The same seed gives the same trace, byte for byte. After every step the invariants of PROOF.md are
//! checked; a seed that breaks one is run again, and tells its story.

mod calls;
mod chance;
mod ci;
mod clocks;
mod faults;
mod gate;
mod ground;
mod host;
mod jobs;
mod ledger;
mod operator;
mod oracle;
mod people;
mod planes;
mod plot;
mod provider;
mod queue;
mod scale;
mod schedule;
mod story;
mod verdict;
mod weather;
mod workload;
mod world;
mod yard;

pub use faults::{Fault, Fired};
pub use verdict::Violation;

use calls::Kind;
use ledger::Engine;
use plot::{CrashAt, Plot};
use scale::Scale;
use story::Story;
use world::World;

#[derive(Debug)]
pub struct Run {
    pub seed: u64,
    pub events: u64,
    pub fired: Fired,
    pub violation: Option<Violation>,
    /// Empty, unless it was asked for.
    pub trace: String,
}

/// Where a control plane is to crash, in a world in which nothing else goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// At the nth call of provision, before it arrives or before its answer does.
    Provision(u64),
    /// At the nth call of refresh, after provision crashed with its launch under way.
    Refresh(u64),
    /// At the nth call of refresh, after provision crashed when its launch had been made and the answer was under way.
    RefreshAfterLaunch(u64),
}

/// Nothing, if there is no such call.
pub fn run_crashing(seed: u64, crash: Crash) -> Option<Run> {
    crashing(seed, crash, Story::default())
}

/// What led to the broken invariant.
pub fn story_of_crash(seed: u64, crash: Crash) -> String {
    let Some(run) = crashing(seed, crash, Story::listening()) else {
        return format!("seed {seed}, {crash:?}: no such call");
    };
    match &run.violation {
        Some(violation) => {
            format!("seed {seed}, {crash:?}: {}", story::short(violation, &run.trace, "the same test"))
        }
        None => format!("seed {seed}, {crash:?}: no invariant is broken"),
    }
}

fn crashing(seed: u64, crash: Crash, story: Story) -> Option<Run> {
    let all = |kind, nth| CrashAt { kind, at_launches_only: false, nth };
    let launch = |nth| CrashAt { kind: Kind::Provision, at_launches_only: true, nth };
    let crashes = match crash {
        Crash::Provision(nth) => vec![all(Kind::Provision, nth)],
        Crash::Refresh(nth) => vec![launch(1), all(Kind::Refresh, nth)],
        Crash::RefreshAfterLaunch(nth) => vec![launch(4), all(Kind::Refresh, nth)],
    };
    let mut world = World::new(seed, Engine::Memory, scale::SMALL, story, Plot::Crashes(crashes));
    world.run();
    world.has_crashed().then(|| told(seed, &world))
}

/// What sort of world a seed is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// Workflows claim runners, on a ledger in memory.
    Claims,
    /// Fewer of them, on the embedded ledger.
    Embedded,
    /// More is asked for than there is, by teams of different appetites.
    Crowded,
    /// CI systems hand out jobs by themselves.
    Jobs,
}

impl Setting {
    fn engine(self) -> Engine {
        match self {
            Self::Claims | Self::Crowded | Self::Jobs => Engine::Memory,
            Self::Embedded => Engine::Embedded,
        }
    }

    fn scale(self) -> Scale {
        match self {
            Self::Claims => scale::FULL,
            Self::Embedded => scale::SMALL,
            Self::Crowded => scale::CROWDED,
            Self::Jobs => scale::JOBS,
        }
    }

    /// What `cargo xtask soak` calls it.
    pub fn option(self) -> Option<&'static str> {
        match self {
            Self::Claims => None,
            Self::Embedded => Some("--embedded"),
            Self::Crowded => Some("--crowded"),
            Self::Jobs => Some("--jobs"),
        }
    }
}

/// Two simulated hours.
pub fn run(seed: u64, setting: Setting) -> Run {
    run_telling(seed, setting, Story::default())
}

/// The same, with its trace.
pub fn run_traced(seed: u64, setting: Setting) -> Run {
    run_telling(seed, setting, Story::listening())
}

/// What is to be read about a seed that failed: the broken invariant, what led to it, and how to see it again.
pub fn story_of(seed: u64, setting: Setting) -> String {
    let run = run_traced(seed, setting);
    let option = setting.option().map(|option| format!(" {option}")).unwrap_or_default();
    let replay = format!("cargo xtask soak --from {seed} --seeds 1{option}");
    match &run.violation {
        Some(violation) => format!("seed {seed}: {}", story::short(violation, &run.trace, &replay)),
        None => format!("seed {seed}: no invariant is broken\n"),
    }
}

/// Runs seeds one after the other up to the first that fails; returns what fired, and that seed's story.
pub fn run_all(seeds: impl IntoIterator<Item = u64>, setting: Setting) -> (Fired, Option<String>) {
    let mut fired = Fired::default();
    for seed in seeds {
        let run = run(seed, setting);
        fired.add(&run.fired);
        if run.violation.is_some() {
            return (fired, Some(story_of(seed, setting)));
        }
    }
    (fired, None)
}

fn run_telling(seed: u64, setting: Setting, story: Story) -> Run {
    let mut world = World::new(seed, setting.engine(), setting.scale(), story, Plot::Drawn);
    world.run();
    told(seed, &world)
}

fn told(seed: u64, world: &World) -> Run {
    let violation = world.ground.oracle().violation().cloned();
    Run {
        seed,
        events: world.events,
        fired: world.ground.all_fired(),
        violation,
        trace: world.ground.take_story().into_trace(),
    }
}
