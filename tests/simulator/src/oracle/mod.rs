//! The oracle: keeps books of its own, from the writes that were applied, and holds every write against the invariants. It trusts
//! no adapter and no record; what it knows of machines is the yard's truth. It changes nothing.

mod checkpoints;
mod claims;
mod end;
mod machines;
mod pools;
mod registrations;
mod runners;
mod shares;
mod tokens;

pub(crate) use machines::Token;

use super::calls::Kind;
use super::clocks::USUALLY_OFF_MS;
use super::faults::Fired;
use super::ground::Acting;
use super::ledger::{CheckpointChange, ClaimChange, Meaning, PoolChange, RunnerChange, Subject};
use super::schedule::SimClock;
use super::verdict::Violation;
use super::yard::Yard;
use checkpoints::Checkpoints;
use machines::Calls;
use motorpool_control::ports::ledger::Touch;
use motorpool_control::ports::tx::{Committed, Tx};
use motorpool_domain::checkpoint::Checkpoint;
use motorpool_domain::claim::{Claim, ClaimKey};
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{Runner, SEEN, StateName};
use motorpool_domain::{CheckpointName, ClaimId, PoolName, RunnerId, Threshold, Timestamp};
use pools::Shrunk;
use shares::Shares;
use std::collections::{BTreeMap, BTreeSet, HashMap};

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
    /// The hashes of tokens that agents have replaced.
    replaced: BTreeSet<String>,
    /// Who changed each runner last, and whether by taking it.
    writers: BTreeMap<RunnerId, (Option<Kind>, bool)>,
    claim_writers: BTreeMap<ClaimId, Option<Kind>>,
    shares: Shares,
    checkpoints: Checkpoints,
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
    pub(crate) fn races(&self, scene: &Scene<'_>, tx: &Tx, answer: &Committed) -> bool {
        let takes = tx.ops.iter().any(|op| matches!(Subject::of(op.path()), Subject::Claim(_)));
        let lost = tx.ops.iter().enumerate().filter(|(index, _)| answer.lost(*index).is_some());
        let met = |subject: Subject| match subject {
            Subject::Runner(id) => {
                let (last, taken) = self.writers.get(&id).copied().unwrap_or_default();
                (takes && last == Some(Kind::Refresh)) || (scene.by_refresh() && taken)
            }
            Subject::Claim(id) => {
                let last = self.claim_writers.get(&id).copied().flatten();
                last.is_some_and(|last| (last == Kind::Refresh) != scene.by_refresh())
            }
            Subject::Pool(_) | Subject::Checkpoint(_) | Subject::Other => false,
        };
        lost.map(|(_, op)| Subject::of(op.path())).any(met)
    }

    /// A transaction was applied.
    pub(crate) fn written(&mut self, scene: &Scene<'_>, meaning: &Meaning) {
        let Meaning { pools, runners, claims, checkpoints, shortages, slots } = meaning;
        for (pool, shortage) in shortages {
            self.shortage_noted(scene, pool, shortage);
        }
        for change in pools {
            match change {
                PoolChange::Defined(pool) => {
                    self.pool_changes(scene, pool);
                    self.note_room(scene.now_ms, &pool.name);
                }
                PoolChange::Deleted(name) => {
                    self.pools.remove(name);
                }
            }
        }
        // What a claim gains, it may hold from the same write on. One that ends by it lets go of its runners.
        let gains = !runners.is_empty() && claims.iter().any(|change| change.after.state.open());
        for ClaimChange { before, after } in claims {
            self.is_given_in_turn(scene, before.as_ref(), after);
            match before {
                None => self.opens(scene, after),
                Some(before) if gains => self.claim_gains(scene, before, after),
                Some(before) => self.claim_changes(scene, before, after),
            }
        }
        for CheckpointChange { before, after } in checkpoints {
            self.checkpoint_changes(scene, before.as_ref(), after);
        }
        self.calls_rise(scene, runners);
        for RunnerChange { before, after } in runners {
            match before {
                Some(before) => self.runner_changes(scene, before, after),
                None => {
                    self.new_life(scene, after);
                    self.call_written(scene, after);
                    self.held_as_listed(scene, after);
                }
            }
            self.put_runner(scene, after, gains && before.is_some());
            if gains {
                self.held_by_one(scene, after);
            }
        }
        self.note_rooms(scene.now_ms, runners);
        for ClaimChange { before, after } in claims {
            if let Some(before) = before {
                self.settles(scene, before, after);
            }
        }
        if let Some(taken) = slots {
            self.intents_fit(scene, taken);
        }
    }

    /// A heartbeat counts in its own life only.
    pub(crate) fn touched(&mut self, touch: &Touch) {
        let Subject::Runner(id) = Subject::of(&touch.path) else { return };
        let Some(runner) = self.runners.get_mut(&id) else { return };
        let heard = touch.marks.iter().find(|(mark, _)| mark == SEEN).map(|(_, at)| *at);
        if let Some(at) = heard
            && runner.epoch.0 == touch.epoch
            && runner.state.name().live()
        {
            runner.seen_at = Some(Timestamp::from_millis(at));
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

    pub(crate) fn checkpoint_is(&mut self, now_ms: u64, id: &CheckpointName, found: Option<&Checkpoint>) {
        // Only when to look at it again is not written as a change.
        let bare = |checkpoint: &Checkpoint| (checkpoint.rev, checkpoint.state.clone(), checkpoint.finalized);
        let known = self.checkpoint(id);
        if known.map(bare) != found.map(bare) {
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
