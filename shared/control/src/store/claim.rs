//! Claims: reading, listing, and the conditional write of one record with its log entry. How one is opened is in `opening`.

use super::listing::{self, Listed, Page};
use super::{Found, Store, Written, log, read, read_or_skip, row};
use crate::ports::ledger::{Children, LedgerError, Order, Placed, Span};
use crate::ports::tx::{Op, Tx};
use motorpool_domain::claim::{Claim, ClaimKey, ClaimName};
use motorpool_domain::record::{Key, Path, Record};
use motorpool_domain::{AuditEntry, ClaimId, Owner, PoolName, Workflow};

/// The condition is the revision and state of `before`.
#[derive(Debug, Clone, Copy)]
pub struct ClaimWrite<'a> {
    pub before: &'a Claim,
    pub after: &'a Claim,
    pub entry: &'a AuditEntry,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichClaims {
    /// Those that lack a runner.
    Short,
    /// Those that wait for something, be it only for the runners that they have.
    Waiting,
    Open,
    /// Ended ones as well, while they are kept.
    All,
}

impl WhichClaims {
    fn has(self, claim: &Claim) -> bool {
        match self {
            Self::Short => claim.short() > 0,
            Self::Waiting => claim.waiting(),
            Self::Open => claim.state.open(),
            Self::All => true,
        }
    }
}

/// Where a claim stands in the listing that is asked for, which may be merged of several stretches.
struct InListing {
    position: String,
    placed: Placed,
}

impl Store {
    pub async fn claim(&self, id: &ClaimId) -> Result<Option<Claim>, LedgerError> {
        self.one(Key::from(id).into()).await
    }

    /// In the order asked for.
    pub async fn find_claims(&self, ids: &[ClaimId]) -> Result<Vec<Found<Claim>>, LedgerError> {
        let paths: Vec<Path> = ids.iter().map(|id| Key::from(id).into()).collect();
        self.find(&paths).await
    }

    /// The latest claim with this key.
    pub async fn claim_by_key(&self, key: &ClaimKey) -> Result<Option<Claim>, LedgerError> {
        let Some(ClaimName { claim, .. }) = self.one(ClaimName::path_of(key)).await? else { return Ok(None) };
        self.claim(&claim).await
    }

    /// The latest claim of the workflow on each pool.
    pub async fn claims_of(&self, owner: &Owner, workflow: &Workflow) -> Result<Vec<Claim>, LedgerError> {
        let (low, high) = ("pool#".to_owned(), "pool#~".to_owned());
        let of = ClaimName::workflow(owner, workflow);
        let children = Children { of, low, high, order: Order::Rising };
        let names = self.ledger.children(&children, usize::MAX).await?;
        let names = names.iter().filter_map(read_or_skip::<ClaimName>);
        let paths: Vec<Path> = names.map(|name| Key::from(&name.claim).into()).collect();
        Ok(self.many(&paths).await?.into_iter().flatten().collect())
    }

    pub async fn write_claim(&self, write: ClaimWrite<'_>) -> Result<Written<Claim>, LedgerError> {
        const RECORD: usize = 0;
        let tx = Tx::default().with(replace(write)?).logged(log::of(write.after, write.entry)?);
        match self.commit(&tx).await?.lost(RECORD) {
            None => Ok(Written::Done),
            Some(None) => Ok(Written::Missing),
            Some(Some(found)) => Ok(Written::Lost { found: read(found)? }),
        }
    }

    /// For display and sweeps, oldest first: an index, and so perhaps late.
    pub async fn list_claims(
        &self,
        pool: &PoolName,
        which: WhichClaims,
        page: Page,
    ) -> Result<Listed<Claim>, LedgerError> {
        let spans = listing::claim_spans(pool, which, &page)?;
        let Listed { items, next } = self.merged(spans, &page, listing::claim_position_at).await?;
        let found = items.iter().filter_map(|placed| placed.row.as_ref());
        // The index is late: what has moved on since is not what was asked for.
        let asked_for = found.filter_map(read_or_skip::<Claim>).filter(|claim| which.has(claim));
        Ok(Listed { items: asked_for.collect(), next })
    }

    /// One page of several stretches, one after the other, those that stand together merged by `position`.
    pub(super) async fn merged(
        &self,
        spans: Vec<Vec<Span>>,
        page: &Page,
        position: impl Fn(&str) -> String,
    ) -> Result<Listed<Placed>, LedgerError> {
        let mut all: Vec<InListing> = Vec::new();
        for together in spans {
            let missing = listing::to_read(page).saturating_sub(all.len());
            if missing == 0 {
                break;
            }
            let mut merged = Vec::new();
            for span in together {
                for placed in self.ledger.list(&span, missing).await? {
                    merged.push(InListing { position: position(&placed.sort), placed });
                }
            }
            merged.sort_by(|a, b| a.position.cmp(&b.position));
            // One that moved from stretch to stretch between the two reads is found in both.
            merged.dedup_by(|later, earlier| later.placed.path == earlier.placed.path);
            all.extend(merged);
        }
        let Listed { items, next } = listing::cut(all, page, |claim| claim.position.clone());
        Ok(Listed { items: items.into_iter().map(|claim| claim.placed).collect(), next })
    }
}

/// `after` in the place of `before`, as a part of a transaction.
pub(super) fn replace(write: ClaimWrite<'_>) -> Result<Op, LedgerError> {
    Ok(Op::Replace { row: row(write.after)?, was: write.before.version(), counter: None })
}
