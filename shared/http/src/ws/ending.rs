//! Why a connection ends, and what its peer is told of that.

use axum::extract::ws::{CloseFrame, close_code};
use motorpool_wire::channel::{REPLACED, UNAUTHORIZED};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Its token is not, or no longer, that of its runner, or the runner's place is given up.
    Unauthorized,
    /// The same runner has connected anew.
    Replaced,
    /// The server shuts down.
    Stopping,
    /// A binary message.
    Unsupported,
    /// A frame that is too long, or none.
    Unreadable,
    /// A bug of ours.
    Failed,
    /// The peer has taken its leave, or does not answer.
    Gone,
}

impl Ending {
    /// Nothing where there is nobody to tell.
    pub(super) fn frame(self) -> Option<CloseFrame> {
        let (code, reason) = match self {
            Self::Unauthorized => (UNAUTHORIZED, "this token is not that of this runner"),
            Self::Replaced => (REPLACED, "this runner has connected anew"),
            Self::Stopping => (close_code::AWAY, "the control plane is stopping"),
            Self::Unsupported => (close_code::UNSUPPORTED, "only text messages are read"),
            Self::Unreadable => (close_code::POLICY, "a frame is too long, or can't be read"),
            Self::Failed => (close_code::ERROR, "the connection failed because of a bug"),
            Self::Gone => return None,
        };
        Some(CloseFrame { code, reason: reason.into() })
    }

    pub(super) fn told(self) -> &'static str {
        match self {
            Self::Unauthorized => "its token is not good any more",
            Self::Replaced => "the same runner connected anew",
            Self::Stopping => "the control plane is stopping",
            Self::Unsupported => "it sent a binary message",
            Self::Unreadable => "a frame was too long, or could not be read",
            Self::Failed => "of a bug",
            Self::Gone => "it took its leave, or did not answer",
        }
    }
}
