//! The runners of several lists, one list after the other, as one listing. A page is cut short rather than read through many empty lists.

use super::Store;
use super::listing::{self, Listed, Page};
use crate::ports::ledger::LedgerError;
use motorpool_domain::PoolName;
use motorpool_domain::runner::{Runner, StateName};

/// One list of a pool's runners: those that live, or those in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunnerList<'a> {
    pub pool: &'a PoolName,
    pub state: Option<StateName>,
}

/// How many lists are read for one page at most.
const MOST_LISTS: usize = 50;
/// What the listing of those that live is called where its page ended.
const LIVE: &str = "live";

impl RunnerList<'_> {
    /// A list's place among the others: by pool, and in one pool those that live come first.
    fn place(&self) -> (&str, bool) {
        (self.pool.as_str(), self.state == Some(StateName::Terminated))
    }

    fn state_name(&self) -> &'static str {
        self.state.map_or(LIVE, StateName::as_str)
    }
}

impl Store {
    /// `lists` in the order of their pools. A page may be shorter than asked for though another follows.
    pub async fn list_runners_of_all(
        &self,
        lists: &[RunnerList<'_>],
        page: Page,
    ) -> Result<Listed<Runner>, LedgerError> {
        let (mut at, mut after) = begin(lists, &page)?;
        let most = usize::try_from(page.at_most.max(1)).unwrap_or(usize::MAX);
        let mut items: Vec<Runner> = Vec::new();
        for _ in 0..MOST_LISTS {
            let Some(RunnerList { pool, state }) = lists.get(at).filter(|_| items.len() < most) else {
                break;
            };
            let room = u32::try_from(most - items.len()).unwrap_or(u32::MAX);
            let listed = self.list_runners(pool, *state, Page { at_most: room, after: after.take() }).await?;
            items.extend(listed.items);
            after = listed.next;
            if after.is_none() {
                at += 1;
            }
        }
        let position = |list: &RunnerList<'_>| {
            format!("{}/{}/{}", list.pool, list.state_name(), after.as_deref().unwrap_or_default())
        };
        Ok(Listed { items, next: lists.get(at).map(|list| listing::encoded(&position(list))) })
    }
}

/// The list that the page begins in, and where in it. A pool that is gone meanwhile is passed over.
fn begin(lists: &[RunnerList<'_>], page: &Page) -> Result<(usize, Option<String>), LedgerError> {
    let Some(text) = listing::decode(page)? else { return Ok((0, None)) };
    let mut parts = text.splitn(3, '/');
    let (Some(pool), Some(state), Some(after)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(listing::bad(page));
    };
    let (Ok(pool), Some(state)) = (PoolName::parse(pool), named(state)) else {
        return Err(listing::bad(page));
    };
    let asked = RunnerList { pool: &pool, state };
    let at = lists.iter().position(|list| list.place() >= asked.place()).unwrap_or(lists.len());
    let is_there = lists.get(at) == Some(&asked);
    Ok((at, Some(after.to_owned()).filter(|after| is_there && !after.is_empty())))
}

fn named(text: &str) -> Option<Option<StateName>> {
    match text {
        LIVE => Some(None),
        text => StateName::ALL.into_iter().find(|state| state.as_str() == text).map(Some),
    }
}
