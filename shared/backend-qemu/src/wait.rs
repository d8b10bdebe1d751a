//! Waiting: for how long, and how often it is looked. It has no clock but the runtime's timers.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Sleep;

const PAUSE: Duration = Duration::from_millis(50);

/// How long each thing may take. The defaults suit a local disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Until QEMU answers for the first time: with a snapshot to load, when it is loaded.
    pub launch: Duration,
    /// One answer of QEMU's. QEMU before 8 answers nothing while it saves a snapshot.
    pub answer: Duration,
    /// Between an order to end at once and its end; after that, it is killed.
    pub quit: Duration,
    /// A whole operation.
    pub snapshot: Duration,
    pub rollback: Duration,
    pub delete: Duration,
    /// A QEMU that has said nothing for so long is taken for broken, where it is to be ended anyway.
    pub silence: Duration,
    /// For somebody else at the same VM.
    pub lock: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            launch: seconds(120),
            answer: seconds(10),
            quit: seconds(5),
            snapshot: seconds(60),
            rollback: seconds(180),
            delete: seconds(120),
            silence: seconds(60),
            lock: seconds(60),
        }
    }
}

pub(crate) async fn pause() {
    tokio::time::sleep(PAUSE).await;
}

#[derive(Debug)]
pub(crate) struct Deadline(Pin<Box<Sleep>>);

impl Deadline {
    pub(crate) fn within(duration: Duration) -> Self {
        Self(Box::pin(tokio::time::sleep(duration)))
    }

    /// Without waiting for it. A timer counts only once it was polled.
    pub(crate) async fn passed(&mut self) -> bool {
        poll_fn(|context| Poll::Ready(self.0.as_mut().poll(context).is_ready())).await
    }
}
