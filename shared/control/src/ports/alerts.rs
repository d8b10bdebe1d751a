//! The port to whoever is told of incidents: a chat, a pager, a program of the operator's.

use async_trait::async_trait;
use motorpool_domain::alert::AlertMessage;

#[async_trait]
pub trait AlertSender: Send + Sync + std::fmt::Debug {
    /// The receiver has taken the message. It may have so, too, where this fails: the same message is then sent again, under the same id.
    async fn send(&self, message: &AlertMessage) -> Result<(), SendError>;
}

/// It says nothing of where the message was to go: an address may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The receiver's answer means that it did not take the message.
    #[error("the receiver of alerts answered {status}")]
    Refused { status: u16 },
    #[error("the receiver of alerts could not be told")]
    Failed {
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
