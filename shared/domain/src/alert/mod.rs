//! Alerts: what people are told of an incident, once when it opens and once when it is over. The state machine of one record: when it is
//! raised, looked at, over and told; no clock, and nothing is sent here.

mod incident;
mod message;
mod record;

pub use incident::Incident;
pub use message::{AlertMessage, Phase};
pub use record::{ALERT, ALERTS, OPEN_ALERTS, OVER_ALERTS};

use crate::audit::cut;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An incident that is open, or was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    pub incident: Incident,
    /// What is known beside the incident's own sentence: as it was raised last, as far as that was noted.
    pub details: String,
    pub state: AlertState,
    /// Which time it is that it opened, since it is known.
    pub opening: u64,
    /// How often it was raised since it opened, as far as that was noted.
    pub raised: u64,
    pub raised_at: Timestamp,
    /// What those who are told of incidents have heard of this one.
    pub told: Told,
    /// How often it was tried to tell them the next.
    pub attempts: u32,
    /// Not before is it tried again.
    pub next_try: Timestamp,
    pub rev: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    Open {
        since: Timestamp,
        /// When refresh looks whether it is over.
        look_at: Timestamp,
    },
    Over {
        opened_at: Timestamp,
        since: Timestamp,
    },
}

impl AlertState {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Over { .. } => "over",
        }
    }

    pub fn is_open(&self) -> bool {
        match self {
            Self::Open { .. } => true,
            Self::Over { .. } => false,
        }
    }
}

/// What was heard of an incident that opened last: each follows on the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    Nothing,
    Opened,
    Over,
}

impl Told {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Opened => "opened",
            Self::Over => "over",
        }
    }
}

/// One thing to tell of the incident as it opened that time; by then it may have come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Telling {
    pub phase: Phase,
    pub opening: u64,
}

/// An incident that is raised again and again is written so often, and no more.
const NOTED_EVERY: Duration = Duration::from_secs(10 * 60);
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

impl Alert {
    pub fn opened(incident: Incident, details: &str, now: Timestamp) -> Self {
        let look_at = now.after(incident.looked_at_every());
        Self {
            incident,
            details: cut(details.to_owned()),
            state: AlertState::Open { since: now, look_at },
            opening: 1,
            raised: 1,
            raised_at: now,
            told: Told::Nothing,
            attempts: 0,
            next_try: now,
            rev: 1,
        }
    }

    pub fn opened_at(&self) -> Timestamp {
        match self.state {
            AlertState::Open { since, .. } => since,
            AlertState::Over { opened_at, .. } => opened_at,
        }
    }

    /// Raised once more. Nothing, where that need not be written: the incident is open, and was noted a while ago.
    ///
    /// One that is over opens anew. Who was not told yet that it was over need not be told that it is back: for him it goes on.
    pub fn raised(&self, details: &str, now: Timestamp) -> Option<Self> {
        match self.state {
            AlertState::Open { .. } if now.since(self.raised_at) < NOTED_EVERY => None,
            AlertState::Open { .. } => Some(Self {
                details: cut(details.to_owned()),
                raised: self.raised.saturating_add(1),
                raised_at: now,
                rev: self.rev + 1,
                ..self.clone()
            }),
            AlertState::Over { .. } => {
                let anew = Self::opened(self.incident.clone(), details, now);
                let known = Self { opening: self.opening.saturating_add(1), rev: self.rev + 1, ..anew };
                Some(match self.told {
                    Told::Over => known,
                    Told::Opened => Self { told: Told::Opened, ..known },
                    Told::Nothing => Self { attempts: self.attempts, next_try: self.next_try, ..known },
                })
            }
        }
    }

    /// It is over. Nothing, where it was already.
    pub fn over(&self, now: Timestamp) -> Option<Self> {
        let AlertState::Open { since, .. } = self.state else { return None };
        let over = Self {
            state: AlertState::Over { opened_at: since, since: now },
            rev: self.rev + 1,
            ..self.clone()
        };
        Some(match self.told {
            // What has been tried in vain is to be told first, and not before its time.
            Told::Nothing => over,
            Told::Opened | Told::Over => Self { attempts: 0, next_try: now, ..over },
        })
    }

    pub fn is_to_be_looked_at(&self, now: Timestamp) -> bool {
        match self.state {
            AlertState::Open { look_at, .. } => look_at <= now,
            AlertState::Over { .. } => false,
        }
    }

    /// Refresh looked, and it is not over.
    #[must_use]
    pub fn looked(&self, now: Timestamp) -> Self {
        let state = match self.state {
            AlertState::Open { since, look_at: _ } => {
                AlertState::Open { since, look_at: now.after(self.incident.looked_at_every()) }
            }
            over @ AlertState::Over { .. } => over,
        };
        Self { state, rev: self.rev + 1, ..self.clone() }
    }

    /// Nobody raised it for so long. What is noted is late, and is allowed for.
    pub fn is_quiet_for(&self, span: Duration, now: Timestamp) -> bool {
        now.since(self.raised_at) >= span.saturating_add(NOTED_EVERY)
    }

    /// What is still to be told. That it is over, only to who has heard that it opened.
    pub fn to_tell(&self) -> Option<Telling> {
        let phase = match (self.told, self.state) {
            (Told::Nothing, AlertState::Open { .. } | AlertState::Over { .. }) => Phase::Opened,
            (Told::Opened, AlertState::Over { .. }) => Phase::Over,
            (Told::Opened, AlertState::Open { .. }) => return None,
            (Told::Over, AlertState::Open { .. } | AlertState::Over { .. }) => return None,
        };
        Some(Telling { phase, opening: self.opening })
    }

    /// What is to be told at `now`.
    pub fn to_tell_at(&self, now: Timestamp) -> Option<Telling> {
        self.to_tell().filter(|_| self.next_try <= now)
    }

    /// Somebody is about to tell it. Written first: whoever else finds it due meanwhile does not tell it too.
    #[must_use]
    pub fn tried(&self, now: Timestamp) -> Self {
        let attempts = self.attempts.saturating_add(1);
        Self { attempts, next_try: now.after(pause(attempts)), rev: self.rev + 1, ..self.clone() }
    }

    /// They have heard it. Meanwhile the incident may have gone on: it may be over, and even have come back.
    #[must_use]
    pub fn heard(&self, telling: Telling, now: Timestamp) -> Self {
        let Telling { phase, opening } = telling;
        let told = match phase {
            Phase::Opened => self.told.max(Told::Opened),
            Phase::Over if opening == self.opening => Told::Over,
            // Back again, which they do not know.
            Phase::Over => Told::Nothing,
        };
        Self { told, attempts: 0, next_try: now, rev: self.rev + 1, ..self.clone() }
    }
}

/// After so many attempts: 30 s, then twice as long each time, an hour at most.
fn pause(attempts: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1));
    FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE)
}
