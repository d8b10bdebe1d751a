//! Where stories came: which cases that a property is about, and which steps of the state table.

use super::Step;
use crate::samples::{events, in_state_for, moment_of, rules_for};
use motorpool_domain::pool::Clean;
use motorpool_domain::runner::{Decision, StateName, decide};
use std::collections::{BTreeMap, BTreeSet};

/// The cases that a property is about, by how often they came up.
#[derive(Debug, Default)]
pub(crate) struct Reached(BTreeMap<&'static str, u32>);

impl Reached {
    pub(crate) const ENOUGH: u32 = 10;

    pub(crate) fn case(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }

    /// Each of these came up often enough, and no other did: a case that nobody asks for proves nothing.
    pub(super) fn must_have(&self, cases: &[&str]) {
        let rare: Vec<&&str> = cases
            .iter()
            .filter(|case| self.0.get(**case).is_none_or(|count| *count < Self::ENOUGH))
            .collect();
        assert!(rare.is_empty(), "the property is about {rare:?}, which hardly came up: {:?}", self.0);
        let unasked: Vec<&&str> = self.0.keys().filter(|case| !cases.contains(*case)).collect();
        assert!(unasked.is_empty(), "nobody asks whether {unasked:?} came up");
    }
}

/// From a state, by an event of the state table, to a state: the same one where the event is noted.
type Arc = (StateName, &'static str, StateName);

/// The steps that stories took, by how often.
#[derive(Debug, Default)]
pub(crate) struct Taken(BTreeMap<Arc, u32>);

impl Taken {
    pub(crate) fn count(&mut self, story: &[Step]) {
        for step in story {
            if let Some(after) = step.after() {
                let arc = (step.before.state.name(), step.name, after.state.name());
                *self.0.entry(arc).or_default() += 1;
            }
        }
    }

    /// Every step that the state table has was taken often enough, and so every state was entered.
    pub(crate) fn must_be_the_whole_table(&self) {
        let table = of_the_table();
        let count = |arc: &Arc| self.0.get(arc).copied().unwrap_or_default();
        let rare: Vec<(Arc, u32)> = table.iter().map(|arc| (*arc, count(arc))).collect();
        let rare: Vec<_> = rare.into_iter().filter(|(_, count)| *count < Reached::ENOUGH).collect();
        assert!(rare.is_empty(), "the stories hardly take these steps: {rare:?}");
        let entered: BTreeSet<StateName> = table.iter().map(|(_, _, to)| *to).collect();
        assert_eq!(entered, BTreeSet::from(StateName::ALL), "the table enters every state");
    }
}

fn of_the_table() -> BTreeSet<Arc> {
    let mut arcs = BTreeSet::new();
    for state in StateName::ALL {
        for kept in [false, true] {
            for (name, event) in events() {
                let before = in_state_for(&event, state, kept);
                let decision = decide(&before, &event, &rules_for(&event, Clean::Cleanup), moment_of(&event));
                if let Decision::Change(change) = decision {
                    arcs.insert((state, name, change.after.state.name()));
                }
            }
        }
    }
    arcs
}
