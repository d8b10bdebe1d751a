//! What refresh remembers from pass to pass, and the proof that the table answers.

use motorpool_control::ports::ledger::{LedgerError, RefreshMemory};
use motorpool_domain::Timestamp;

use super::items::{self, Item, item, key, time};
use super::{DynamoLedger, failed, read};

const LAST_PASS_AT: &str = "last_pass_at";
const LAST_SWEEP_AT: &str = "last_sweep_at";
const LISTENING_SINCE: &str = "listening_since";

pub(super) async fn memory(ledger: &DynamoLedger) -> Result<Option<RefreshMemory>, LedgerError> {
    let Some(item) = read::one(ledger, "read what refresh remembers", memory_key()).await? else {
        return Ok(None);
    };
    Ok(Some(RefreshMemory {
        last_pass_at: instant(&item, LAST_PASS_AT)?,
        last_sweep_at: instant(&item, LAST_SWEEP_AT)?,
        listening_since: instant(&item, LISTENING_SINCE)?,
    }))
}

pub(super) async fn put_memory(ledger: &DynamoLedger, memory: &RefreshMemory) -> Result<(), LedgerError> {
    let RefreshMemory { last_pass_at, last_sweep_at, listening_since } = *memory;
    let columns = vec![
        (LAST_PASS_AT, Some(time(last_pass_at))),
        (LAST_SWEEP_AT, Some(time(last_sweep_at))),
        (LISTENING_SINCE, Some(time(listening_since))),
    ];
    let put = ledger.client.put_item().table_name(&ledger.table);
    let put = put.set_item(Some(item(memory_key(), columns)));
    put.send().await.map_err(|error| failed("write what refresh remembers", error))?;
    Ok(())
}

/// The cheapest read that there is.
pub(super) async fn ping(ledger: &DynamoLedger) -> Result<(), LedgerError> {
    let get = ledger.client.get_item().table_name(&ledger.table).set_key(Some(memory_key()));
    get.send().await.map_err(|error| failed("answer", error))?;
    Ok(())
}

fn memory_key() -> Item {
    key("refresh", "memory")
}

fn instant(item: &Item, name: &str) -> Result<Timestamp, LedgerError> {
    let millis = items::number(item, name)?;
    millis.map(Timestamp::from_millis).ok_or_else(|| items::unreadable(item, format!("it has no {name}")))
}
