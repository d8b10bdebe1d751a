//! Invariant 34: no team waits for its first share of a pool while another is given a second one.
//!
//! How it counts. A share is a claim that holds a runner of the pool. A claim is given one by the write with which it gains its first runner; what it
//! gains later belongs to the same share. Its team has another share if another claim of it held a runner of the pool all the time, and a second
//! team waits for its first if none of its claims held one and one of them lacked a runner all the time: since before the use case that writes
//! began, less what an index may be behind. What changed since then nobody can have read. Where there was enough for both at any moment since,
//! nobody is kept waiting by it.

use super::{Oracle, Scene};
use crate::faults::Fault;
use crate::ledger::{MOST_LAG_MS, RunnerChange};
use motorpool_domain::claim::Claim;
use motorpool_domain::runner::RunnerState;
use motorpool_domain::{ClaimId, Owner, PoolName};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Shares {
    /// Since when each open claim holds a runner.
    holding: BTreeMap<ClaimId, u64>,
    /// Since when each open claim lacks runners and holds none.
    waiting: BTreeMap<ClaimId, u64>,
    /// When a team's last share ended.
    without: BTreeMap<(PoolName, Owner), u64>,
    /// What each pool had to give, from when on.
    rooms: BTreeMap<PoolName, Vec<Room>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Room {
    from_ms: u64,
    idle: u32,
    slots: u32,
}

impl Oracle {
    /// Before `after` is noted: whether it may be given a share now.
    pub(super) fn is_given_in_turn(&mut self, scene: &Scene<'_>, before: Option<&Claim>, after: &Claim) {
        let held_one = before.is_some_and(|before| !before.members.is_empty());
        if held_one || after.members.is_empty() {
            return;
        }
        // A write that arrives when its sender is no more was decided on who knows what.
        let Some(acting) = scene.acting else { return };
        let seen_ms = acting.begun_at_ms.saturating_sub(MOST_LAG_MS);
        let (pool, owner) = (&after.key.pool, &after.key.owner);
        let has_share = self.in_pool(pool).any(|claim| {
            claim.id != after.id
                && claim.key.owner == *owner
                && self.shares.holding.get(&claim.id).is_some_and(|since| *since < seen_ms)
        });
        if !has_share {
            let others_wait = self.in_pool(pool).any(|claim| {
                claim.key.owner != *owner
                    && self.shares.waiting.contains_key(&claim.id)
                    && claim.id != after.id
            });
            if others_wait {
                self.fired.note(Fault::FirstShareInTurn);
            }
            return;
        }
        let firsts = self.first_shares_waited_for(pool, owner, seen_ms);
        let Some(kept_waiting) = firsts.first() else { return };
        let lacked: u32 = firsts.iter().map(|claim| claim.short()).sum();
        let asks = before.map_or(after.ask.count, Claim::short);
        let (idle, slots) = self.most_room(pool, seen_ms);
        let enough = lacked + asks <= idle || lacked.saturating_sub(idle) + asks <= slots;
        if enough {
            return;
        }
        let what = format!(
            "{} of {owner} is given another share of {pool}, and {} of {} waits for its first",
            after.id, kept_waiting.id, kept_waiting.key.owner
        );
        let about = kept_waiting.id.clone();
        self.fails(scene, 34, &[&after.id, &about], what);
    }

    /// Of each other team that had no share and waited all the time since, its oldest claim.
    fn first_shares_waited_for(&self, pool: &PoolName, but: &Owner, since_ms: u64) -> Vec<&Claim> {
        let mut firsts: BTreeMap<&Owner, &Claim> = BTreeMap::new();
        for claim in self.in_pool(pool).filter(|claim| claim.key.owner != *but) {
            let owner = &claim.key.owner;
            let waits = self.shares.waiting.get(&claim.id).is_some_and(|since| *since < since_ms);
            let lost = self.shares.without.get(&(pool.clone(), owner.clone())).copied().unwrap_or(0);
            let holds = self
                .in_pool(pool)
                .any(|other| other.key.owner == *owner && self.shares.holding.contains_key(&other.id));
            if waits && lost < since_ms && !holds && !claim.ask.idle_only {
                let first = firsts.entry(owner).or_insert(claim);
                if (claim.opened_at, &claim.id) < (first.opened_at, &first.id) {
                    *first = claim;
                }
            }
        }
        firsts.into_values().collect()
    }

    fn in_pool<'a>(&'a self, pool: &PoolName) -> impl Iterator<Item = &'a Claim> + use<'a> {
        let pool = pool.clone();
        let known = self.shares.holding.keys().chain(self.shares.waiting.keys());
        known.filter_map(|id| self.claim(id)).filter(move |claim| claim.key.pool == pool)
    }

    /// A claim is so from now on.
    pub(super) fn note_share(&mut self, now_ms: u64, claim: &Claim) {
        let Shares { holding, waiting, without, rooms: _ } = &mut self.shares;
        match claim.state.open() && !claim.members.is_empty() {
            true => {
                holding.entry(claim.id.clone()).or_insert(now_ms);
            }
            false => {
                if holding.remove(&claim.id).is_some() {
                    without.insert((claim.key.pool.clone(), claim.key.owner.clone()), now_ms);
                }
            }
        }
        match claim.state.open() && claim.members.is_empty() && claim.over_limit.is_none() {
            true => {
                waiting.entry(claim.id.clone()).or_insert(now_ms);
            }
            false => {
                waiting.remove(&claim.id);
            }
        }
    }

    /// Runners or the pool itself have changed.
    pub(super) fn note_room(&mut self, now_ms: u64, pool: &PoolName) {
        let Some(rules) = self.pools.get(pool).map(|pool| &pool.rules) else { return };
        let idle = self.live().filter(|runner| runner.pool == *pool && runner.state == RunnerState::Idle);
        let idle = u32::try_from(idle.count()).unwrap_or(u32::MAX);
        let slots = match rules.backend.launches() {
            true => rules.max.saturating_sub(self.live_in(pool)),
            false => 0,
        };
        let rooms = self.shares.rooms.entry(pool.clone()).or_default();
        if rooms.last().is_none_or(|last| (last.idle, last.slots) != (idle, slots)) {
            rooms.push(Room { from_ms: now_ms, idle, slots });
        }
    }

    pub(super) fn note_rooms(&mut self, now_ms: u64, runners: &[RunnerChange]) {
        let pools: std::collections::BTreeSet<PoolName> =
            runners.iter().map(|change| change.after.pool.clone()).collect();
        for pool in &pools {
            self.note_room(now_ms, pool);
        }
    }

    /// The most that the pool has had since: of each, at whichever moment.
    fn most_room(&self, pool: &PoolName, since_ms: u64) -> (u32, u32) {
        let rooms = self.shares.rooms.get(pool).map(Vec::as_slice).unwrap_or_default();
        let first = rooms.partition_point(|room| room.from_ms <= since_ms).saturating_sub(1);
        let since = rooms.get(first..).unwrap_or_default();
        let most = |of: fn(&Room) -> u32| since.iter().map(of).max().unwrap_or_default();
        (most(|room| room.idle), most(|room| room.slots))
    }
}
