//! Claims: reading, listing, opening one under its key, and the conditional write of one record with its log entry.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::TransactWriteItem;
use motorpool_control::ports::ledger::{
    ClaimGain, ClaimOpening, ClaimWrite, LedgerError, Listed, Opened, Page, WhichClaims, Written,
};
use motorpool_domain::claim::{Claim, ClaimKey};
use motorpool_domain::{ClaimId, Owner, PoolName, Timestamp, Workflow};

use super::expression::Expression;
use super::items::{self, CLAIM_ID, Item, REV, STATE, claim_columns, expiry, item, key, n, record_key, s};
use super::read::Placed;
use super::transact::{Outcome, Reasons, transact};
use super::{DynamoLedger, audit, failed, read};
use crate::keys::{claim_key_sk, claim_pk, workflow_pk};
use crate::listing;
use crate::places::key_kept_until;
use crate::table::{EXPIRES_AT, PK};

pub(super) async fn one(ledger: &DynamoLedger, id: &ClaimId) -> Result<Option<Claim>, LedgerError> {
    let found = read::one(ledger, &format!("read claim {id}"), record_key(claim_pk(id))).await?;
    found.as_ref().map(items::claim).transpose()
}

pub(super) async fn by_key(ledger: &DynamoLedger, key: &ClaimKey) -> Result<Option<Claim>, LedgerError> {
    match latest(ledger, key).await? {
        Some(id) => one(ledger, &id).await,
        None => Ok(None),
    }
}

pub(super) async fn of(
    ledger: &DynamoLedger,
    owner: &Owner,
    workflow: &Workflow,
) -> Result<Vec<Claim>, LedgerError> {
    let attempted = format!("read the claims of {workflow}");
    let query = ledger
        .client
        .query()
        .table_name(&ledger.table)
        .consistent_read(true)
        .key_condition_expression("#pk = :pk")
        .expression_attribute_names("#pk", PK)
        .expression_attribute_values(":pk", s(workflow_pk(owner, workflow)));
    let named = read::query(&attempted, query, usize::MAX).await?;
    let pks: Vec<String> =
        named.iter().map(|item| Ok(claim_pk(&named_by(item)?))).collect::<Result<_, LedgerError>>()?;
    let found = read::many(ledger, &attempted, pks.iter().cloned().collect::<BTreeSet<_>>()).await?;
    pks.iter().filter_map(|pk| found.get(pk)).map(items::claim).collect()
}

pub(super) async fn list(
    ledger: &DynamoLedger,
    pool: &PoolName,
    which: WhichClaims,
    page: Page,
) -> Result<Listed<Claim>, LedgerError> {
    let attempted = format!("list the claims of {pool}");
    let mut places: Vec<ClaimPlace> = Vec::new();
    for together in listing::claim_spans(pool, which, &page)? {
        let missing = listing::to_read(&page).saturating_sub(places.len());
        let mut merged = Vec::new();
        for span in together {
            for placed in read::places(ledger, &attempted, span, missing).await? {
                merged.push(ClaimPlace { position: listing::claim_position_at(&placed.sk), placed });
            }
        }
        merged.sort_by(|a, b| a.position.cmp(&b.position));
        // One that moved from stretch to stretch between the two reads is found in both.
        merged.dedup_by(|later, earlier| later.placed.pk == earlier.placed.pk);
        places.extend(merged);
    }
    let Listed { items: places, next } = listing::cut(places, &page, |place| place.position.clone());
    let places: Vec<Placed> = places.into_iter().map(|place| place.placed).collect();
    let found = read::placed(ledger, &attempted, &places).await?;
    let mut claims = found.iter().map(items::claim).collect::<Result<Vec<_>, _>>()?;
    // The index is late: what has moved on since is not what was asked for.
    claims.retain(|claim| listing::is_asked_for(claim, which));
    Ok(Listed { items: claims, next })
}

/// Where a claim stands in the listing that is asked for, which may be merged of several lists.
struct ClaimPlace {
    position: String,
    placed: Placed,
}

pub(super) async fn write(
    ledger: &DynamoLedger,
    write: ClaimWrite<'_>,
) -> Result<Written<Claim>, LedgerError> {
    const RECORD: usize = 0;
    let writes = vec![replace(ledger, write)?, audit::of_claim(ledger, write.after, write.entry)?];
    match transact(ledger, &format!("write claim {}", write.before.id), writes).await? {
        Outcome::Done => Ok(Written::Done),
        Outcome::Refused(reasons) => match reasons.found(RECORD) {
            Some(item) => Ok(Written::Lost { found: items::claim(item)? }),
            None => Ok(Written::Missing),
        },
    }
}

/// `after` in the place of `before`, as a part of a transaction.
pub(super) fn replace(
    ledger: &DynamoLedger,
    write: ClaimWrite<'_>,
) -> Result<TransactWriteItem, LedgerError> {
    let ClaimWrite { before, after, entry } = write;
    Expression::default()
        .columns(claim_columns(after, entry.at)?)
        .only_if(STATE, "=", s(before.state.as_str()))
        .only_if(REV, "=", n(before.rev))
        .update(&ledger.table, record_key(claim_pk(&before.id)))
        .map_err(|error| failed(format!("write claim {}", before.id), error))
}

/// The record of a claim that gains runners; and its key, if the claim is opened with them. In this order.
pub(super) fn gain(
    ledger: &DynamoLedger,
    claim: ClaimGain<'_>,
) -> Result<Vec<TransactWriteItem>, LedgerError> {
    let ClaimGain { write, opening } = claim;
    match opening {
        None => Ok(vec![replace(ledger, write)?]),
        Some(opening) => new(ledger, write.after, opening, write.entry.at),
    }
}

/// The log of a claim that gains runners.
pub(super) fn gain_log(
    ledger: &DynamoLedger,
    claim: ClaimGain<'_>,
) -> Result<Vec<TransactWriteItem>, LedgerError> {
    let ClaimGain { write: ClaimWrite { before, after, entry }, opening } = claim;
    let opened = opening.map(|opening| audit::of_claim(ledger, before, opening.entry)).transpose()?;
    Ok(opened.into_iter().chain([audit::of_claim(ledger, after, entry)?]).collect())
}

/// Who has the key at `index` of a refused transaction, if that claim's record is gone: a key outlives it, and stands in nobody's
/// way then.
pub(super) async fn expired_holder(
    ledger: &DynamoLedger,
    reasons: &Reasons,
    index: usize,
) -> Result<Option<ClaimId>, LedgerError> {
    let Some(holder) = reasons.found(index).map(named_by).transpose()? else { return Ok(None) };
    Ok(one(ledger, &holder).await?.is_none().then_some(holder))
}

pub(super) async fn open(
    ledger: &DynamoLedger,
    claim: &Claim,
    opening: ClaimOpening<'_>,
) -> Result<Opened, LedgerError> {
    const KEY: usize = 1;
    let attempted = format!("open claim {}", claim.id);
    let log = audit::of_claim(ledger, claim, opening.entry)?;
    let writes = |opening| {
        let mut writes = new(ledger, claim, opening, opening.entry.at)?;
        writes.push(log.clone());
        Ok(writes)
    };
    let Outcome::Refused(reasons) = transact(ledger, &attempted, writes(opening)?).await? else {
        return Ok(Opened::Done);
    };
    if let Some(expired) = expired_holder(ledger, &reasons, KEY).await? {
        let opening = ClaimOpening { replaces: Some(&expired), ..opening };
        if let Outcome::Done = transact(ledger, &attempted, writes(opening)?).await? {
            return Ok(Opened::Done);
        }
    }
    match latest(ledger, &claim.key).await? {
        // Our own write, whose answer was lost.
        Some(found) if found == claim.id => Ok(Opened::Done),
        found => Ok(Opened::Lost { found }),
    }
}

/// A new record, and its key.
fn new(
    ledger: &DynamoLedger,
    claim: &Claim,
    opening: ClaimOpening<'_>,
    at: Timestamp,
) -> Result<Vec<TransactWriteItem>, LedgerError> {
    let record = item(record_key(claim_pk(&claim.id)), claim_columns(claim, at)?);
    let name =
        vec![(CLAIM_ID, Some(s(claim.id.as_str()))), (EXPIRES_AT, Some(expiry(key_kept_until(claim))))];
    let free = match opening.replaces {
        None => Expression::default().only_if_absent(),
        Some(old) => Expression::default().only_if_absent_or(vec![(CLAIM_ID, "=", s(old.as_str()))]),
    };
    let build = |error| failed(format!("open claim {}", claim.id), error);
    Ok(vec![
        Expression::default().only_if_absent().put(&ledger.table, record).map_err(build)?,
        free.put(&ledger.table, item(key_of(&claim.key), name)).map_err(build)?,
    ])
}

/// The claim that the key names now.
async fn latest(ledger: &DynamoLedger, key: &ClaimKey) -> Result<Option<ClaimId>, LedgerError> {
    let attempted = format!("read which claim {} has on {}", key.workflow, key.pool);
    read::one(ledger, &attempted, key_of(key)).await?.as_ref().map(named_by).transpose()
}

fn key_of(claim: &ClaimKey) -> Item {
    key(workflow_pk(&claim.owner, &claim.workflow), claim_key_sk(claim))
}

fn named_by(item: &Item) -> Result<ClaimId, LedgerError> {
    ClaimId::parse(items::text(item, CLAIM_ID)?).map_err(|error| items::unreadable(item, error))
}
