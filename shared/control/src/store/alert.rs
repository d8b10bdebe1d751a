//! Alerts: the records of incidents. Written only as they were read; what becomes of one is decided in `domain`.

use super::listing::{self, Listed, Page};
use super::{Found, Store, Written, read, read_or_skip, row};
use crate::ports::ledger::LedgerError;
use crate::ports::tx::{Op, Tx, When};
use motorpool_domain::alert::{Alert, Incident};
use motorpool_domain::record::{Key, Path, Record};

/// An alert as it should be, on the condition that it still is as it was read.
#[derive(Debug, Clone, Copy)]
pub struct AlertWrite<'a> {
    /// Nothing where there was none.
    pub before: Option<&'a Alert>,
    pub after: &'a Alert,
}

/// Which alerts a listing has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichAlerts {
    Open,
    /// Behind the open ones those that are over, for as long as they are kept.
    All,
}

impl WhichAlerts {
    fn has(self, alert: &Alert) -> bool {
        match self {
            Self::Open => alert.state.is_open(),
            Self::All => true,
        }
    }
}

impl Store {
    /// What is known of this incident.
    pub async fn alert(&self, incident: &Incident) -> Result<Option<Alert>, LedgerError> {
        self.one(Key::from(incident).into()).await
    }

    /// In the order asked for, for whoever must know what is missing from what can't be read.
    pub(crate) async fn find_alerts(&self, paths: &[Path]) -> Result<Vec<Found<Alert>>, LedgerError> {
        self.find(paths).await
    }

    /// Raises, resolves or notes what was told: `after` in the place of `before`, if that is still what is there. A write whose answer was
    /// lost has lost: another's may be the same to the letter, and only one of the two may tell people.
    pub async fn write_alert(&self, write: AlertWrite<'_>) -> Result<Written<Alert>, LedgerError> {
        const RECORD: usize = 0;
        let AlertWrite { before, after } = write;
        let row = row(after)?;
        let op = match before {
            None => Op::Put { row, when: When::Absent },
            Some(before) => Op::Replace { row, was: before.version(), counter: None },
        };
        match self.commit(&Tx::default().with(op)).await?.lost(RECORD) {
            None => Ok(Written::Done),
            Some(None) => Ok(Written::Missing),
            Some(Some(found)) => Ok(Written::Lost { found: read(found)? }),
        }
    }

    /// For display, the oldest first: an index, and so perhaps late.
    pub async fn list_alerts(&self, which: WhichAlerts, page: Page) -> Result<Listed<Alert>, LedgerError> {
        let span = listing::alert_span(which, &page)?;
        let placed = self.ledger.list(&span, listing::to_read(&page)).await?;
        let Listed { items, next } = listing::cut(placed, &page, |placed| placed.sort.clone());
        let found = items.iter().filter_map(|placed| placed.row.as_ref()).filter_map(read_or_skip::<Alert>);
        Ok(Listed { items: found.filter(|alert| which.has(alert)).collect(), next })
    }
}
