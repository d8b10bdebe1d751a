//! What a test does to the fake: how much there is, what goes wrong, what befalls an instance.

use super::catalogue::{KINDS, ZONES};
use super::faults::{Fate, Loss, Share};
use super::lag::Lag;
use super::{FakeEc2, Hook};
use motorpool_domain::spec::Usage;
use std::time::Duration;

impl FakeEc2 {
    /// So many more of this type may be launched, here, sold so. They don't come back when one ends.
    pub fn set_capacity(&self, instance_type: &str, zone: &str, usage: Usage, more: u32) {
        let lot = (instance_type.to_owned(), zone.to_owned(), usage.name());
        self.lock().world.capacity.insert(lot, more);
    }

    /// The same for every type: of one zone or all, sold in one way or any.
    pub fn set_capacity_of_all(&self, zone: Option<&str>, usage: Option<Usage>, more: u32) {
        for kind in &KINDS {
            for here in ZONES.into_iter().filter(|here| zone.is_none_or(|zone| zone == *here)) {
                for sold in [Usage::Spot, Usage::OnDemand]
                    .into_iter()
                    .filter(|it| usage.is_none_or(|usage| usage == *it))
                {
                    self.set_capacity(kind.name, here, sold, more);
                }
            }
        }
    }

    /// Any number of everything again, also of addresses, and no quota.
    pub fn restore_capacity(&self) {
        let world = &mut self.lock().world;
        world.capacity.clear();
        world.addresses.clear();
        world.quotas.clear();
    }

    /// So many more instances find an address in this zone.
    pub fn set_free_addresses(&self, zone: &str, more: u32) {
        self.lock().world.addresses.insert(zone.to_owned(), more);
    }

    /// At most so many alive at once that are sold so.
    pub fn set_quota(&self, usage: Usage, most: u32) {
        self.lock().world.quotas.insert(usage.name(), most);
    }

    /// RequestLimitExceeded for about so many of a thousand calls, of any action, by the seed; 0 ends it.
    pub fn throttle(&self, seed: u64, per_mille: u64) {
        self.lock().faults.throttle(Some(Share { seed, per_mille }));
    }

    /// RequestLimitExceeded for the next so many calls: of this action, or of any.
    pub fn throttle_next(&self, action: Option<&str>, times: u32) {
        self.lock().faults.plan(action, times, Fate::throttled());
    }

    /// The next so many calls of this action fail with this error, and have no effect.
    pub fn fail_next(&self, action: &str, times: u32, code: &str, status: u16) {
        let message = format!("planned by the test: {code}");
        let fate = Fate::Refused { code: code.to_owned(), message, status };
        self.lock().faults.plan(Some(action), times, fate);
    }

    /// The next so many calls of this action have their effect, and their answer is lost. The SDK tries three times in all.
    pub fn lose_answers(&self, action: &str, times: u32, loss: Loss) {
        self.lock().faults.plan(Some(action), times, Fate::Lost(loss));
    }

    /// About so many of a thousand answers are lost after the effect, by the seed; 0 ends it.
    pub fn lose(&self, seed: u64, per_mille: u64) {
        self.lock().faults.lose(Some(Share { seed, per_mille }));
    }

    /// From now on, listings show each instance as it was up to so long ago, by the seed: new ones are left out, ended ones are shown, and a
    /// listing may show less than the one before. Who names an instance that is not shown is told that there is none. What RunInstances and
    /// TerminateInstances answer is true. Zero ends it.
    pub fn lag(&self, seed: u64, most: Duration) {
        self.lock().lag = (!most.is_zero()).then_some(Lag { seed, most });
    }

    pub fn on_call(&self, hook: Hook) {
        self.lock().hook = Some(hook);
    }

    pub fn no_hook(&self) {
        self.lock().hook = None;
    }

    /// EC2 takes a spot instance back: it shuts down now. Whether there is such an instance.
    pub fn interrupt(&self, id: &str) -> bool {
        let now = self.now();
        self.lock().world.end(id, "Server.SpotInstanceTermination", now, self.settings.shutdown)
    }

    /// Its hardware fails: it is terminated now.
    pub fn die(&self, id: &str) -> bool {
        let now = self.now();
        self.lock().world.end(id, "Server.InternalError", now, Duration::ZERO)
    }

    /// Its own system powers it off, and that terminates it.
    pub fn power_off(&self, id: &str) -> bool {
        let now = self.now();
        self.lock().world.end(id, "Client.InstanceInitiatedShutdown", now, self.settings.shutdown)
    }

    /// Somebody changes an instance's tag by hand, or takes it off.
    pub fn set_tag(&self, id: &str, key: &str, value: Option<&str>) {
        if let Some(instance) = self.lock().world.instances.get_mut(id) {
            match value {
                Some(value) => drop(instance.tags.insert(key.to_owned(), value.to_owned())),
                None => drop(instance.tags.remove(key)),
            }
        }
    }
}
