//! Takes machines that are on their way for nobody, before others are launched: their claim ended before they came, as when a workflow
//! is cancelled and begun anew, or they were to be spares.

use crate::control::Control;
use crate::filling::Filling;
use crate::refused::Refused;
use crate::store::Page;
use crate::take::Candidate;
use motorpool_domain::Timestamp;
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{Runner, StateName, can_be_taken_on_its_way};

/// How many are looked at beyond those that the claim lacks: some may not be for it, or be taken by others just now.
const MORE: u32 = 20;

impl Control {
    /// Nothing, if the claim was written by somebody else meanwhile.
    pub(crate) async fn adopt(&self, pool: &Pool, mut filling: Filling) -> Result<Option<Filling>, Refused> {
        if !pool.rules.backend.launches() {
            return Ok(Some(filling));
        }
        let (now, at_most) = (self.now(), filling.claim.short().saturating_add(MORE));
        let mut coming = self.coming_for_nobody(pool, at_most, now).await?;
        // Who comes at the same moment begins elsewhere.
        let begin = filling.claim.id.as_str().bytes().map(usize::from).sum::<usize>();
        let turn = begin.checked_rem(coming.len()).unwrap_or_default();
        coming.rotate_left(turn);
        for runner in &coming {
            if filling.claim.short() == 0 {
                break;
            }
            // The list may be older than the claim.
            let has_it = filling.claim.members.iter().any(|member| member.runner == runner.id);
            if has_it || filling.claim.ask.want.misfit(&runner.offer).is_some() {
                continue;
            }
            match self.take(pool, &filling, runner, now).await? {
                Candidate::Taken { claim, runner } => filling = filling.with(*claim, *runner),
                Candidate::Stale | Candidate::Unfit(_) => {}
                Candidate::ClaimLost => return Ok(None),
            }
        }
        Ok(Some(filling))
    }

    /// Whether a claim that waits at the pool's maximum could get one.
    pub(crate) async fn has_one_on_its_way(&self, pool: &Pool) -> Result<bool, Refused> {
        Ok(!self.coming_for_nobody(pool, MORE, self.now()).await?.is_empty())
    }

    /// They are listed before those that somebody holds.
    async fn coming_for_nobody(
        &self,
        pool: &Pool,
        at_most: u32,
        now: Timestamp,
    ) -> Result<Vec<Runner>, Refused> {
        let page = Page::first(at_most);
        let mut coming = self.store.list_runners(&pool.name, Some(StateName::Created), page).await?.items;
        coming.retain(|runner| can_be_taken_on_its_way(runner, now));
        Ok(coming)
    }
}
