//! The finalize queue: notices of runners that somebody else than their agents must attend to. Each is a hint, and gone only once what it asked for
//! is done.

use crate::control::Control;
use crate::error::{Refused, chain};
use crate::ports::queue::{QueueName, Received};
use futures_util::{StreamExt, stream};
use motorpool_domain::RunnerId;
use motorpool_wire::queue::FinalizeNotice;
use std::collections::BTreeMap;
use std::time::Duration;

/// How many notices are taken, and runners attended to, at the same time: one whose CI system is slow must not keep the others waiting.
const TOGETHER: usize = 10;

impl Control {
    /// Attends to the runners of the next notices, waiting up to `wait` for the first. One that can't be attended to comes again.
    pub async fn attend_to_notices(&self, wait: Duration) -> Result<usize, Refused> {
        let queue = QueueName::Finalize;
        let received = self.queue.receive(&queue, TOGETHER, wait, queue.hidden()).await?;
        let bodies = received.iter().map(|notice| notice.body.clone()).collect();
        let outcomes = self.attend_to_each(bodies).await;
        for (Received { body: _, receipt, receives }, outcome) in received.iter().zip(outcomes) {
            match outcome {
                Ok(()) => self.queue.delete(&queue, receipt).await?,
                Err(error) => {
                    tracing::warn!(
                        receives,
                        error = chain(&error),
                        "a runner could not be attended to; its notice comes again"
                    );
                }
            }
        }
        Ok(received.len())
    }

    /// Some notices, however they came: what came of each, in this order. Those of one runner are attended to one after the other.
    pub async fn attend_to_each(&self, bodies: Vec<String>) -> Vec<Result<(), Refused>> {
        let mut by_runner: BTreeMap<Option<RunnerId>, Vec<(usize, String)>> = BTreeMap::new();
        for (place, body) in bodies.into_iter().enumerate() {
            by_runner.entry(runner_of(&body).ok()).or_default().push((place, body));
        }
        // Collected, since a stream of closures' futures is not known to be `Send`.
        let looks: Vec<_> = by_runner.into_values().map(|notices| self.attend_in_turn(notices)).collect();
        let attended: Vec<_> = stream::iter(looks).buffer_unordered(TOGETHER).collect().await;
        let in_order: BTreeMap<usize, Result<(), Refused>> = attended.into_iter().flatten().collect();
        in_order.into_values().collect()
    }

    async fn attend_in_turn(&self, notices: Vec<(usize, String)>) -> Vec<(usize, Result<(), Refused>)> {
        let mut outcomes = Vec::with_capacity(notices.len());
        for (place, body) in notices {
            outcomes.push((place, self.attend_to_notice(&body).await));
        }
        outcomes
    }

    async fn attend_to_notice(&self, body: &str) -> Result<(), Refused> {
        self.attend_to(&runner_of(body)?).await
    }
}

fn runner_of(body: &str) -> Result<RunnerId, Refused> {
    let FinalizeNotice { runner, epoch: _ } = serde_json::from_str(body).map_err(|error| {
        Refused::invalid(
            format!("this is no notice of a runner: {error}"),
            "it ends in the dead-letter queue",
        )
    })?;
    Ok(runner)
}
