//! What is told of an incident, in words and for machines. How it travels is a sender's.

use super::{Alert, AlertState, Telling};
use crate::time::Timestamp;

/// Which end of an incident is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    Opened,
    Over,
}

impl Phase {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Over => "over",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertMessage {
    /// The same for each attempt to send it, and for no other message.
    pub id: String,
    /// The incident's name for machines.
    pub incident: &'static str,
    pub subject: Option<String>,
    pub phase: Phase,
    /// One sentence, with what is known beside it.
    pub text: String,
    /// When the incident opened, or was over.
    pub at: Timestamp,
    /// Whose it is, where several tell the same receiver.
    pub installation: String,
}

impl AlertMessage {
    pub fn of(alert: &Alert, telling: Telling, installation: &str) -> Self {
        let Alert { incident, details, state, .. } = alert;
        let (Telling { phase, opening }, opened_at) = (telling, alert.opened_at());
        let (text, at) = match (phase, state) {
            (Phase::Opened, _) if details.is_empty() => (incident.to_string(), opened_at),
            (Phase::Opened, _) => (format!("{incident} ({details})"), opened_at),
            (Phase::Over, AlertState::Over { since, .. }) => (incident.when_over(), *since),
            (Phase::Over, AlertState::Open { .. }) => (incident.when_over(), opened_at),
        };
        let subject = incident.subject().map(str::to_owned);
        let named = subject.as_deref().unwrap_or_default();
        Self {
            id: format!("{}/{named}/{opened_at}.{opening}/{}", incident.name(), phase.as_str()),
            incident: incident.name(),
            subject,
            phase,
            text,
            at,
            installation: installation.to_owned(),
        }
    }
}
