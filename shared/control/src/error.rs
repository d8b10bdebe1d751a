//! Why a use case did not do what was asked: what happened, and what the caller can do.

use crate::ports::backend::{BackendError, Unfit};
use crate::ports::ledger::LedgerError;
use crate::ports::queue::QueueError;
use motorpool_domain::IdError;
use std::error::Error;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    pub kind: RefusedKind,
    pub message: String,
    pub hint: String,
    /// Asked again before, it is refused again.
    pub retry_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedKind {
    InvalidRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    Conflict,
    Gone,
    TooManyRequests,
    /// What it needs is not there yet.
    Unavailable,
    Internal,
}

impl Refused {
    pub fn new(kind: RefusedKind, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: hint.into(), retry_after: None }
    }

    /// For as long as `wait` too much was asked for.
    pub(crate) fn too_many(message: impl Into<String>, wait: Duration) -> Self {
        let hint = format!("try again in {} s", whole_seconds(wait));
        Self { retry_after: Some(wait), ..Self::new(RefusedKind::TooManyRequests, message, hint) }
    }

    /// What it needs is not there yet, and may be in a while.
    pub(crate) fn not_yet(message: impl Into<String>, wait: Duration) -> Self {
        let hint = format!("try again in {} s", whole_seconds(wait));
        Self { retry_after: Some(wait), ..Self::new(RefusedKind::Unavailable, message, hint) }
    }

    pub(crate) fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(RefusedKind::InvalidRequest, message, hint)
    }

    pub(crate) fn not_found(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(RefusedKind::NotFound, message, hint)
    }

    pub(crate) fn conflict(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(RefusedKind::Conflict, message, hint)
    }

    pub(crate) fn forbidden(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(RefusedKind::Forbidden, message, hint)
    }

    /// The caller is not told the cause: it is in the log.
    pub(crate) fn internal(error: &(dyn Error + 'static)) -> Self {
        tracing::error!(error = chain(error), "a use case failed");
        Self::new(
            RefusedKind::Internal,
            error.to_string(),
            "try again; if it stays so, look at the control plane's log",
        )
    }

    pub(crate) fn contended(what: &str) -> Self {
        Self::too_many(format!("{what} is being changed by too many at once"), Duration::from_secs(1))
    }
}

/// Rounded up: who comes a moment too early comes for nothing.
pub fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0))
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

impl From<LedgerError> for Refused {
    fn from(error: LedgerError) -> Self {
        match &error {
            LedgerError::BadPage { .. } => Self::invalid(
                error.to_string(),
                "take `after` from the `next` of the page before, or leave it out",
            ),
            LedgerError::Failed { .. } | LedgerError::Unreadable { .. } => Self::internal(&error),
        }
    }
}

impl From<QueueError> for Refused {
    fn from(error: QueueError) -> Self {
        Self::internal(&error)
    }
}

impl From<BackendError> for Refused {
    fn from(error: BackendError) -> Self {
        Self::internal(&error)
    }
}

impl From<Unfit> for Refused {
    fn from(unfit: Unfit) -> Self {
        let Unfit { why, hint } = unfit;
        Self::invalid(why, hint)
    }
}

impl From<IdError> for Refused {
    fn from(error: IdError) -> Self {
        Self::invalid(error.to_string(), "correct it and send the request again")
    }
}
