//! What can go wrong, in words that tell the operator what to do. Nothing of a credential, nor of an answer that holds one, gets in here.

use std::time::Duration;

use motorpool_control::ports::ci::CiError;

/// Why there is no client: the settings are wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    #[error("{url:?} is no address of {vendor}: {problem}")]
    Address { vendor: &'static str, url: String, problem: &'static str },
    #[error(
        "the private key of the GitHub App is not usable: it must be the file that GitHub gave, an RSA key of 2048 bits or more in PEM"
    )]
    Key,
    #[error("the token for {vendor} is empty, or holds characters that no token has")]
    Token { vendor: &'static str },
    #[error("the second token for {vendor}, or its user, is empty, or holds characters that none has")]
    SecondLogin { vendor: &'static str },
    #[error("the user for {vendor} is empty, or holds a colon or characters that no name has")]
    User { vendor: &'static str },
    #[error("cannot set up HTTPS for {vendor}: {why}")]
    Https { vendor: &'static str, why: String },
}

/// Why a call came to nothing. As [`CiError`], but it can be cloned for several who waited for the same call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallError {
    RateLimited(Duration),
    /// It left a call without an answer, and was not asked now.
    Silent(Duration),
    Refused(String),
    Failed {
        attempted: String,
        why: String,
    },
}

impl CallError {
    pub(crate) fn failed(attempted: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Failed { attempted: attempted.into(), why: why.into() }
    }
}

impl From<CallError> for CiError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::RateLimited(retry_after) => Self::RateLimited { retry_after },
            CallError::Silent(retry_after) => Self::Silent { retry_after },
            CallError::Refused(why) => Self::Refused(why),
            CallError::Failed { attempted, why } => Self::Failed { attempted, source: why.into() },
        }
    }
}
