//! Whether it is a claim's turn to take or launch runners, as far as the lists tell: they may be late, and nothing that must be
//! right depends on it.

use crate::control::Control;
use crate::error::Refused;
use crate::launch::at_its_maximum;
use crate::store::{Page, WhichClaims};
use motorpool_domain::claim::{Claim, is_its_turn, lacked_before};
use motorpool_domain::pool::{Pool, PoolRecord};
use motorpool_domain::runner::StateName;

/// How many of those who wait longest are looked at. Each lacks a runner at least: where there is less room than this, all who
/// come first are counted, and where there is more, there is no crowd.
const FIRST: u32 = 20;

impl Control {
    /// The reason, if others come first.
    pub(super) async fn not_its_turn(
        &self,
        record: &PoolRecord,
        claim: &Claim,
    ) -> Result<Option<String>, Refused> {
        let PoolRecord { pool, used, rev: _ } = record;
        let lacked = self.lacked_before(pool, claim).await?;
        if lacked == 0 {
            return Ok(None);
        }
        // The room is read before those who want it: who is served in between makes the one smaller, and the other not larger.
        let enough = lacked.saturating_add(claim.short());
        let idle = self.store.count_runners(&pool.name, StateName::Idle, enough).await?;
        let free = pool.free_slots(*used);
        let room = idle.saturating_add(free);
        if room > 0 && is_its_turn(claim, self.lacked_before(pool, claim).await?, room) {
            return Ok(None);
        }
        Ok(Some(match free {
            0 => at_its_maximum(record),
            // Without numbers: a reason that changes all the time would be written all the time.
            _ => format!("claims that wait longer come first for what pool {} has left", pool.name),
        }))
    }

    async fn lacked_before(&self, pool: &Pool, claim: &Claim) -> Result<u32, Refused> {
        let short = self.store.list_claims(&pool.name, WhichClaims::Short, Page::first(FIRST)).await?;
        Ok(lacked_before(claim, &short.items, pool.rules.backend.launches()))
    }
}
