//! What the simulated world stands on: clock, schedule, chance, story, counters. The port adapters and the main loop share it.
//! Each part has a lock of its own, held for a moment only and never two at once, but for the yard before the oracle.

use super::calls::Kind;
use super::chance::Chance;
use super::ci::{Forge, Registry};
use super::clocks::Clocks;
use super::faults::{Fault, Fired};
use super::gate::Gates;
use super::oracle::Oracle;
use super::schedule::{Event, Schedule, SimClock};
use super::story::Story;
use super::verdict::Violation;
use super::weather::{Weather, Wind};
use super::yard::Yard;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) clock: Arc<SimClock>,
    pub(crate) weather: Weather,
    pub(crate) clocks: Clocks,
    schedule: Mutex<Schedule>,
    gates: Mutex<Gates>,
    chance: Mutex<Chance>,
    story: Mutex<Story>,
    fired: Mutex<Fired>,
    yard: Mutex<Yard>,
    ci: Mutex<Registry>,
    forge: Mutex<Forge>,
    oracle: Mutex<Oracle>,
    acting: Mutex<Option<Acting>>,
}

/// The use case that is being polled, and on which control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acting {
    pub(crate) task: u64,
    pub(crate) plane: usize,
    pub(crate) kind: Kind,
    pub(crate) begun_at_ms: u64,
    /// How far that control plane's clock is ahead of the world's.
    pub(crate) ahead_ms: i64,
}

impl Ground {
    pub(crate) fn new(
        weather: Weather,
        clocks: Clocks,
        chance: Chance,
        story: Story,
        oracle: Oracle,
    ) -> Self {
        Self {
            clock: Arc::default(),
            weather,
            clocks,
            schedule: Mutex::default(),
            gates: Mutex::default(),
            chance: Mutex::new(chance),
            story: Mutex::new(story),
            fired: Mutex::default(),
            yard: Mutex::default(),
            ci: Mutex::default(),
            forge: Mutex::default(),
            oracle: Mutex::new(oracle),
            acting: Mutex::default(),
        }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    pub(crate) fn plan_in(&self, wait_ms: u64, event: Event) {
        held(&self.schedule).plan(self.now_ms() + wait_ms, event);
    }

    pub(crate) fn next_event(&self) -> Option<(u64, Event)> {
        held(&self.schedule).next()
    }

    pub(crate) fn gates(&self) -> MutexGuard<'_, Gates> {
        held(&self.gates)
    }

    pub(crate) fn chance(&self) -> MutexGuard<'_, Chance> {
        held(&self.chance)
    }

    /// Whether this wind has its way with this call.
    pub(crate) fn strikes(&self, wind: Wind) -> bool {
        let rate = self.weather.rate(wind, self.now_ms());
        rate > 0 && self.chance().hits(rate)
    }

    pub(crate) fn yard(&self) -> MutexGuard<'_, Yard> {
        held(&self.yard)
    }

    /// What the CI system lists.
    pub(crate) fn ci(&self) -> MutexGuard<'_, Registry> {
        held(&self.ci)
    }

    /// Who has which job, and who is paused.
    pub(crate) fn forge(&self) -> MutexGuard<'_, Forge> {
        held(&self.forge)
    }

    pub(crate) fn oracle(&self) -> MutexGuard<'_, Oracle> {
        held(&self.oracle)
    }

    pub(crate) fn fired(&self, fault: Fault) {
        held(&self.fired).note(fault);
    }

    pub(crate) fn all_fired(&self) -> Fired {
        let mut all = *held(&self.fired);
        all.add(self.oracle().fired());
        all
    }

    pub(crate) fn acting(&self) -> Option<Acting> {
        *held(&self.acting)
    }

    pub(crate) fn set_acting(&self, acting: Option<Acting>) {
        *held(&self.acting) = acting;
    }

    pub(crate) fn broken(&self, invariant: u8, about: &[&dyn ToString], what: impl Into<String>) {
        let about = about.iter().map(|subject| subject.to_string()).collect();
        let violation = Violation { invariant, at_ms: self.now_ms(), what: what.into(), about };
        self.oracle().broken(violation);
    }

    /// By the use case that is being polled.
    pub(crate) fn tell(&self, what: impl FnOnce() -> String) {
        let acting = self.acting();
        let who = || match acting {
            Some(Acting { task, plane, kind, begun_at_ms: _, ahead_ms: _ }) => {
                format!("plane-{plane} {kind:?}#{task}")
            }
            None => "world".to_owned(),
        };
        held(&self.story).tell(self.now_ms(), who, what);
    }

    pub(crate) fn tell_of(&self, who: impl FnOnce() -> String, what: impl FnOnce() -> String) {
        held(&self.story).tell(self.now_ms(), who, what);
    }

    pub(crate) fn take_story(&self) -> Story {
        std::mem::take(&mut *held(&self.story))
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
