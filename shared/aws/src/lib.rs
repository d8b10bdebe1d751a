//! The AWS account as every composer reaches it: where credentials and the region come from, one HTTPS client, and retries and
//! time-outs that are ours, not whatever the SDK's next version thinks of. It knows no service.

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;

/// From the environment, as the AWS tools read it: `AWS_REGION`, `AWS_ENDPOINT_URL`, credentials and the rest.
pub async fn load() -> SdkConfig {
    ours().load().await
}

/// An emulator at this endpoint, which takes any credentials: for tests, with everything else as in an account.
pub async fn emulated(endpoint: &str) -> SdkConfig {
    let nobody = Credentials::new("test", "test", None, None, "of an emulator");
    ours()
        .endpoint_url(endpoint)
        .region(Region::from_static("us-east-1"))
        .credentials_provider(nobody)
        .load()
        .await
}

fn ours() -> ConfigLoader {
    let https = Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(https)
        .retry_config(retries())
        .timeout_config(timeouts())
}

/// A repeated write may meet its own first try; the ledger recognises that.
fn retries() -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(4)
        .with_initial_backoff(Duration::from_millis(50))
        .with_max_backoff(Duration::from_secs(2))
}

/// An operation, with all its tries, ends before a caller of the API gives up.
fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(3))
        .operation_attempt_timeout(Duration::from_secs(8))
        .operation_timeout(Duration::from_secs(25))
        .build()
}
