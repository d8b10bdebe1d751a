//! Runs the queue contract over every adapter: one line each.

use std::sync::Arc;

use anyhow::Result;
use motorpool_control::ports::queue::{Queue, QueueName};
use motorpool_queues::InProcessQueue;
use motorpool_tests::queue_contract;

queue_contract!(in_process, crate::open_in_process);

async fn open_in_process(_: QueueName) -> Result<Arc<dyn Queue>> {
    Ok(Arc::new(InProcessQueue::default()))
}
