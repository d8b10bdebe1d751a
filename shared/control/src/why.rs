//! Reads about claims: one, many, and a claim's story.

use crate::advance::ClaimNow;
use crate::caller::Caller;
use crate::control::Control;
use crate::refused::Refused;
use crate::store::{Listed, Page, WhichClaims};
use motorpool_domain::claim::Claim;
use motorpool_domain::record::Key;
use motorpool_domain::runner::Runner;
use motorpool_domain::{ClaimId, PoolName, RunnerId};
use motorpool_wire::api::{ClaimView, ClaimsPage, WhyView};

/// How much of a claim's log its story tells.
const STORY: u32 = 50;
const MOST_WAITING: u32 = 1_000;

impl Control {
    /// The claim, brought as far as it gets.
    pub async fn view_claim(&self, caller: &Caller, claim: &ClaimId) -> Result<ClaimView, Refused> {
        caller.may_see(&self.claim_record(claim).await?)?;
        let now = self.advance(claim).await?;
        Ok(self.claim_view(&now))
    }

    /// A team sees its own claims.
    pub async fn list_claims(
        &self,
        caller: &Caller,
        pool: &PoolName,
        page: Page,
    ) -> Result<ClaimsPage, Refused> {
        self.pool_record(pool).await?;
        let listed = self.own_claims(caller, pool, page).await?;
        let seen: Vec<Claim> =
            listed.items.into_iter().filter(|claim| caller.may_see(claim).is_ok()).collect();
        // All their runners in one read: a page may be long.
        let ids: Vec<RunnerId> =
            seen.iter().flat_map(|claim| &claim.members).map(|member| member.runner.clone()).collect();
        let mut runners = self.store.runners(&ids).await?.into_iter();
        let claims = seen
            .into_iter()
            .map(|claim| {
                let members = runners.by_ref().take(claim.members.len()).collect();
                self.claim_view(&ClaimNow { claim, members })
            })
            .collect();
        Ok(ClaimsPage { claims, next: listed.next })
    }

    /// A page that ends with a claim of the caller's own, if it has any: where it ended is told, and must name no other's.
    async fn own_claims(
        &self,
        caller: &Caller,
        pool: &PoolName,
        mut page: Page,
    ) -> Result<Listed<Claim>, Refused> {
        loop {
            let listed = self.store.list_claims(pool, WhichClaims::All, page.clone()).await?;
            let own = listed.items.iter().rposition(|claim| caller.may_see(claim).is_ok());
            match (own, &listed.next) {
                (_, None) => return Ok(listed),
                (Some(last), Some(_)) if last + 1 == listed.items.len() => return Ok(listed),
                (Some(last), Some(_)) => page.at_most = u32::try_from(last + 1).unwrap_or(page.at_most),
                (None, Some(after)) => page.after = Some(after.clone()),
            }
        }
    }

    pub async fn why(&self, caller: &Caller, claim: &ClaimId) -> Result<WhyView, Refused> {
        caller.may_see(&self.claim_record(claim).await?)?;
        let now = self.advance(claim).await?;
        let view = self.claim_view(&now);
        let mut history = self.store.audit(&Key::from(claim), Page::first(STORY)).await?.items;
        history.reverse();
        let runners = now.members.iter().flatten().map(|runner| self.in_words(runner, claim)).collect();
        Ok(WhyView { claim: claim.clone(), state: view.state, why: view.why, runners, history })
    }

    pub(crate) async fn count_waiting(&self, pool: &PoolName) -> Result<u32, Refused> {
        let listed = self.store.list_claims(pool, WhichClaims::Waiting, Page::first(MOST_WAITING)).await?;
        Ok(u32::try_from(listed.items.len()).unwrap_or(MOST_WAITING))
    }

    fn in_words(&self, runner: &Runner, claim: &ClaimId) -> String {
        let whose = if runner.held_by(claim) { "" } else { ", no longer this claim's" };
        let heard = match runner.seen_at {
            Some(seen_at) => format!("heard from {} s ago", self.now().since(seen_at).as_secs()),
            None => "not heard from yet".to_owned(),
        };
        let why = self.reason(runner).map(|why| format!(" ({why})")).unwrap_or_default();
        format!("{} is {}{why}{whose}, {heard}", runner.id, runner.state.name())
    }
}
