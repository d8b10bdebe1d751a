//! Claims: reading, listing, opening one under its key, and the conditional write of one record with its log entry.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::TransactWriteItem;
use motorpool_control::ports::ledger::{ClaimWrite, LedgerError, Listed, Opened, Page, WhichClaims, Written};
use motorpool_domain::claim::{Claim, ClaimKey};
use motorpool_domain::{AuditEntry, ClaimId, Owner, PoolName, Workflow};

use super::expression::Expression;
use super::items::{self, CLAIM_ID, Item, REV, STATE, claim_columns, expiry, item, key, n, record_key, s};
use super::transact::{Outcome, transact};
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
    let mut claims: Vec<Claim> = Vec::new();
    for together in listing::claim_spans(pool, which, &page)? {
        let missing = listing::to_read(&page).saturating_sub(claims.len());
        let mut merged = Vec::new();
        for span in together {
            let query = read::span(ledger, span);
            for found in read::query(&format!("list the claims of {pool}"), query, missing).await? {
                merged.push(items::claim(&found)?);
            }
        }
        listing::by_age(&mut merged);
        // One that moved from stretch to stretch between the two reads is found in both.
        merged.dedup_by(|later, earlier| later.id == earlier.id);
        claims.extend(merged);
    }
    Ok(listing::cut(claims, &page, listing::claim_position))
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

pub(super) async fn open(
    ledger: &DynamoLedger,
    claim: &Claim,
    replaces: Option<&ClaimId>,
    entry: &AuditEntry,
) -> Result<Opened, LedgerError> {
    let found = match open_once(ledger, claim, replaces, entry).await? {
        Opened::Lost { found: Some(found) } => found,
        answer @ (Opened::Done | Opened::Lost { found: None }) => return Ok(answer),
    };
    // A key outlives its claim's record, and stands in nobody's way then.
    if one(ledger, &found).await?.is_none() {
        return open_once(ledger, claim, Some(&found), entry).await;
    }
    Ok(Opened::Lost { found: Some(found) })
}

async fn open_once(
    ledger: &DynamoLedger,
    claim: &Claim,
    replaces: Option<&ClaimId>,
    entry: &AuditEntry,
) -> Result<Opened, LedgerError> {
    let attempted = format!("open claim {}", claim.id);
    let record = item(record_key(claim_pk(&claim.id)), claim_columns(claim, entry.at)?);
    let name =
        vec![(CLAIM_ID, Some(s(claim.id.as_str()))), (EXPIRES_AT, Some(expiry(key_kept_until(claim))))];
    let free = match replaces {
        None => Expression::default().only_if_absent(),
        Some(old) => Expression::default().only_if_absent_or(vec![(CLAIM_ID, "=", s(old.as_str()))]),
    };
    let build = |error| failed(&attempted, error);
    let writes = vec![
        Expression::default().only_if_absent().put(&ledger.table, record).map_err(build)?,
        free.put(&ledger.table, item(key_of(&claim.key), name)).map_err(build)?,
        audit::of_claim(ledger, claim, entry)?,
    ];
    match transact(ledger, &attempted, writes).await? {
        Outcome::Done => Ok(Opened::Done),
        Outcome::Refused(_) => match latest(ledger, &claim.key).await? {
            // Our own write, whose answer was lost.
            Some(found) if found == claim.id => Ok(Opened::Done),
            found => Ok(Opened::Lost { found }),
        },
    }
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
