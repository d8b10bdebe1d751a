//! Webhooks' deliveries that are done with.

use super::{Store, row};
use crate::ports::ledger::LedgerError;
use crate::ports::tx::{Op, Tx, When};
use motorpool_domain::DeliveryId;
use motorpool_domain::ci::CiSystem;
use motorpool_domain::delivery::Delivery;

impl Store {
    /// Whatever the record says: that it is there is all that it means.
    pub async fn has_delivery(&self, system: CiSystem, id: &DeliveryId) -> Result<bool, LedgerError> {
        let found = self.ledger.get(&[Delivery::key(system, id).into()]).await?;
        Ok(found.iter().any(Option::is_some))
    }

    /// Whoever noted it before has said the same.
    pub async fn note_delivery(&self, delivery: &Delivery) -> Result<(), LedgerError> {
        self.commit(&Tx::default().with(Op::Put { row: row(delivery)?, when: When::Absent })).await?;
        Ok(())
    }
}
