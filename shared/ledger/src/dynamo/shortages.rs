//! Shortages: what a provider had none of, one item each beside its pool. They expire.

use motorpool_control::ports::ledger::LedgerError;
use motorpool_domain::ladder::Shortage;
use motorpool_domain::{PoolName, Timestamp};

use super::items::{self, DOC, doc, expiry, item, key, s};
use super::{DynamoLedger, failed, read};
use crate::keys::{SHORTAGE, pool_pk, shortage_sk};
use crate::table::{EXPIRES_AT, PK, SK};

/// More than any ladder has rungs; whoever has more tries some of them once more.
const MOST: usize = 500;

pub(super) async fn note(
    ledger: &DynamoLedger,
    pool: &PoolName,
    shortage: &Shortage,
) -> Result<(), LedgerError> {
    let columns = vec![(DOC, Some(doc(shortage)?)), (EXPIRES_AT, Some(expiry(shortage.until)))];
    let new = item(key(pool_pk(pool), shortage_sk(&shortage.of)), columns);
    let put = ledger.client.put_item().table_name(&ledger.table).set_item(Some(new));
    put.send().await.map_err(|error| failed(format!("note a shortage of pool {pool}"), error))?;
    Ok(())
}

pub(super) async fn of_pool(
    ledger: &DynamoLedger,
    pool: &PoolName,
    now: Timestamp,
) -> Result<Vec<Shortage>, LedgerError> {
    let query = ledger
        .client
        .query()
        .table_name(&ledger.table)
        .consistent_read(true)
        .key_condition_expression("#pk = :pk AND begins_with(#sk, :shortage)")
        .expression_attribute_names("#pk", PK)
        .expression_attribute_names("#sk", SK)
        .expression_attribute_values(":pk", s(pool_pk(pool)))
        .expression_attribute_values(":shortage", s(SHORTAGE));
    let found = read::query(&format!("read the shortages of pool {pool}"), query, MOST).await?;
    let mut shortages = found.iter().map(items::shortage).collect::<Result<Vec<_>, _>>()?;
    // What has expired is there until somebody clears it away.
    shortages.retain(|shortage| shortage.until > now);
    Ok(shortages)
}
