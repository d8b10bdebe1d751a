//! What must hold now and then (nothing stays astray for long), and once faults have stopped for a while (nothing is stuck).

use super::{Oracle, Scene};
use crate::yard::{Power, Yard};
use motorpool_domain::runner::{Runner, RunnerState};
use motorpool_domain::{PoolName, RunnerId};
use std::collections::BTreeMap;

/// How long a machine may live without a record, or a record without a machine, with faults all around.
const LONGEST_ASTRAY_MS: u64 = 30 * 60_000;

impl Oracle {
    /// Invariant 16, while faults go on.
    pub(crate) fn nothing_strays_for_long(&mut self, scene: &Scene<'_>) {
        let now_ms = scene.now_ms;
        let astray = self.astray(scene.yard);
        let mut strays = std::mem::take(&mut self.strays);
        strays.retain(|id, _| astray.contains_key(id));
        for (id, what) in astray {
            let since_ms = *strays.entry(id.clone()).or_insert(now_ms);
            if now_ms - since_ms > LONGEST_ASTRAY_MS {
                self.fails(
                    scene,
                    16,
                    &[&id],
                    format!("{what}, and so for {} s", (now_ms - since_ms) / 1_000),
                );
            }
        }
        self.strays = strays;
    }

    /// After the calm: every claim has ended, every runner rests, and machines, records and slots are the same.
    pub(crate) fn at_the_end(&mut self, scene: &Scene<'_>, announced: impl Fn(&Runner) -> bool) {
        let open: Vec<String> = self
            .claims
            .values()
            .filter(|claim| claim.state.open() || claim.settling)
            .map(|claim| claim.id.to_string())
            .collect();
        if let Some(first) = open.first() {
            let what = format!("faults stopped long ago, and {} have not ended", open.join(", "));
            self.fails(scene, 23, &[first], what);
        }
        let restless: Vec<&Runner> = self.live().filter(|runner| runner.state != RunnerState::Idle).collect();
        if let Some(first) = restless.first() {
            let what = format!("faults stopped long ago, and {} is still {:?}", first.id, first.state);
            let about = first.id.clone();
            self.fails(scene, 23, &[&about], what);
        }
        if let Some((id, what)) = self.astray(scene.yard).first_key_value() {
            self.fails(scene, 16, &[id], what.clone());
        }
        let unheard = self.live().find(|runner| runner.state == RunnerState::Idle && !announced(runner));
        if let Some(id) = unheard.map(|runner| runner.id.clone()) {
            self.fails(scene, 10, &[&id], format!("{id} is idle, and no queue announces it"));
        }
        let wanting: Option<(PoolName, u32)> = self
            .pools
            .values()
            .map(|pool| (pool.name.clone(), pool.rules.min_idle, self.live_in(&pool.name)))
            .find(|(_, min_idle, live)| live < min_idle)
            .map(|(name, _, live)| (name, live));
        if let Some((name, live)) = wanting {
            self.fails(
                scene,
                23,
                &[&name],
                format!("pool {name} has {live} runners, fewer than its min_idle"),
            );
        }
    }

    /// Machines without a live record, and live records whose machine is gone.
    fn astray(&self, yard: &Yard) -> BTreeMap<RunnerId, String> {
        let mut astray = BTreeMap::new();
        for (id, site) in yard.sites.iter().filter(|(_, site)| !site.kept) {
            let lives = self.runner(id).is_some_and(|runner| runner.state.name().live());
            match site.power {
                Power::Off if lives => {
                    astray.insert(id.clone(), format!("{id} has a live record, and its machine is gone"));
                }
                Power::On | Power::Booting | Power::Stopping if !lives => {
                    astray.insert(id.clone(), format!("the machine of {id} has no live record"));
                }
                Power::On | Power::Booting | Power::Stopping | Power::Off => {}
            }
        }
        astray
    }
}
