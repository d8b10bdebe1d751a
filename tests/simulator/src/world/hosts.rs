//! What happens to hosts: they join, start, stop, and meet with mishaps.

use super::{PAUSE_MS, World};
use crate::host::Host;
use crate::people::{self, Mishap};
use crate::schedule::Event;
use crate::yard::{Power, Site};
use motorpool_domain::RunnerId;

impl World {
    /// A machine of the operator's own gets the secret of its new registration.
    pub(super) fn joins(&mut self, runner: RunnerId, secret: String) {
        let host = self.host_of(&runner, true, &secret);
        let site = Site {
            pool: self.metal.clone(),
            secret: secret.clone(),
            kept: true,
            power: Power::On,
            since_ms: self.ground.now_ms(),
            used_by: None,
        };
        self.ground.yard().sites.entry(runner).or_insert(site);
        if let Some(host) = self.hosts.get_mut(host) {
            host.give_secret(&self.ground, secret);
        }
    }

    fn host_of(&mut self, runner: &RunnerId, kept: bool, secret: &str) -> usize {
        if let Some(known) = self.by_runner.get(runner) {
            return *known;
        }
        let index = self.hosts.len();
        self.hosts.push(Host::new(&self.ground, index, runner.clone(), kept, secret.to_owned()));
        self.by_runner.insert(runner.clone(), index);
        index
    }

    pub(super) fn power_on(&mut self, runner: &RunnerId) {
        let site = {
            let yard = self.ground.yard();
            yard.sites.get(runner).map(|site| (site.power, site.kept, site.secret.clone()))
        };
        let Some((power, kept, secret)) = site else { return };
        // One that was told to stop before it was up does not start.
        if !kept && power != Power::Booting {
            return;
        }
        self.ground.yard().turn(runner, Power::On, self.ground.now_ms());
        let host = self.host_of(runner, kept, &secret);
        self.ground.tell_of(|| format!("host {runner}"), || "starts".to_owned());
        if let Some(host) = self.hosts.get_mut(host) {
            host.power_on(&self.ground);
        }
    }

    pub(super) fn power_off(&mut self, runner: &RunnerId) {
        self.ground.yard().turn(runner, Power::Off, self.ground.now_ms());
        self.ground.tell_of(|| format!("host {runner}"), || "is off".to_owned());
        if let Some(host) = self.by_runner.get(runner).and_then(|host| self.hosts.get_mut(*host)) {
            host.power_off();
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
        let (runner, now_ms) = (host.runner.clone(), self.ground.now_ms());
        self.ground.tell_of(|| format!("host {runner}"), || format!("mishap: {what:?}"));
        match what {
            Mishap::Pause => host.paused_until_ms = now_ms + PAUSE_MS,
            Mishap::Reboots => host.power_on(&self.ground),
            Mishap::AgentRestarts if host.agent_is_over() => {}
            Mishap::AgentRestarts => host.start_agent(&self.ground),
            Mishap::Dies if host.kept => {
                host.power_off();
                let again_ms = self.ground.chance().between(30_000, 900_000);
                self.ground.plan_in(again_ms, Event::PowerOn(runner));
            }
            Mishap::Dies => self.power_off(&runner),
        }
    }
}
