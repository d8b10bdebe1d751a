//! An alert as a record of the ledger: one a kind and subject of incident, however often it comes back.

use super::{Alert, AlertState, Incident};
use crate::record::{Key, Kind, Path, Place, Record, Version, padded};
use crate::time::Timestamp;
use std::time::Duration;

pub const ALERT: Kind = Kind::new("alert");
/// The list of all alerts: those that are open, and behind them those that are over, each by when they became so.
pub const ALERTS: &str = "alerts";
/// What the places of open ones begin with, and of those that are over.
pub const OPEN_ALERTS: &str = "open#";
pub const OVER_ALERTS: &str = "over#";

const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

impl From<&Incident> for Key {
    fn from(incident: &Incident) -> Self {
        Self::new(ALERT, id_of(incident))
    }
}

/// No name contains `#`, so no two incidents share it.
fn id_of(incident: &Incident) -> String {
    match incident.subject() {
        Some(subject) => format!("{}#{subject}", incident.name()),
        None => incident.name().to_owned(),
    }
}

impl Record for Alert {
    fn path(&self) -> Path {
        Key::from(&self.incident).into()
    }

    fn version(&self) -> Version {
        Version { state: self.state.as_str().to_owned(), epoch: 0, rev: self.rev }
    }

    /// When something is to be told; and an open one when it is looked at.
    fn due(&self) -> Option<Timestamp> {
        let tell_at = self.to_tell().map(|_| self.next_try);
        let look_at = match self.state {
            AlertState::Open { look_at, .. } => Some(look_at),
            AlertState::Over { .. } => None,
        };
        tell_at.into_iter().chain(look_at).min()
    }

    fn places(&self) -> Vec<Place> {
        let (prefix, since) = match self.state {
            AlertState::Open { since, .. } => (OPEN_ALERTS, since),
            AlertState::Over { since, .. } => (OVER_ALERTS, since),
        };
        let sort = format!("{prefix}{}#{}", padded(since), id_of(&self.incident));
        vec![Place { list: ALERTS.to_owned(), sort }]
    }

    fn kept_until(&self) -> Option<Timestamp> {
        match self.state {
            AlertState::Open { .. } => None,
            AlertState::Over { since, .. } => Some(since.after(KEPT)),
        }
    }
}
