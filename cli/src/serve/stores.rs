//! Where this control plane keeps its truth and its queues: in its own process, or on AWS beside others. It opens them; what is in
//! them is not its matter.

use crate::args::{LedgerKind, ServeArgs};
use crate::errors::{Failure, chain};
use crate::serve::data_dir::DataDir;
use motorpool_control::ServerSecret;
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::queue::{Queue, QueueName};
use motorpool_domain::PoolName;
use motorpool_ledger::embedded::EmbeddedEngine;
use motorpool_ledger::table::ensure_table;
use motorpool_ledger::{DynamoLedger, create_table_on_aws};
use motorpool_queues::definition::names;
use motorpool_queues::{InProcessQueue, SqsQueues};
use std::fs::File;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Stores {
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) queue: Arc<dyn Queue>,
    pub(super) secret: ServerSecret,
    pub(super) place: Place,
}

#[derive(Debug)]
pub(super) enum Place {
    /// Its queues are empty at each start, and nobody else clears what has expired.
    InProcess(EmbeddedEngine),
    /// The lock of the data directory, whose runners are this process's alone.
    OnAws { _lock: File },
}

const TABLE_IN_PROCESS: &str = "motorpool";
const SECRET_VARIABLE: &str = "MOTORPOOL_SERVER_SECRET";
/// A shorter one could be guessed.
const SHORTEST_SECRET: usize = 32;

pub(super) async fn open<'a>(
    args: &ServeArgs,
    data: &DataDir,
    pools: impl Iterator<Item = &'a PoolName>,
) -> Result<Stores, Failure> {
    match args.ledger {
        LedgerKind::Embedded => in_process(data).await,
        LedgerKind::DynamoDb => on_aws(args, data, pools).await,
    }
}

async fn in_process(data: &DataDir) -> Result<Stores, Failure> {
    let engine = EmbeddedEngine::open(data.path()).map_err(|error| Failure::failed(chain(&error), OWNED))?;
    let client = engine.client();
    ensure_table(&client, TABLE_IN_PROCESS).await.map_err(|error| {
        Failure::failed(chain(&error), "the ledger's file may be damaged or of another version")
    })?;
    Ok(Stores {
        ledger: Arc::new(DynamoLedger::new(client, TABLE_IN_PROCESS.to_owned())),
        queue: Arc::new(InProcessQueue::default()),
        secret: ServerSecret::new(&data.server_secret()?),
        place: Place::InProcess(engine),
    })
}

async fn on_aws<'a>(
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
        place: Place::OnAws { _lock: lock },
    })
}

const OWNED: &str = "one serve owns a data directory: stop the other, or choose another --data-dir";

/// A launch secret that one control plane hands out is redeemed at any other: so none may have a key of its own.
fn shared_secret() -> Result<ServerSecret, Failure> {
    let hint = format!(
        "set ${SECRET_VARIABLE} to the same at least {SHORTEST_SECRET} random characters for every serve and function on this \
         ledger; `openssl rand -hex 32` makes some"
    );
    match std::env::var(SECRET_VARIABLE) {
        Ok(secret) if secret.len() >= SHORTEST_SECRET => Ok(ServerSecret::new(secret.as_bytes())),
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
