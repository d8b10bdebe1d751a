//! What happens to hosts: they join, start, stop, meet with mishaps, and are taken away.

use super::{PAUSE_MS, World};
use crate::calls::Reply;
use crate::faults::Fault;
use crate::host::{Born, Host, HostEvent};
use crate::people::{self, Mishap};
use crate::scale::DOCK;
use crate::schedule::Event;
use crate::yard::{Power, Site, Sort};
use motorpool_control::RefusedKind;
use motorpool_domain::RunnerId;
use motorpool_domain::runner::Notice;

/// How often an agent asks its machine for notices.
const ASKS_EVERY_MS: u64 = 5_000;
/// Between an interruption's notice and the end.
const TAKEN_IN_MS: u64 = 120_000;

impl World {
    /// A machine of the operator's own gets the secret of its new registration.
    pub(super) fn joins(&mut self, runner: RunnerId, secret: String) {
        let Some(pool) = self.operator.pool_of(&runner).cloned() else { return };
        let machine = runner.to_string();
        let site = Site {
            runner,
            pool,
            secret: secret.clone(),
            sort: Sort::Kept,
            power: Power::On,
            since_ms: self.ground.now_ms(),
            used_by: None,
        };
        self.ground.yard().add(&machine, site);
        let host = self.host_of(&machine);
        if let Some(host) = host.and_then(|host| self.hosts.get_mut(host)) {
            host.give_secret(&self.ground, secret);
        }
    }

    /// The operator has a runner's new secret, and installs it; or hears that there is none to be had.
    pub(super) fn renewed(&mut self, runner: RunnerId, reply: Reply) {
        let Reply::Registered(outcome) = reply else { return };
        let secret = match outcome {
            Ok(registered) => registered.bootstrap_secret.unwrap_or_default(),
            Err(refused) if refused.kind == RefusedKind::Conflict => return self.operator.renewed(&runner),
            // He asks again.
            Err(_) => return,
        };
        self.operator.renewed(&runner);
        let named = self.ground.oracle().runner(&runner).and_then(|record| record.provider_id.clone());
        let machine = {
            let yard = self.ground.yard();
            let is_it = |id: &String| named.as_ref().is_none_or(|named| named == id);
            let mut its = yard.of(&runner).filter(|(id, site)| is_it(id) && site.power == Power::On);
            its.next().map(|(id, _)| id.clone())
        };
        let host = machine.and_then(|machine| self.by_machine.get(&machine).copied());
        if let Some(host) = host.and_then(|host| self.hosts.get_mut(host)) {
            host.give_secret(&self.ground, secret);
        }
    }

    fn host_of(&mut self, machine: &str) -> Option<usize> {
        if let Some(known) = self.by_machine.get(machine) {
            return Some(*known);
        }
        let born = {
            let yard = self.ground.yard();
            let site = yard.site(machine)?;
            Born {
                runner: site.runner.clone(),
                machine: machine.to_owned(),
                kept: site.kept(),
                cloud: site.is_cloud(),
                is_dock: site.pool.as_str() == DOCK,
                secret: site.secret.clone(),
            }
        };
        let index = self.hosts.len();
        self.hosts.push(Host::new(&self.ground, index, born));
        self.by_machine.insert(machine.to_owned(), index);
        Some(index)
    }

    pub(super) fn power_on(&mut self, machine: &str) {
        let site = self.ground.yard().site(machine).map(|site| (site.power, site.kept()));
        let Some((power, kept)) = site else { return };
        // One that was told to stop before it was up does not start.
        if !kept && power != Power::Booting {
            return;
        }
        self.ground.yard().turn(machine, Power::On, self.ground.now_ms());
        let host = self.host_of(machine);
        if let Some(host) = host.and_then(|host| self.hosts.get_mut(host)) {
            host.tell(&self.ground, || "starts".to_owned());
            host.power_on(&self.ground);
        }
    }

    pub(super) fn power_off(&mut self, machine: &str) {
        self.ground.yard().turn(machine, Power::Off, self.ground.now_ms());
        if let Some(host) = self.by_machine.get(machine).and_then(|host| self.hosts.get_mut(*host)) {
            host.tell(&self.ground, || "is off".to_owned());
            host.power_off(&self.ground);
        }
    }

    pub(super) fn mishap(&mut self) {
        if self.ground.weather.calm(self.ground.now_ms()) {
            return;
        }
        let wait_ms = self.ground.chance().between(60_000, 500_000);
        self.ground.plan_in(wait_ms, Event::Mishap);
        let on: Vec<usize> =
            self.hosts.iter().enumerate().filter(|(_, host)| host.is_on()).map(|(index, _)| index).collect();
        let (host, what) = {
            let mut chance = self.ground.chance();
            (chance.one_of(&on).copied(), people::mishap(&mut chance))
        };
        let Some(host) = host.and_then(|host| self.hosts.get_mut(host)) else { return };
        let (machine, now_ms) = (host.machine.clone(), self.ground.now_ms());
        host.tell(&self.ground, || format!("mishap: {what:?}"));
        match what {
            Mishap::Pause => host.paused_until_ms = now_ms + PAUSE_MS,
            Mishap::Reboots => host.power_on(&self.ground),
            Mishap::AgentRestarts if host.agent_is_over() => {}
            Mishap::AgentRestarts => host.start_agent(&self.ground),
            Mishap::Dies if host.kept => {
                host.power_off(&self.ground);
                let again_ms = self.ground.chance().between(30_000, 900_000);
                self.ground.plan_in(again_ms, Event::PowerOn(machine));
            }
            Mishap::Dies => self.power_off(&machine),
        }
    }

    /// The cloud wants one of its spot machines back, or says that it may.
    pub(super) fn notice(&mut self) {
        if self.ground.weather.calm(self.ground.now_ms()) {
            return;
        }
        let wait_ms = self.ground.chance().between(60_000, 500_000);
        self.ground.plan_in(wait_ms, Event::Notice);
        let spot: Vec<String> = {
            let yard = self.ground.yard();
            let up = yard
                .all()
                .filter(|(_, site)| site.is_spot() && site.power == Power::On && site.notice().is_none());
            up.map(|(id, _)| id.clone()).collect()
        };
        let (machine, at_once, comes_to_something) = {
            let mut chance = self.ground.chance();
            (chance.one_of(&spot).cloned(), chance.hits(6_000), chance.hits(5_000))
        };
        let Some(machine) = machine else { return };
        if at_once {
            return self.interrupt(&machine);
        }
        self.give_notice(&machine, Notice::Rebalance);
        if comes_to_something {
            let wait_ms = self.ground.chance().between(60_000, 600_000);
            self.ground.plan_in(wait_ms, Event::Interrupt(machine));
        }
    }

    pub(super) fn interrupt(&mut self, machine: &str) {
        self.give_notice(machine, Notice::Interruption);
        self.ground.plan_in(TAKEN_IN_MS, Event::PowerOff(machine.to_owned()));
    }

    fn give_notice(&mut self, machine: &str, given: Notice) {
        let there = match self.ground.yard().site_mut(machine) {
            Some(Site { sort: Sort::Cloud { notice, .. }, power: Power::On, .. }) => {
                *notice = Some(given);
                true
            }
            Some(_) | None => false,
        };
        if !there {
            return;
        }
        self.ground.fired(match given {
            Notice::Interruption => Fault::InterruptionNotice,
            Notice::Rebalance => Fault::RebalanceNotice,
        });
        let Some(index) = self.by_machine.get(machine).copied() else { return };
        if let Some(host) = self.hosts.get(index) {
            host.tell(&self.ground, || format!("notice: {given:?}"));
            let wait_ms = self.ground.chance().between(0, ASKS_EVERY_MS);
            let event = HostEvent::AsksForNotices;
            self.ground.plan_in(wait_ms, Event::Host { host: index, life: host.life, event });
        }
    }
}
