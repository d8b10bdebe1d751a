//! The ledger in DynamoDB and the queues on SQS, which any number of serves and functions share.

use super::{OWNED, StoreLocation, Stores};
use crate::args::ServeArgs;
use crate::errors::{Failure, chain};
use crate::serve::data_dir::{DataDir, SHORTEST_SECRET};
use motorpool_control::ServerSecret;
use motorpool_control::ports::queue::QueueName;
use motorpool_domain::PoolName;
use motorpool_ledger::dynamodb::{DynamoLedger, create_table_on_aws};
use motorpool_queues::SqsQueues;
use motorpool_queues::definition::names;
use std::sync::Arc;

const SECRET_VARIABLE: &str = "MOTORPOOL_SERVER_SECRET";

pub(super) async fn open<'a>(
    args: &ServeArgs,
    data: &DataDir,
    pools: impl Iterator<Item = &'a PoolName>,
) -> Result<Stores, Failure> {
    let ServeArgs { table, queue_prefix, .. } = args;
    let secret = shared_secret()?;
    if let Some(Err(bad)) =
        pools.map(|pool| names(queue_prefix, &QueueName::Idle(pool.clone()))).find(Result::is_err)
    {
        return Err(Failure::usage(bad.to_string(), "it begins with --queue-prefix"));
    }
    let lock = data
        .lock()?
        .ok_or_else(|| Failure::failed(format!("another serve owns {}", data.path().display()), OWNED))?;
    let config = motorpool_aws::load().await;
    create_table_on_aws(&config, table).await.map_err(|error| {
        Failure::failed(
            chain(&error),
            "AWS_REGION, credentials and, for an emulator, AWS_ENDPOINT_URL are read as by the AWS tools; \
             the account must allow DescribeTable, CreateTable, DescribeTimeToLive and UpdateTimeToLive",
        )
    })?;
    tracing::info!(table, queue_prefix, "the ledger is in DynamoDB, the queues are on SQS");
    Ok(Stores {
        ledger: Arc::new(DynamoLedger::on_aws(&config, table)),
        queue: Arc::new(SqsQueues::on_aws(&config, queue_prefix)),
        secret,
        location: StoreLocation::OnAws { _lock: lock },
    })
}

/// A launch secret that one control plane hands out is redeemed at any other: so none may have a key of its own.
fn shared_secret() -> Result<ServerSecret, Failure> {
    let hint = format!(
        "set ${SECRET_VARIABLE} to the same at least {SHORTEST_SECRET} random characters for every serve and function on this \
         ledger; `openssl rand -hex 32` makes some"
    );
    match std::env::var(SECRET_VARIABLE) {
        Ok(secret) if secret.trim().len() >= SHORTEST_SECRET => Ok(ServerSecret::new(secret.as_bytes())),
        Ok(_) => Err(Failure::usage(
            format!("${SECRET_VARIABLE} is shorter than {SHORTEST_SECRET} characters"),
            hint,
        )),
        Err(_) => Err(Failure::usage(
            format!(
                "with --ledger dynamodb the control planes share a secret, and ${SECRET_VARIABLE} is not set"
            ),
            hint,
        )),
    }
}
