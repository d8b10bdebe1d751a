//! The SDK's client with retries and time-outs that are ours. A launch for which there is no capacity is not asked for again here: that
//! answer comes as a server error, which the SDK would otherwise repeat.

use std::time::Duration;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::Builder;
use aws_sdk_ec2::config::interceptors::InterceptorContext;
use aws_sdk_ec2::config::retry::{ClassifyRetry, RetryAction, RetryConfig};
use aws_sdk_ec2::config::timeout::TimeoutConfig;
use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::operation::run_instances::RunInstancesError;
use aws_types::SdkConfig;

use crate::errors::{Verdict, verdict};

/// A call with all its tries ends before the caller of our API gives up.
pub(crate) fn client(config: &SdkConfig) -> Client {
    with_timeouts(config, Duration::from_secs(10), Duration::from_secs(22))
}

/// For the catalogue: megabytes that are read a few times a day, and wanted by all.
pub(crate) fn patient(config: &SdkConfig) -> Client {
    with_timeouts(config, Duration::from_secs(20), Duration::from_secs(45))
}

fn with_timeouts(config: &SdkConfig, attempt: Duration, operation: Duration) -> Client {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(3))
        .operation_attempt_timeout(attempt)
        .operation_timeout(operation)
        .build();
    let ours = Builder::from(config)
        .retry_config(retries())
        .timeout_config(timeouts)
        .retry_classifier(CapacityIsAnAnswer)
        .build();
    Client::from_conf(ours)
}

/// What a single call may do about throttling, with jitter between the tries. Beyond that it is the caller's turn to wait.
fn retries() -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(3)
        .with_initial_backoff(Duration::from_millis(200))
        .with_max_backoff(Duration::from_secs(2))
}

/// For what may as well be left undone.
pub(crate) fn without_retries() -> Builder {
    Builder::new().retry_config(RetryConfig::disabled())
}

#[derive(Debug)]
struct CapacityIsAnAnswer;

impl ClassifyRetry for CapacityIsAnAnswer {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let Some(Err(error)) = context.output_or_error() else { return RetryAction::NoActionIndicated };
        let code = error
            .as_operation_error()
            .and_then(|error| error.downcast_ref::<RunInstancesError>())
            .and_then(ProvideErrorMetadata::code);
        match code.map(|code| verdict(code, 0)) {
            Some(Verdict::NoneOnRung | Verdict::NoneInZone | Verdict::NoneSoldSo) => {
                RetryAction::RetryForbidden
            }
            Some(Verdict::Throttled | Verdict::TokenUsed | Verdict::Refused | Verdict::Unconfirmed)
            | None => RetryAction::NoActionIndicated,
        }
    }

    fn name(&self) -> &'static str {
        "a lack of capacity is an answer"
    }
}
