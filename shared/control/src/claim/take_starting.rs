//! Takes machines that are on their way for nobody, before others are launched: their claim ended before they came, as when a workflow
//! is cancelled and begun anew, or they were to be spares.

use super::{Draft, Filled, Waits};
use crate::control::Control;
use crate::error::Refused;
use crate::store::{Page, Taken};
use motorpool_domain::Timestamp;
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{Runner, StateName, can_be_taken_on_its_way};

/// How many are looked at beyond those that the claim lacks: some may not be for it, or be taken by others just now.
const MORE: u32 = 20;

impl Control {
    pub(super) async fn take_starting(
        &self,
        pool: &Pool,
        draft: &mut Draft,
        now: Timestamp,
    ) -> Result<Filled, Refused> {
        let mut starting = match pool.rules.backend.launches() {
            true => self.starting_for_nobody(pool, draft.claim.short().saturating_add(MORE), now).await?,
            false => Vec::new(),
        };
        // Who comes at the same moment begins elsewhere.
        let begin = draft.claim.id.as_str().bytes().map(usize::from).sum::<usize>();
        let turn = begin.checked_rem(starting.len()).unwrap_or_default();
        starting.rotate_left(turn);
        for runner in &starting {
            if draft.claim.short() == 0 {
                break;
            }
            // The list may be older than the claim.
            let has_it = draft.claim.members.iter().any(|member| member.runner == runner.id);
            if has_it || draft.claim.ask.want.misfit(&runner.offer).is_some() {
                continue;
            }
            match self.take_one(pool, draft, runner, now).await? {
                Taken::Done | Taken::RunnerLost { .. } => {}
                Taken::ClaimLost => return Ok(Filled::ClaimLost),
            }
        }
        if draft.claim.short() == 0 {
            return Ok(Filled::Whole);
        }
        let reason = format!("no machine of pool {} is on its way for nobody", pool.name);
        Ok(Filled::Short(Waits::new(reason, draft.claim.launch_not_before)))
    }

    /// Whether a claim that waits at the pool's maximum could get one.
    pub(crate) async fn has_one_starting(&self, pool: &Pool, now: Timestamp) -> Result<bool, Refused> {
        Ok(!self.starting_for_nobody(pool, MORE, now).await?.is_empty())
    }

    /// They are listed before those that somebody holds.
    async fn starting_for_nobody(
        &self,
        pool: &Pool,
        at_most: u32,
        now: Timestamp,
    ) -> Result<Vec<Runner>, Refused> {
        let page = Page::first(at_most);
        let mut starting = self.store.list_runners(&pool.name, Some(StateName::Created), page).await?.items;
        starting.retain(|runner| can_be_taken_on_its_way(runner, now));
        Ok(starting)
    }
}
