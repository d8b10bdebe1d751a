//! Lets go of an ended claim's runners. The end is written first; this can be repeated, and refresh does.

use crate::apply::Applied;
use crate::control::Control;
use crate::refused::Refused;
use motorpool_domain::claim::{Claim, ClaimState};
use motorpool_domain::runner::{Runner, RunnerEvent};
use motorpool_domain::{Actor, RunnerId};

impl Control {
    /// Whether a machine is on its way for nobody now, that was for this claim.
    pub(crate) async fn settle(&self, claim: &Claim) -> Result<bool, Refused> {
        let (mut on_its_way, mut has_one) = (false, false);
        if !claim.settling {
            return Ok(on_its_way);
        }
        let why = match &claim.state {
            ClaimState::Released { why, .. } => format!("{} was released: {why}", claim.id),
            ClaimState::Failed { why, .. } => format!("{} failed: {why}", claim.id),
            ClaimState::Pending | ClaimState::Ready { .. } => return Ok(on_its_way),
        };
        let Some(record) = self.store.pool(&claim.key.pool).await? else {
            // A pool is deleted only when no slot of it is used: all its runners are over.
            let why = "its pool was deleted, and with it no runner was left";
            self.wrote_claim(claim, &claim.settled(), "let go of its runners", why).await?;
            return Ok(on_its_way);
        };
        let pool = record.pool;
        let ids: Vec<RunnerId> = claim.members.iter().map(|member| member.runner.clone()).collect();
        let event = RunnerEvent::Release { why };
        for (member, runner) in claim.members.iter().zip(self.store.runners(&ids).await?) {
            let is_its = |runner: &Runner| runner.epoch == member.epoch && runner.held_by(&claim.id);
            let Some(runner) = runner.filter(is_its) else { continue };
            match self.apply(&pool, &runner, &event, &Actor::Control).await? {
                Applied::Changed { after, .. } => on_its_way |= after.state.is_free(),
                Applied::Stayed | Applied::Refused(_) => {}
                Applied::Overtaken => {
                    // Where its state is another now, the claim stays unsettled, and the next pass looks again.
                    has_one |= self.store.runner(&runner.id).await?.is_some_and(|now| is_its(&now));
                }
            }
        }
        if !has_one {
            self.wrote_claim(claim, &claim.settled(), "let go of its runners", "it has ended").await?;
        }
        Ok(on_its_way)
    }
}
