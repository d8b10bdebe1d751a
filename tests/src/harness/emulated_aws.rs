//! AWS for tests: whatever listens at `MOTORPOOL_AWS_ENDPOINT`, ministack or any other that is like LocalStack. All tests share it, so each
//! uses names of its own. It starts nothing: `cargo xtask` does.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use anyhow::{Context, Result};
use aws_types::SdkConfig;
use serde_json::{Value, json};

const ENDPOINT: &str = "MOTORPOOL_AWS_ENDPOINT";

/// The endpoint, or the sentence that says how to get one: a test that is left out in silence proves nothing.
pub fn endpoint() -> Result<String> {
    std::env::var(ENDPOINT).ok().filter(|endpoint| !endpoint.is_empty()).with_context(|| {
        format!(
            "this test needs an AWS emulator, and ${ENDPOINT} does not name one: `cargo xtask test` brings its own; \
             for a test by hand, run `cargo xtask aws` and export what it prints"
        )
    })
}

pub async fn config() -> Result<SdkConfig> {
    Ok(motorpool_aws::emulated(&endpoint()?).await)
}

/// Random, since those of an earlier run may still be there. Short: a queue's name has other parts, too.
pub fn fresh_name(what: &str) -> String {
    format!("{what}-{:08x}", RandomState::new().hash_one(std::process::id()) >> 32)
}

/// The address of the queue with this name, if it is there.
pub async fn url_of(queue: &str) -> Result<Option<Value>> {
    let mut answer = sqs("GetQueueUrl", json!({"QueueName": queue})).await?;
    Ok(Some(answer["QueueUrl"].take()).filter(Value::is_string))
}

/// A call to SQS over plain HTTP, behind the adapter's back. An emulator checks no signature; the header only says for which service and region it would be.
pub async fn sqs(operation: &str, body: Value) -> Result<Value> {
    let scope = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0";
    let _ = rustls::crypto::ring::default_provider().install_default();
    let answer = reqwest::Client::builder()
        .no_proxy()
        .build()?
        .post(endpoint()?)
        .header("content-type", "application/x-amz-json-1.0")
        .header("x-amz-target", format!("AmazonSQS.{operation}"))
        .header("authorization", scope)
        .body(body.to_string())
        .send()
        .await
        .with_context(|| format!("{operation} was not answered"))?;
    let text = answer.text().await?;
    if text.is_empty() { Ok(Value::Null) } else { Ok(serde_json::from_str(&text)?) }
}
