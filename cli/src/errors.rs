//! How a verb fails: a kind, which decides the exit code, what happened, and what to do about it.

use std::error::Error;
use std::process::ExitCode;

use motorpool_domain::text::visible;
use motorpool_wire::error::{ErrorBody, ErrorCode};
use serde_json::json;

use crate::output::style;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
    /// May be empty: there is not always something to do.
    pub(crate) hint: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The server understood, and said no.
    Refused(ErrorCode),
    /// What was asked for was tried, and did not come to a good end.
    Failed,
    /// What was asked for makes no sense.
    Usage,
    Unreachable,
    /// A person stopped it.
    Interrupted,
}

impl FailureKind {
    fn exit_code(self) -> u8 {
        match self {
            Self::Refused(_) | Self::Failed => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::Interrupted => 130,
        }
    }

    /// As the envelope calls this kind, where it knows it.
    fn code(self) -> serde_json::Value {
        match self {
            Self::Refused(code) => json!(code),
            Self::Failed => json!("failed"),
            Self::Usage => json!("usage"),
            Self::Unreachable => json!("unreachable"),
            Self::Interrupted => json!("interrupted"),
        }
    }
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: hint.into() }
    }

    pub(crate) fn failed(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(FailureKind::Failed, message, hint)
    }

    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(FailureKind::Usage, message, hint)
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.kind == FailureKind::Refused(ErrorCode::NotFound)
    }

    pub(crate) fn is_forbidden(&self) -> bool {
        self.kind == FailureKind::Refused(ErrorCode::Forbidden)
    }

    /// Tells stderr, and says how to exit.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        let Self { kind, message, hint } = self;
        if json {
            eprintln!("{}", json!({"error": {"code": kind.code(), "message": message, "hint": hint}}));
        } else {
            let style = style::of_stderr();
            eprintln!("{} {message}", style.bad("error:"));
            if !hint.is_empty() {
                eprintln!("{} {hint}", style.good("hint:"));
            }
        }
        ExitCode::from(kind.exit_code())
    }
}

impl From<ErrorBody> for Failure {
    fn from(body: ErrorBody) -> Self {
        let ErrorBody { code, message, hint } = body;
        Self::new(FailureKind::Refused(code), visible(&message), visible(&hint))
    }
}

/// An error with its causes, in one line. A cause that its error has already told is left out.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let words = next.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read x")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn an_error_is_told_with_its_causes_once() {
        assert_eq!(chain(&Outer(std::io::Error::other("no such file"))), "cannot read x: no such file");
        assert_eq!(chain(&Outer(std::io::Error::other("cannot read x"))), "cannot read x");
    }
}
