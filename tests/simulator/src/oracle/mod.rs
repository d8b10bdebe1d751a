//! The oracle: keeps books of its own, from the writes that were applied, and holds every write against the invariants. It trusts
//! no adapter and no record; what it knows of machines is the yard's truth. It changes nothing.

mod claims;
mod end;
mod machines;
mod pools;
mod registrations;
mod runners;

pub(crate) use machines::Token;

use super::calls::Kind;
use super::clocks::USUALLY_OFF_MS;
use super::faults::Fired;
use super::ground::Acting;
use super::ledger::{Answer, Gain, Intents, RunnerChange, Write};
use super::schedule::SimClock;
use super::verdict::Violation;
use super::yard::Yard;
use machines::Calls;
use motorpool_control::ports::ledger::{IntentsWritten, Taken, Written};
use motorpool_domain::claim::{Claim, ClaimKey};
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{Runner, StateName};
use motorpool_domain::{ClaimId, PoolName, RunnerId, Threshold, Timestamp};
use pools::Shrunk;
use std::collections::{BTreeMap, HashMap};

#[derive(Debug, Default)]
pub(crate) struct Oracle {
    violation: Option<Violation>,
    /// What the oracle alone sees to have had an effect.
    fired: Fired,
    pools: BTreeMap<PoolName, Pool>,
    shrunk: BTreeMap<PoolName, Shrunk>,
    /// As they were last written, with the last heartbeat that counted.
    runners: BTreeMap<RunnerId, Runner>,
    claims: BTreeMap<ClaimId, Claim>,
    latest: HashMap<ClaimKey, ClaimId>,
    /// Who changed each runner last, and whether by taking it.
    writers: BTreeMap<RunnerId, (Option<Kind>, bool)>,
    claim_writers: BTreeMap<ClaimId, Option<Kind>>,
    calls: Calls,
    /// Since when each machine and record have disagreed about being there, by either's id.
    strays: BTreeMap<String, u64>,
    /// Since when the CI system has listed each runner that is over.
    ghosts: BTreeMap<String, u64>,
    /// Since when each claim has waited for something that can't be long in coming.
    lingers: BTreeMap<String, u64>,
}

/// What is true at the moment of a write, beside the write itself.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) now_ms: u64,
    pub(crate) acting: Option<Acting>,
    pub(crate) yard: &'a Yard,
    /// No heartbeat arrives at the moment, or agents are only coming back.
    pub(crate) outage: bool,
}

impl Scene<'_> {
    /// As the control plane takes it that acts: deadlines are compared on its clock.
    fn now(&self) -> Timestamp {
        SimClock::timestamp_ahead(self.now_ms, self.acting.map_or(0, |acting| acting.ahead_ms))
    }

    /// Whether the one that acts has a clock that is far off, and so takes this deadline for what it is not.
    fn mistakes(&self, deadline: Option<Threshold>) -> bool {
        let far_off = self.acting.is_some_and(|acting| acting.ahead_ms.unsigned_abs() > USUALLY_OFF_MS);
        let right = SimClock::timestamp(self.now_ms);
        far_off && deadline.is_some_and(|deadline| deadline.passed(self.now()) != deadline.passed(right))
    }

    fn by_refresh(&self) -> bool {
        self.acting.is_some_and(|acting| acting.kind == Kind::Refresh)
    }
}

impl Oracle {
    pub(crate) fn runner(&self, id: &RunnerId) -> Option<&Runner> {
        self.runners.get(id)
    }

    pub(crate) fn claim(&self, id: &ClaimId) -> Option<&Claim> {
        self.claims.get(id)
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &Runner> {
        self.runners.values().filter(|runner| runner.state.name().live())
    }

    pub(crate) fn broken(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    pub(crate) fn fired(&self) -> &Fired {
        &self.fired
    }

    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Whether refresh and somebody who wants a runner met, over a runner or a claim, and one of them lost.
    pub(crate) fn races(&self, scene: &Scene<'_>, write: &Write, answer: &Answer) -> bool {
        let lost_to = |id: &RunnerId| self.writers.get(id).copied().unwrap_or_default();
        let met = |id: &ClaimId| {
            let other = self.claim_writers.get(id).copied().flatten();
            other.is_some_and(|other| (other == Kind::Refresh) != scene.by_refresh())
        };
        match (write, answer) {
            (Write::Take { runner, .. }, Answer::Taken(Taken::RunnerLost { .. })) => {
                lost_to(&runner.before.id).0 == Some(Kind::Refresh)
            }
            (Write::Take { claim, .. }, Answer::Taken(Taken::ClaimLost)) => met(&claim.write.before.id),
            (Write::Intents(intents), Answer::Intents(IntentsWritten::ClaimLost)) => {
                intents.claim.as_ref().is_some_and(|gain| met(&gain.write.before.id))
            }
            (Write::Claim(change), Answer::Claim(written)) => {
                matches!(written.as_ref(), Written::Lost { .. }) && met(&change.before.id)
            }
            (Write::Runner(change), Answer::Runner(written)) => {
                scene.by_refresh()
                    && matches!(written.as_ref(), Written::Lost { .. })
                    && lost_to(&change.before.id).1
            }
            (_, _) => false,
        }
    }

    /// A write was answered. `repeated`: it had been applied before, and its answer was lost.
    pub(crate) fn written(&mut self, scene: &Scene<'_>, write: &Write, answer: &Answer, repeated: bool) {
        if let (Write::Shortage { pool, shortage }, true) = (write, answer.done()) {
            self.shortage_noted(scene, pool, shortage);
        }
        if repeated {
            return self.recognised(scene, write, answer);
        }
        if !answer.done() {
            return;
        }
        match write {
            Write::Pool(change) => self.pool_changes(scene, &change.pool),
            Write::DeletePool { name, .. } => {
                self.pools.remove(name);
            }
            Write::Runner(change) => {
                self.runner_changes(scene, &change.before, &change.after);
                self.put_runner(scene, &change.after, false);
            }
            Write::Runners(changes) => {
                self.calls_rise(scene, changes);
                for RunnerChange { before, after, .. } in changes {
                    // Done all the same, if another wrote just this before.
                    if self.runners.get(&after.id).is_some_and(|known| known.rev == after.rev) {
                        continue;
                    }
                    self.runner_changes(scene, before, after);
                    self.put_runner(scene, after, false);
                }
            }
            Write::Intents(intents) => self.intended(scene, intents),
            Write::Take { claim, runner } => {
                if self.has_taken(&claim.write.after.id, &runner.after) {
                    return;
                }
                self.gains(scene, claim);
                self.runner_changes(scene, &runner.before, &runner.after);
                self.put_runner(scene, &runner.after, true);
                self.held_by_one(scene, &runner.after);
            }
            Write::Heartbeat { id, epoch, at } => {
                if let Some(runner) = self.runners.get_mut(id)
                    && runner.epoch == *epoch
                    && runner.state.name().live()
                {
                    runner.seen_at = Some(*at);
                }
            }
            Write::Open { claim, .. } => self.opens(scene, claim),
            Write::Claim(change) => self.claim_changes(scene, &change.before, &change.after),
            Write::Announced { .. }
            | Write::LookAgain { .. }
            | Write::Shortage { .. }
            | Write::Note { .. }
            | Write::RefreshMemory(_) => {}
        }
    }

    /// A write that meets its own earlier self is told that it is done, as long as what it wrote still stands.
    fn recognised(&mut self, scene: &Scene<'_>, write: &Write, answer: &Answer) {
        let stands = match write {
            Write::Take { claim, runner } => self.has_taken(&claim.write.after.id, &runner.after),
            Write::Intents(intents) => intents.runners.first().is_some_and(|first| {
                self.runners.get(&first.id).is_some_and(|known| known.launch == first.launch)
            }),
            Write::Open { claim, .. } => self.latest.get(&claim.key) == Some(&claim.id),
            Write::Pool(_)
            | Write::DeletePool { .. }
            | Write::Runner(_)
            | Write::Runners(_)
            | Write::Shortage { .. }
            | Write::Heartbeat { .. }
            | Write::Announced { .. }
            | Write::LookAgain { .. }
            | Write::Claim(_)
            | Write::Note { .. }
            | Write::RefreshMemory(_) => return,
        };
        if stands && !answer.done() {
            let words = write.in_words();
            let what =
                format!("a write whose answer was lost takes itself for another's: {words}: {answer:?}");
            let about = words.split([' ', '@', ';']).filter(|word| word.contains('-')).map(str::to_owned);
            let about: Vec<String> = about.collect();
            let about: Vec<&dyn ToString> = about.iter().map(|id| id as &dyn ToString).collect();
            self.fails(scene, 7, &about, what);
        }
    }

    /// Both records say that the claim has the runner in this epoch.
    fn has_taken(&self, claim: &ClaimId, taken: &Runner) -> bool {
        let held = self
            .runners
            .get(&taken.id)
            .is_some_and(|known| known.epoch == taken.epoch && known.held_by(claim));
        held && self.lists(claim, taken)
    }

    fn intended(&mut self, scene: &Scene<'_>, intents: &Intents) {
        let again =
            |runner: &Runner| self.runners.get(&runner.id).is_some_and(|known| known.launch == runner.launch);
        if intents.runners.iter().any(again) {
            return;
        }
        for runner in &intents.runners {
            self.new_life(scene, runner);
            self.call_written(scene, runner);
            self.put_runner(scene, runner, false);
        }
        self.intents_fit(scene, intents);
        if let Some(gain) = &intents.claim {
            self.gains(scene, gain);
        }
        for runner in &intents.runners {
            self.held_as_listed(scene, runner);
            self.held_by_one(scene, runner);
        }
    }

    fn gains(&mut self, scene: &Scene<'_>, gain: &Gain) {
        let Gain { write, opening } = gain;
        match opening {
            Some(_) => self.opens(scene, &write.after),
            None => self.claim_gains(scene, &write.before, &write.after),
        }
    }

    fn put_runner(&mut self, scene: &Scene<'_>, after: &Runner, taken: bool) {
        // In the place of an earlier life that is over begins another; but a machine that is kept was heard of all the same.
        let same_life = |known: &&Runner| known.kept || known.state.name() != StateName::Terminated;
        let seen_at = self.runners.get(&after.id).filter(same_life);
        let seen_at = seen_at.and_then(|known| known.seen_at);
        self.writers.insert(after.id.clone(), (scene.acting.map(|acting| acting.kind), taken));
        self.runners.insert(after.id.clone(), Runner { seen_at, ..after.clone() });
    }

    pub(crate) fn live_in(&self, pool: &PoolName) -> u32 {
        let live = self.live().filter(|runner| runner.pool == *pool).count();
        u32::try_from(live).unwrap_or(u32::MAX)
    }

    /// The ledger's record is the one that was last written.
    pub(crate) fn runner_is(&mut self, now_ms: u64, id: &RunnerId, found: Option<&Runner>) {
        let bare = |runner: &Runner| (runner.epoch, runner.rev, runner.state.clone(), runner.threshold);
        let known = self.runners.get(id);
        if known.map(bare) != found.map(bare) {
            let what = format!("the ledger's record of {id} is {found:?}, and {known:?} was written");
            self.fails_at(now_ms, 2, &[id], what);
        }
    }

    pub(crate) fn claim_is(&mut self, now_ms: u64, id: &ClaimId, found: Option<&Claim>) {
        let known = self.claims.get(id);
        if known != found {
            let what = format!("the ledger's record of {id} is {found:?}, and {known:?} was written");
            self.fails_at(now_ms, 2, &[id], what);
        }
    }

    /// Invariant 17: exactly the live runners have a slot, at every moment.
    pub(crate) fn slots_are(&mut self, now_ms: u64, pool: &PoolName, used: u32) {
        let live = self.live_in(pool);
        if live != used {
            let what = format!("pool {pool} counts {used} slots, and {live} of its runners live");
            self.fails_at(now_ms, 17, &[pool], what);
        }
    }

    fn fails(&mut self, scene: &Scene<'_>, invariant: u8, about: &[&dyn ToString], what: String) {
        self.fails_at(scene.now_ms, invariant, about, what);
    }

    fn fails_at(&mut self, at_ms: u64, invariant: u8, about: &[&dyn ToString], what: String) {
        let about = about.iter().map(|subject| subject.to_string()).collect();
        self.broken(Violation { invariant, at_ms, what, about });
    }
}
