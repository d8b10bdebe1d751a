//! The finalize queue: notices of runners that somebody else than their agents must attend to. Each is a hint, and gone only once what it asked for
//! is done.

use crate::control::Control;
use crate::error::{Refused, chain};
use crate::ports::queue::{QueueName, Received};
use motorpool_wire::queue::FinalizeNotice;
use std::time::Duration;

const TOGETHER: usize = 10;

impl Control {
    /// Attends to the runners of the next notices, waiting up to `wait` for the first. One that can't be attended to comes again.
    pub async fn attend_to_notices(&self, wait: Duration) -> Result<usize, Refused> {
        let queue = QueueName::Finalize;
        let received = self.queue.receive(&queue, TOGETHER, wait, queue.hidden()).await?;
        let count = received.len();
        for Received { body, receipt, receives } in received {
            match self.attend_to_notice(&body).await {
                Ok(()) => self.queue.delete(&queue, &receipt).await?,
                Err(error) => {
                    tracing::warn!(
                        receives,
                        error = chain(&error),
                        "a runner could not be attended to; its notice comes again"
                    );
                }
            }
        }
        Ok(count)
    }

    /// One notice, however it came.
    pub async fn attend_to_notice(&self, body: &str) -> Result<(), Refused> {
        let FinalizeNotice { runner, epoch: _ } = serde_json::from_str(body).map_err(|error| {
            Refused::invalid(
                format!("this is no notice of a runner: {error}"),
                "it ends in the dead-letter queue",
            )
        })?;
        self.attend_to(&runner).await
    }
}
