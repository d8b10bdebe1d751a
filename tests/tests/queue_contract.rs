//! Runs the queue contract over every adapter: one line each.

use std::sync::Arc;

use anyhow::Result;
use motorpool_control::ports::queue::{Queue, QueueName};
use motorpool_queues::{InProcessQueue, SqsQueues};
use motorpool_tests::harness::emulated_aws;
use motorpool_tests::queue_contract;

queue_contract!(in_process, crate::open_in_process);
queue_contract!(sqs, crate::open_sqs);

async fn open_in_process(_: QueueName) -> Result<Arc<dyn Queue>> {
    Ok(Arc::new(InProcessQueue::default()))
}

async fn open_sqs(_: QueueName) -> Result<Arc<dyn Queue>> {
    let config = emulated_aws::config().await?;
    Ok(Arc::new(SqsQueues::on_aws(&config, &emulated_aws::fresh_name("test"))))
}
