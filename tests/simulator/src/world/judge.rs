//! Invariant 23, of those who ask and of those who answer: no use case is under way for ever, and once faults have stopped everybody was served
//! and nobody is still at something. What records and machines have become is the oracle's to judge.

use super::World;
use crate::oracle::{Oracle, Scene};
use crate::planes::UnderWay;
use crate::scale::ALL_WELL_MS;
use crate::schedule::Event;
use motorpool_control::ports::queue::QueueName;
use std::sync::Arc;

/// How long a use case may take while the ledger is slow, the provider is slow, and answers are lost and repeated.
const LONGEST_MS: u64 = 15 * 60_000;
/// And when all is well.
const LONGEST_WHEN_WELL_MS: u64 = 60_000;

impl World {
    /// Now and then, whatever the weather.
    pub(super) fn check(&mut self) {
        self.ground.plan_in(60_000, Event::Check);
        self.scene(|oracle, scene| oracle.nothing_strays_for_long(scene));
        self.ground.oracle().no_ghost_stays_for_long(self.ground.now_ms(), &self.ground.ci());
        let now_ms = self.ground.now_ms();
        for host in self.hosts.iter().filter(|host| host.overstays(now_ms)) {
            let what = format!("{} has heard nothing until its fence, and goes on", host.runner);
            self.ground.broken(20, &[&host.runner], what);
        }
        self.nothing_hangs();
    }

    fn scene(&self, judge: impl FnOnce(&mut Oracle, &Scene<'_>)) {
        let yard = self.ground.yard();
        let now_ms = self.ground.now_ms();
        let scene = Scene { now_ms, acting: None, yard: &yard, outage: false };
        judge(&mut self.ground.oracle(), &scene);
    }

    pub(super) fn judge_the_end(&self) {
        self.nothing_hangs();
        self.scene(|oracle, scene| oracle.nothing_strays_for_long(scene));
        for work in &self.works {
            if let Some(complaint) = work.complaint() {
                self.ground.broken(23, &[work.workflow()], complaint);
            }
        }
        for job in &self.shop.jobs {
            if let Some(complaint) = job.complaint() {
                self.ground.broken(23, &[&job.id], complaint);
            }
        }
        self.agents_rest();
        let queue = Arc::clone(&self.queue);
        self.scene(|oracle, scene| {
            oracle.at_the_end(scene, |runner| {
                queue.announces(&QueueName::Idle(runner.pool.clone()), &runner.id, runner.epoch)
            });
            oracle.all_have_joined(scene, self.operator.machines());
        });
        for (machine, _) in self.operator.machines() {
            if self.ground.forge().is_paused(machine) {
                let what = format!("faults stopped long ago, and the CI system brings {machine} no jobs");
                self.ground.broken(23, &[machine], what);
            }
        }
        self.ground.oracle().no_ghost_is_listed(self.ground.now_ms(), &self.ground.ci());
    }

    /// A use case that was cut off by a crash is not under way any more; one whose caller has given up is.
    pub(super) fn nothing_hangs(&self) {
        let Some(UnderWay { plane, kind, caller, begun_at_ms }) = self.planes.oldest() else { return };
        let now_ms = self.ground.now_ms();
        let begun_when_well = begun_at_ms >= ALL_WELL_MS || self.end_ms < ALL_WELL_MS;
        let longest_ms = if begun_when_well { LONGEST_WHEN_WELL_MS } else { LONGEST_MS };
        let so_far_ms = now_ms - begun_at_ms;
        if so_far_ms > longest_ms {
            let what = format!(
                "a {kind:?} for {caller:?} has been under way on plane-{plane} for {} s",
                so_far_ms / 1_000
            );
            self.ground.broken(23, &[&format!("plane-{plane}")], what);
        }
    }

    /// Every runner is idle by now: so its agent has heard so, and does nothing.
    fn agents_rest(&self) {
        for host in self.hosts.iter().filter(|host| host.is_on()) {
            if let Some(what) = host.unrest(&self.ground) {
                let what = format!("faults stopped long ago, and the agent of {} {what}", host.runner);
                self.ground.broken(23, &[&host.runner], what);
            }
        }
    }
}
