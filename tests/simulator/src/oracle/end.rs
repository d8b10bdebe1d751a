//! What must hold now and then (nothing stays astray for long), and once faults have stopped for a while (nothing is stuck).

use super::{Oracle, Scene};
use crate::yard::{Power, Yard};
use motorpool_domain::runner::{Runner, RunnerState};
use motorpool_domain::{PoolName, RunnerId};
use std::collections::BTreeMap;

/// How long a machine may live without a record, or a record without a machine, with faults all around.
const LONGEST_ASTRAY_MS: u64 = 30 * 60_000;
/// How long a claim may go without what a sweep tells it.
const LONGEST_LINGERING_MS: u64 = 12 * 60_000;

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
        let pools: Vec<PoolName> = self.pools.keys().cloned().collect();
        pools.iter().for_each(|pool| self.within_max(now_ms, scene.yard, pool));
        self.nobody_lingers(scene);
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
        self.checkpoints_have_ended(scene);
        if let Some((id, what)) = self.astray(scene.yard).first_key_value() {
            self.fails(scene, 16, &[id], what.clone());
        }
        let is_announced = |runner: &Runner| self.is_of_hooks(runner) || announced(runner);
        let unheard = self.live().find(|runner| runner.state == RunnerState::Idle && !is_announced(runner));
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

    /// Every machine of the operator's own is part of its pool: he asks for it again until it is.
    pub(crate) fn all_have_joined(&mut self, scene: &Scene<'_>, machines: &[(RunnerId, PoolName)]) {
        let lives = |id: &RunnerId| self.runner(id).is_some_and(|runner| runner.state.name().live());
        if let Some(missing) = machines.iter().map(|(id, _)| id).find(|id| !lives(id)) {
            let what = format!("faults stopped long ago, and {missing} is not part of its pool");
            self.fails(scene, 23, &[missing], what);
        }
    }

    /// Machines without a live record, or beside the one that theirs names; and live records without a machine.
    fn astray(&self, yard: &Yard) -> BTreeMap<String, String> {
        let mut astray = BTreeMap::new();
        for (id, site) in yard.all().filter(|(_, site)| !site.kept() && site.power != Power::Off) {
            let runner = &site.runner;
            match self.runner(runner).filter(|record| record.state.name().live()) {
                None => {
                    astray.insert(id.clone(), format!("{id}, the machine of {runner}, has no live record"));
                }
                Some(record) if record.provider_id.as_ref().is_some_and(|named| named != id) => {
                    astray.insert(
                        id.clone(),
                        format!("{id} is a machine of {runner}, whose record names another"),
                    );
                }
                Some(_) => {}
            }
        }
        for runner in self.live().filter(|runner| !runner.kept) {
            if yard.gone(&runner.id, runner.provider_id.as_deref()) {
                let what =
                    format!("{} has a live record ({}), and no machine", runner.id, runner.state.name());
                astray.insert(runner.id.to_string(), what);
            }
        }
        astray
    }

    /// A claim that lacks a runner says why; and one whose runner's machine is to go looks for another.
    pub(crate) fn nobody_lingers(&mut self, scene: &Scene<'_>) {
        let now_ms = scene.now_ms;
        let mut found = BTreeMap::new();
        for claim in self.claims.values().filter(|claim| claim.state.open()) {
            if claim.short() > 0 && claim.waits_for.is_none() {
                found.insert(
                    format!("{} lacks a runner, and does not say why", claim.id),
                    claim.id.to_string(),
                );
            }
            let leaving = claim.members.iter().find(|member| {
                self.runner(&member.runner).is_some_and(|runner| {
                    runner.epoch == member.epoch
                        && matches!(runner.state, RunnerState::Running { leaving: true, .. })
                })
            });
            if let Some(member) = leaving {
                let what = format!("{} counts on {}, whose machine is to go", claim.id, member.runner);
                found.insert(what, claim.id.to_string());
            }
        }
        for name in self.done_and_not_ended() {
            found.insert(format!("{name} is active, and its machine is clean or gone"), name.to_string());
        }
        let mut lingers = std::mem::take(&mut self.lingers);
        lingers.retain(|what, _| found.contains_key(what));
        for (what, id) in found {
            let since_ms = *lingers.entry(what.clone()).or_insert(now_ms);
            if now_ms - since_ms > LONGEST_LINGERING_MS {
                let what = format!("{what}, and so for {} s", (now_ms - since_ms) / 1_000);
                self.fails(scene, 23, &[&id], what);
            }
        }
        self.lingers = lingers;
    }
}
