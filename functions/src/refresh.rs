//! The schedule's function: one pass of refresh. What the event says is a hint at most, and ignored.

use lambda_runtime::{Error, LambdaEvent, Service, service_fn};
use motorpool_control::{Caller, Control, SweepWish};
use motorpool_wire::api::RefreshReport;
use serde::de::IgnoredAny;
use std::sync::Arc;

/// Answers every event with the report of a pass. A pass that fails is an error of the invocation, so that alarms see it; the next
/// one tries again.
pub fn service(
    control: Arc<Control>,
) -> impl Service<LambdaEvent<IgnoredAny>, Response = RefreshReport, Error = Error, Future: Send> {
    service_fn(move |_: LambdaEvent<IgnoredAny>| {
        let control = Arc::clone(&control);
        async move { pass(&control).await }
    })
}

async fn pass(control: &Control) -> Result<RefreshReport, Error> {
    let report = control.refresh(&Caller::Operator, SweepWish::IfDue).await.inspect_err(|refused| {
        tracing::error!(error = crate::chain(refused), "a refresh pass failed; the next one tries again");
    })?;
    let RefreshReport { examined, reaped, announced, launched, swept, braked } = report;
    tracing::info!(examined, reaped, announced, launched, swept, braked, "refreshed");
    Ok(report)
}
