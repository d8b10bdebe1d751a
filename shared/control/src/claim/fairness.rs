//! Whether a claim may take or launch runners now: within its team's limits, and in its turn, as far as the lists tell. They may be late, and
//! nothing that must be right depends on it.

use super::Waits;
use crate::control::Control;
use crate::error::Refused;
use crate::launch::at_its_maximum;
use crate::store::{Page, WhichClaims};
use motorpool_domain::claim::{Claim, OverLimit, Room, TeamWaiting, Turn, in_turn, lacked_before, turn};
use motorpool_domain::pool::{LARGEST_POOL, Pool, PoolRecord};
use motorpool_domain::runner::StateName;
use motorpool_domain::{ClaimId, Owner, PoolName};
use std::collections::BTreeMap;

/// How many of those who wait longest are looked at first. Each lacks a runner at least: where there is less room than this, all who
/// come first are counted, and where there is more, there is no crowd.
const FIRST: u32 = 20;

/// What a claim may get now.
#[derive(Debug)]
pub(super) enum MayGet {
    WhatThereIs,
    /// What is idle is for others.
    NewMachines,
    Nothing(Waits),
}

impl Control {
    pub(super) async fn may_get(&self, record: &PoolRecord, claim: &Claim) -> Result<MayGet, Refused> {
        let not_before = claim.launch_not_before;
        if let Some(over) = self.over_limit(claim).await? {
            return Ok(MayGet::Nothing(Waits::for_limit(over, not_before)));
        }
        let PoolRecord { pool, used, rev: _ } = record;
        let alike = pool.rules.backend.launches();
        let oldest = self.store.list_claims(&pool.name, WhichClaims::Short, Page::first(FIRST)).await?;
        let has_all = oldest.next.is_none();
        let oldest: Vec<Claim> = oldest.items.into_iter().filter(is_in_the_way).collect();
        // Where one team waits alone, its shares do not matter.
        if has_all && oldest.iter().all(|other| other.key.owner == claim.key.owner) {
            let alone = TeamWaiting { owner: claim.key.owner.clone(), shares: 0, waiting: oldest.clone() };
            if lacked_before(claim, &[alone], alike) == 0 {
                return Ok(MayGet::WhatThereIs);
            }
        }
        // The room is read before those who want it: who is served in between makes the one smaller, and the other not larger.
        let idle = self.store.count_runners(&pool.name, StateName::Idle, LARGEST_POOL).await?;
        let teams = self.teams_waiting(&pool.name, oldest, Some(&claim.key.owner)).await?;
        let lacked = lacked_before(claim, &teams, alike);
        Ok(match turn(claim, lacked, Room { idle, slots: launchable(record) }) {
            Turn::Takes => MayGet::WhatThereIs,
            Turn::Launches => MayGet::NewMachines,
            Turn::Waits => MayGet::Nothing(Waits::new(
                match pool.free_slots(*used) {
                    0 => at_its_maximum(record),
                    // Without numbers: a reason that changes all the time would be written all the time.
                    _ => format!("others come first for what pool {} has left", pool.name),
                },
                not_before,
            )),
        })
    }

    /// Those whose turn is next; and behind them those of the oldest that wait for a limit of their team, which may have room by now.
    pub(crate) async fn next_in_turn(
        &self,
        pool: &PoolName,
        at_most: usize,
    ) -> Result<Vec<ClaimId>, Refused> {
        let oldest = self.store.list_claims(pool, WhichClaims::Short, Page::first(FIRST)).await?.items;
        if oldest.is_empty() {
            return Ok(Vec::new());
        }
        let (waiting, held_back): (Vec<Claim>, Vec<Claim>) = oldest.into_iter().partition(is_in_the_way);
        let teams = self.teams_waiting(pool, waiting, None).await?;
        let next = in_turn(&teams).into_iter().take(at_most);
        Ok(next.chain(held_back.iter().take(at_most)).map(|claim| claim.id.clone()).collect())
    }

    /// Everybody who waits at the pool, team by team, `own` always among them. `oldest` may have claims that an older control plane wrote, and
    /// that stand in no team's list.
    async fn teams_waiting(
        &self,
        pool: &PoolName,
        oldest: Vec<Claim>,
        own: Option<&Owner>,
    ) -> Result<Vec<TeamWaiting>, Refused> {
        let mut by_age = BTreeMap::new();
        for claim in oldest.into_iter().chain(self.store.waiting_by_team(pool).await?) {
            by_age.insert((claim.opened_at, claim.id.clone()), claim);
        }
        let mut by_team: BTreeMap<Owner, Vec<Claim>> = BTreeMap::new();
        if let Some(own) = own {
            by_team.insert(own.clone(), Vec::new());
        }
        for claim in by_age.into_values() {
            by_team.entry(claim.key.owner.clone()).or_default().push(claim);
        }
        let alone = by_team.len() == 1;
        let mut teams = Vec::new();
        for (owner, waiting) in by_team {
            let shares = match alone {
                true => 0,
                false => self.store.count_shares(&owner, pool, LARGEST_POOL).await?,
            };
            teams.push(TeamWaiting { owner, shares, waiting });
        }
        Ok(teams)
    }

    /// A soft count: claims that are served at the same moment may exceed it together.
    async fn over_limit(&self, claim: &Claim) -> Result<Option<OverLimit>, Refused> {
        let owner = &claim.key.owner;
        let Some(limits) = self.limits_of(owner) else { return Ok(None) };
        let Some(max) = limits.max_slots else { return Ok(None) };
        let used = self.store.count_slots(owner, max).await?;
        Ok(limits.over_slots(owner, used, claim.short()))
    }

    /// Whether anything could be had by a claim that waits for nothing else.
    pub(crate) async fn has_room(&self, pool: &Pool) -> Result<bool, Refused> {
        let record = self.pool_record(&pool.name).await?;
        Ok(pool.free_slots(record.used) > 0
            || self.store.count_runners(&pool.name, StateName::Idle, 1).await? > 0
            || self.has_one_starting(pool, self.now()).await?)
    }
}

/// One that waits for a limit of its team is in nobody's way.
fn is_in_the_way(claim: &Claim) -> bool {
    claim.over_limit.is_none()
}

/// A machine that somebody has to register is not there because a slot is free.
fn launchable(record: &PoolRecord) -> u32 {
    match record.pool.rules.backend.launches() {
        true => record.pool.free_slots(record.used),
        false => 0,
    }
}
