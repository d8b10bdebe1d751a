//! What a team has, and who waits at a pool, team by team. All of it is read from lists, and so perhaps late: it makes waiting fair and limits
//! what one team has, and nothing that must be right depends on it.

use super::listing::{self, Listed, Page};
use super::{Store, read_or_skip};
use crate::ports::ledger::{LedgerError, Placed};
use motorpool_domain::claim::{Claim, waiting_claims};
use motorpool_domain::record::{Place, Record};
use motorpool_domain::{Owner, PoolName};

/// How many claims of one team are looked at.
const OF_ONE_TEAM: usize = 20;
/// How many times the list is read for the next teams: with more teams than that, some wait unseen for a while.
const MOST_READS: usize = 100;

impl Store {
    /// One owner's claims on a pool, open and ended, oldest first.
    pub async fn list_team_claims(
        &self,
        owner: &Owner,
        pool: &PoolName,
        page: Page,
    ) -> Result<Listed<Claim>, LedgerError> {
        let spans = listing::team_spans(owner, pool, &page)?;
        let Listed { items, next } = self.merged(spans, &page, listing::team_position_at).await?;
        let found = items.iter().filter_map(|placed| placed.row.as_ref());
        let own = found.filter_map(read_or_skip::<Claim>).filter(|claim| claim.key.owner == *owner);
        Ok(Listed { items: own.collect(), next })
    }

    /// How many claims of an owner hold a runner of the pool, counted up to `at_most`.
    pub async fn count_shares(
        &self,
        owner: &Owner,
        pool: &PoolName,
        at_most: u32,
    ) -> Result<u32, LedgerError> {
        self.count_up_to(&listing::holding_span(owner, Some(pool)), at_most).await
    }

    /// How many open claims an owner has on all pools, counted up to `at_most`.
    pub async fn count_open_claims(&self, owner: &Owner, at_most: u32) -> Result<u32, LedgerError> {
        self.count_up_to(&listing::open_span(owner), at_most).await
    }

    /// How many runners the claims of an owner hold on all pools, counted up to `enough` or a little more: each of them holds one at least.
    pub async fn count_slots(&self, owner: &Owner, enough: u32) -> Result<u32, LedgerError> {
        let at_most = usize::try_from(enough).unwrap_or(usize::MAX);
        let holding = self.ledger.list(&listing::holding_span(owner, None), at_most).await?;
        let claims = holding.iter().filter_map(|placed| placed.row.as_ref()).filter_map(read_or_skip);
        let open = claims.filter(|claim: &Claim| claim.state.open());
        let held = open.map(|claim| u32::try_from(claim.members.len()).unwrap_or(u32::MAX));
        Ok(held.fold(0, u32::saturating_add))
    }

    /// The oldest claims of an owner that wait for one of its limits.
    pub async fn held_back(&self, owner: &Owner) -> Result<Vec<Claim>, LedgerError> {
        let lacking = self.ledger.list(&listing::lacking_span(owner), OF_ONE_TEAM).await?;
        let claims = lacking.iter().filter_map(|placed| placed.row.as_ref()).filter_map(read_or_skip);
        Ok(claims.filter(|claim: &Claim| claim.state.open() && claim.over_limit.is_some()).collect())
    }

    /// Those who have a part of their runners; and of each team that waits at the pool the oldest claims. Reads one page a team, however many
    /// claims it has.
    pub async fn waiting_by_team(&self, pool: &PoolName) -> Result<Vec<Claim>, LedgerError> {
        let (mut claims, mut low) = (Vec::new(), String::new());
        for _ in 0..MOST_READS {
            let mut page = self.ledger.list(&listing::waiting_span(pool, low.clone()), OF_ONE_TEAM).await?;
            let next = match page.len() == OF_ONE_TEAM {
                true => next_of(&mut page),
                false => None,
            };
            let found = page.iter().filter_map(|placed| placed.row.as_ref());
            // The index is late: who has moved on since does not wait any more.
            claims.extend(found.filter_map(read_or_skip::<Claim>).filter(|claim| waits_at(claim, pool)));
            match next {
                Some(next) => low = next,
                None => break,
            }
        }
        Ok(claims)
    }
}

/// Where to read on after a full page. A team that began within it may have more than it shows, and is left to the next page.
fn next_of(page: &mut Vec<Placed>) -> Option<String> {
    let (first, last) = (page.first()?.sort.clone(), page.last()?.sort.clone());
    let Some(team) = listing::its_team(&last) else { return Some(listing::behind(&last)) };
    if first.starts_with(&team) {
        return Some(listing::behind_all(&team));
    }
    page.retain(|placed| !placed.sort.starts_with(&team));
    Some(team)
}

fn waits_at(claim: &Claim, pool: &PoolName) -> bool {
    let list = waiting_claims(pool);
    claim.places().iter().any(|Place { list: of, .. }| *of == list)
}
