//! The operator: keeps the pools going, and while faults go on takes runners away, renews their secrets and changes the pools. What he has begun he
//! repeats until he hears that it is done; when faults stop, he sets the pools back to what they were. He only chooses; the world does it.

use super::calls::{Call, Caller};
use super::chance::Chance;
use super::ci::known_as;
use super::ground::Ground;
use super::scale::{DOCK, METAL, SHOP};
use motorpool_domain::pool::Clean;
use motorpool_domain::runner::{Removal, Runner, RunnerState, StateName};
use motorpool_domain::{PoolName, RunnerId};
use motorpool_wire::api::RegisterRunnerRequest;
use motorpool_wire::pool_settings::PoolSettings;
use motorpool_wire::registry::CredentialKind;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(crate) struct Operator {
    /// His own machines, each with its pool.
    machines: Vec<(RunnerId, PoolName)>,
    /// As the pools are when he leaves them alone.
    pools: BTreeMap<PoolName, PoolSettings>,
    /// What he has not heard of to be done.
    changing: BTreeMap<PoolName, PoolSettings>,
    renewing: BTreeSet<RunnerId>,
    has_set_back: bool,
}

/// Of 10,000 looks at the pools while faults go on.
const REMOVES: u32 = 3_000;
const RENEWS: u32 = 2_500;
const CHANGES: u32 = 2_500;

impl Operator {
    pub(crate) fn new(machines: Vec<(RunnerId, PoolName)>, pools: BTreeMap<PoolName, PoolSettings>) -> Self {
        Self { machines, pools, changing: BTreeMap::new(), renewing: BTreeSet::new(), has_set_back: false }
    }

    pub(crate) fn machines(&self) -> &[(RunnerId, PoolName)] {
        &self.machines
    }

    pub(crate) fn pool_of(&self, machine: &RunnerId) -> Option<&PoolName> {
        self.machines.iter().find(|(id, _)| id == machine).map(|(_, pool)| pool)
    }

    /// What he does at this look at the pools: whatever waits for a person, what he has begun, and now and then something rude.
    pub(crate) fn looks(&mut self, ground: &Ground) -> Vec<(Caller, Call)> {
        let mut calls = self.keeps_going(ground);
        self.renewing.extend(shut_out(ground));
        match ground.weather.calm(ground.now_ms()) {
            true if !self.has_set_back => {
                self.has_set_back = true;
                self.changing = self.pools.clone();
            }
            true => {}
            false => calls.extend(self.interferes(ground)),
        }
        calls.extend(self.renewing.iter().map(|id| (Caller::Renewer(id.clone()), Call::Renew(id.clone()))));
        calls.extend(self.changing.iter().map(|(pool, settings)| {
            (Caller::PoolKeeper(pool.clone()), Call::PutPool(pool.clone(), Box::new(settings.clone())))
        }));
        calls
    }

    /// He has the new secret, or there is none to be had.
    pub(crate) fn renewed(&mut self, runner: &RunnerId) {
        self.renewing.remove(runner);
    }

    pub(crate) fn changed(&mut self, pool: &PoolName) {
        self.changing.remove(pool);
    }

    fn keeps_going(&self, ground: &Ground) -> Vec<(Caller, Call)> {
        let oracle = ground.oracle();
        let mut calls = Vec::new();
        let waits = |runner: &&Runner| {
            matches!(runner.state, RunnerState::Quarantined { .. }) && !is_shut_out(runner)
        };
        for runner in oracle.live().filter(waits) {
            let id = runner.id.clone();
            let call = match runner.kept {
                true => Call::ReleaseRunner(id.clone()),
                false => Call::Remove(id.clone(), Removal::IfFree),
            };
            calls.push((Caller::Operator(id), call));
        }
        for (id, pool) in &self.machines {
            let lives = oracle.runner(id).is_some_and(|runner| runner.state.name() != StateName::Terminated);
            if !lives {
                let request = RegisterRunnerRequest {
                    runner_id: id.clone(),
                    pool: pool.clone(),
                    instance_type: None,
                    cpu: None,
                    memory_mb: None,
                    cleanup_cmd: None,
                    reset_cmd: None,
                    readiness_cmd: None,
                    ci_runner: (pool.as_str() == SHOP).then(|| known_as(id)),
                    credential: CredentialKind::Bootstrap,
                };
                calls.push((Caller::Operator(id.clone()), Call::Register(request)));
            }
        }
        calls
    }

    fn interferes(&mut self, ground: &Ground) -> Option<(Caller, Call)> {
        let (live, joined): (Vec<RunnerId>, Vec<RunnerId>) = {
            let oracle = ground.oracle();
            let ids = |which: fn(&&Runner) -> bool| {
                oracle.live().filter(which).map(|runner| runner.id.clone()).collect()
            };
            (ids(|_| true), ids(|runner| runner.credential.is_some()))
        };
        let mut chance = ground.chance();
        if chance.hits(RENEWS) {
            self.renewing.extend(chance.one_of(&joined).cloned());
        }
        if chance.hits(CHANGES) {
            let names: Vec<&PoolName> = self.pools.keys().collect();
            let name = chance.one_of(&names).map(|name| (*name).clone());
            if let Some((name, settings)) = name.and_then(|name| self.pools.get_key_value(&name)) {
                self.changing.insert(name.clone(), varied(&mut chance, name, settings));
            }
        }
        if !chance.hits(REMOVES) {
            return None;
        }
        let removal = [Removal::IfFree, Removal::Drain, Removal::Force].get(chance.index(3)).copied()?;
        let id = chance.one_of(&live)?;
        Some((Caller::Operator(id.clone()), Call::Remove(id.clone(), removal)))
    }
}

/// Nobody knows who its agent is: it needs a new secret before it is of use again.
fn is_shut_out(runner: &Runner) -> bool {
    matches!(runner.state, RunnerState::Quarantined { .. }) && runner.kept && runner.credential.is_none()
}

fn shut_out(ground: &Ground) -> Vec<RunnerId> {
    ground.oracle().live().filter(|runner| is_shut_out(runner)).map(|runner| runner.id.clone()).collect()
}

/// A pool with other numbers. No workflow ever asks for more than its maximum.
fn varied(chance: &mut Chance, name: &PoolName, usual: &PoolSettings) -> PoolSettings {
    let most_asked = usual.max.min(4);
    let of_machines = ![METAL, SHOP, DOCK].contains(&name.as_str());
    let clean = match chance.hits(3_000) && of_machines {
        true => [Clean::Replace, Clean::Cleanup].get(chance.index(2)).copied().or(usual.clean),
        false => usual.clean,
    };
    PoolSettings {
        max: u32::try_from(chance.between(u64::from(most_asked), u64::from(usual.max) + 3))
            .unwrap_or(usual.max),
        min_idle: if of_machines { u32::try_from(chance.between(0, 4)).unwrap_or(0) } else { usual.min_idle },
        clean,
        idle_seconds: Some(chance.between(60, 400)),
        wait_seconds: Some(chance.between(300, 700)),
        max_runtime_seconds: Some(chance.between(400, 1_000)),
        releasing_seconds: Some(chance.between(120, 240)),
        resetting_seconds: Some(chance.between(150, 300)),
        ..usual.clone()
    }
}
