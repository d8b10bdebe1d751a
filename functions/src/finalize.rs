//! The finalize queue's function: attends to the runner of each notice in a batch, and answers with the notices that must come again. It deletes
//! nothing: SQS deletes what is not named in the answer. The event source must be told `ReportBatchItemFailures`; without that an answer is
//! ignored, the whole batch counts as done, and refresh does what was left.

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use lambda_runtime::{Error, LambdaEvent, Service, service_fn};
use motorpool_control::Control;
use std::sync::Arc;

/// Answers each batch with its failures alone, so that one message that can't be used holds up no other. One that fails again and again is
/// set aside by the queue's redrive policy, and refresh raises an alert.
pub fn service(
    control: Arc<Control>,
) -> impl Service<LambdaEvent<SqsEvent>, Response = SqsBatchResponse, Error = Error, Future: Send> {
    service_fn(move |event: LambdaEvent<SqsEvent>| {
        let control = Arc::clone(&control);
        async move { attend_to_batch(&control, event.payload.records).await }
    })
}

/// An error of the invocation only where SQS could not be told which message failed: then the whole batch comes again, which is harmless.
async fn attend_to_batch(control: &Control, batch: Vec<SqsMessage>) -> Result<SqsBatchResponse, Error> {
    let count = batch.len();
    let mut answer = SqsBatchResponse::default();
    let bodies = batch.iter().map(|message| message.body.clone().unwrap_or_default()).collect();
    let outcomes = control.attend_to_each(bodies).await;
    for (message, outcome) in batch.into_iter().zip(outcomes) {
        let receives = message.attributes.get("ApproximateReceiveCount").map(String::as_str);
        if let Err(error) = outcome {
            tracing::warn!(
                receives,
                message = message.message_id,
                error = crate::chain(&error),
                "a runner could not be attended to; its notice comes again"
            );
            let mut failure = BatchItemFailure::default();
            failure.item_identifier =
                message.message_id.ok_or("a message without an id can't be given back")?;
            answer.batch_item_failures.push(failure);
        }
    }
    tracing::info!(count, failed = answer.batch_item_failures.len(), "attended to notices");
    Ok(answer)
}
