//! The log: entries under the record's own partition key, each written with its record in one transaction, or noted alone.

use aws_sdk_dynamodb::types::TransactWriteItem;
use motorpool_control::ports::ledger::{LedgerError, Listed, Page, Subject};
use motorpool_domain::AuditEntry;
use motorpool_domain::claim::Claim;
use motorpool_domain::runner::Runner;

use super::expression::Expression;
use super::items::{self, Item, entry_columns, item, key, s};
use super::{DynamoLedger, failed, read};
use crate::table::{PK, SK};
use crate::{keys, listing};

/// The log entry of the write that makes `after` what it is, as a part of that write's transaction.
pub(super) fn of_runner(
    ledger: &DynamoLedger,
    after: &Runner,
    entry: &AuditEntry,
) -> Result<TransactWriteItem, LedgerError> {
    put(ledger, items::runner_log_key(after, entry), entry)
}

pub(super) fn of_claim(
    ledger: &DynamoLedger,
    after: &Claim,
    entry: &AuditEntry,
) -> Result<TransactWriteItem, LedgerError> {
    put(ledger, items::claim_log_key(after, entry), entry)
}

fn put(ledger: &DynamoLedger, key: Item, entry: &AuditEntry) -> Result<TransactWriteItem, LedgerError> {
    let put = Expression::default().put(&ledger.table, item(key, entry_columns(entry)?));
    put.map_err(|error| failed("write a log entry", error))
}

pub(super) async fn note(
    ledger: &DynamoLedger,
    subject: &Subject,
    entry: &AuditEntry,
) -> Result<(), LedgerError> {
    let key = key(keys::subject_pk(subject), keys::note_log_sk(entry));
    let put =
        ledger.client.put_item().table_name(&ledger.table).set_item(Some(item(key, entry_columns(entry)?)));
    put.send().await.map_err(|error| failed(format!("note something about {subject:?}"), error))?;
    Ok(())
}

pub(super) async fn list(
    ledger: &DynamoLedger,
    subject: &Subject,
    page: Page,
) -> Result<Listed<AuditEntry>, LedgerError> {
    let pk = keys::subject_pk(subject);
    let mut query = ledger
        .client
        .query()
        .table_name(&ledger.table)
        .consistent_read(true)
        .scan_index_forward(false)
        .expression_attribute_names("#pk", PK)
        .expression_attribute_names("#sk", SK)
        .expression_attribute_values(":pk", s(&pk))
        .expression_attribute_values(":log", s(keys::LOG));
    let behind = listing::log_position(&page)?;
    query = match &behind {
        None => query.key_condition_expression("#pk = :pk AND begins_with(#sk, :log)"),
        Some(behind) => query
            .key_condition_expression("#pk = :pk AND #sk BETWEEN :log AND :behind")
            .expression_attribute_values(":behind", s(behind)),
    };
    // One more, since both ends are included and the last page's entry comes once more.
    let mut found = read::query("read a log", query, listing::to_read(&page).saturating_add(1)).await?;
    if let Some(behind) = &behind {
        found.retain(|item| items::text(item, SK).is_ok_and(|sk| sk != behind));
    }
    let read = found.iter().map(|item| Ok((items::text(item, SK)?, items::entry(item)?)));
    let entries = read.collect::<Result<Vec<_>, LedgerError>>()?;
    let Listed { items, next } = listing::cut(entries, &page, |(sk, _)| (*sk).to_owned());
    Ok(Listed { items: items.into_iter().map(|(_, entry)| entry).collect(), next })
}
