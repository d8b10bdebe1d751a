//! Reads about claims: one, many, and a claim's story.

use super::ClaimNow;
use crate::caller::Caller;
use crate::control::Control;
use crate::error::Refused;
use crate::runner::runner_reason;
use crate::store::{Page, WhichClaims};
use motorpool_domain::record::Key;
use motorpool_domain::runner::Runner;
use motorpool_domain::{ClaimId, PoolName, RunnerId, Timestamp};
use motorpool_wire::api::{ClaimView, ClaimsPage, WhyView};

/// How much of a claim's log its story tells.
const STORY: u32 = 50;
const MOST_WAITING: u32 = 1_000;

impl Control {
    /// The claim, brought as far as it gets.
    pub async fn view_claim(&self, caller: &Caller, claim: &ClaimId) -> Result<ClaimView, Refused> {
        let now = self.now();
        let seen = self.seen_claim(caller, claim, now).await?;
        Ok(self.claim_view(&seen, now))
    }

    /// The claim as it is now, brought as far as it gets, if the caller may see it.
    async fn seen_claim(
        &self,
        caller: &Caller,
        claim: &ClaimId,
        now: Timestamp,
    ) -> Result<ClaimNow, Refused> {
        let claim = self.claim_record(claim).await?;
        caller.may_see(&claim)?;
        self.reconcile_claim(claim, now).await
    }

    /// A team sees its own claims.
    pub async fn list_claims(
        &self,
        caller: &Caller,
        pool: &PoolName,
        page: Page,
    ) -> Result<ClaimsPage, Refused> {
        let pool_record = self.pool_record(pool).await?;
        let now = self.now();
        let listed = match caller {
            Caller::Operator => self.store.list_claims(pool, WhichClaims::All, page).await?,
            Caller::Team(owner) => self.store.list_team_claims(owner, pool, page).await?,
        };
        let seen = listed.items;
        // All their runners in one read: a page may be long.
        let ids: Vec<RunnerId> =
            seen.iter().flat_map(|claim| &claim.members).map(|member| member.runner.clone()).collect();
        let mut runners = self.store.find_runners(&ids).await?.into_iter();
        let claims = seen
            .into_iter()
            .map(|claim| {
                let members = runners.by_ref().take(claim.members.len()).collect();
                self.claim_view(&ClaimNow { claim, members, pool: Some(pool_record.clone()) }, now)
            })
            .collect();
        Ok(ClaimsPage { claims, next: listed.next })
    }

    pub async fn why(&self, caller: &Caller, claim: &ClaimId) -> Result<WhyView, Refused> {
        let now = self.now();
        let seen = self.seen_claim(caller, claim, now).await?;
        let view = self.claim_view(&seen, now);
        let mut history = self.store.audit(&Key::from(claim), Page::first(STORY)).await?.items;
        history.reverse();
        let runners = seen.shown_members().map(|(_, runner)| in_words(runner, claim, now)).collect();
        Ok(WhyView { claim: claim.clone(), state: view.state, why: view.why, runners, history })
    }

    pub(crate) async fn count_waiting(&self, pool: &PoolName) -> Result<u32, Refused> {
        let listed = self.store.list_claims(pool, WhichClaims::Waiting, Page::first(MOST_WAITING)).await?;
        Ok(u32::try_from(listed.items.len()).unwrap_or(MOST_WAITING))
    }
}

fn in_words(runner: &Runner, claim: &ClaimId, now: Timestamp) -> String {
    let whose = if runner.held_by(claim) { "" } else { ", no longer this claim's" };
    let heard = match runner.seen_at {
        Some(seen_at) => format!("heard from {} s ago", now.since(seen_at).as_secs()),
        None => "not heard from yet".to_owned(),
    };
    let why = runner_reason(runner).map(|why| format!(" ({why})")).unwrap_or_default();
    format!("{} is {}{why}{whose}, {heard}", runner.id, runner.state.name())
}
