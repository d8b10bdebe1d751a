//! The queue port: messages may come twice, late or never, and each is only a hint.

use async_trait::async_trait;
use motorpool_domain::PoolName;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum QueueName {
    /// Announces the idle runners of one pool.
    Idle(PoolName),
    /// Tells of runners that something is to be done about, of all pools.
    Finalize,
}

impl QueueName {
    /// A message that was received this often without being deleted goes to the queue's dead letters. Claims pass over many a notice of an idle runner
    /// that is true all the same; a notice that is to be acted upon, and fails so often, is one that nobody can use.
    pub const fn max_receives(&self) -> u32 {
        match self {
            Self::Idle(_) => 50,
            Self::Finalize => 5,
        }
    }

    /// How long a message is hidden from others while whoever received it acts upon it. For the finalize queue that is several times as long as a
    /// function may run: who is slow with a batch, and not at a loss, must not use up the tries of what he has not come to.
    pub const fn hidden(&self) -> Duration {
        match self {
            Self::Idle(_) => Duration::from_secs(60),
            Self::Finalize => Duration::from_secs(360),
        }
    }

    /// The queue that is written so, if any is.
    pub fn parse(text: &str) -> Option<Self> {
        if text == Self::Finalize.to_string() {
            return Some(Self::Finalize);
        }
        let pool = text.strip_prefix("idle-")?;
        Some(Self::Idle(PoolName::parse(pool).ok()?))
    }
}

impl std::fmt::Display for QueueName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Idle(pool) => write!(f, "idle-{pool}"),
            Self::Finalize => f.write_str("finalize"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    pub body: String,
    pub receipt: Receipt,
    /// How often this message was received, this time included.
    pub receives: u32,
}

/// The right to delete or give back one receive of a message; worthless once it became visible again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Receipt(pub String);

#[derive(Debug, thiserror::Error)]
#[error("the queue {queue} could not {attempted}")]
pub struct QueueError {
    pub queue: QueueName,
    pub attempted: &'static str,
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

#[async_trait]
pub trait Queue: Send + Sync + std::fmt::Debug {
    async fn send(&self, queue: &QueueName, body: String) -> Result<(), QueueError>;

    /// Up to `most` (at most 10) messages, hidden from others for `visibility`; waits up to `wait` for the first.
    async fn receive(
        &self,
        queue: &QueueName,
        most: usize,
        wait: Duration,
        visibility: Duration,
    ) -> Result<Vec<Received>, QueueError>;

    /// The message is done with. Deleting it again is harmless.
    async fn delete(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError>;

    /// The message is for somebody else: visible again at once.
    async fn give_back(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError>;

    /// Messages that nobody could use, oldest first, up to `most`.
    async fn dead_letters(&self, queue: &QueueName, most: usize) -> Result<Vec<String>, QueueError>;
}
