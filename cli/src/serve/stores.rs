//! Where this control plane keeps its truth and its queues: in its own process, or on AWS beside others. It opens them; what is in
//! them is not its matter.

#[cfg(feature = "aws")]
mod on_aws;

use crate::args::{LedgerKind, ServeArgs};
use crate::errors::{Failure, chain};
use crate::serve::data_dir::DataDir;
use motorpool_control::ServerSecret;
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::queue::Queue;
use motorpool_domain::PoolName;
use motorpool_ledger::sqlite::{SqliteError, SqliteLedger};
use motorpool_queues::InProcessQueue;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Stores {
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) queue: Arc<dyn Queue>,
    pub(super) secret: ServerSecret,
    pub(super) location: StoreLocation,
}

/// Where ledger and queues are, with what this process holds of them.
#[derive(Debug)]
pub(super) enum StoreLocation {
    /// The queues are empty at each start, and nobody else clears what has expired.
    InProcess(SqliteLedger),
    /// The lock of the data directory, whose runners are this process's alone.
    #[cfg(feature = "aws")]
    OnAws { _lock: std::fs::File },
}

const OWNED: &str = "one serve owns a data directory: stop the other, or choose another --data-dir";

pub(super) async fn open<'a>(
    args: &ServeArgs,
    data: &DataDir,
    pools: impl Iterator<Item = &'a PoolName>,
) -> Result<Stores, Failure> {
    match args.ledger {
        LedgerKind::Embedded => in_process(data),
        #[cfg(feature = "aws")]
        LedgerKind::DynamoDb => on_aws::open(args, data, pools).await,
        #[cfg(not(feature = "aws"))]
        LedgerKind::DynamoDb => {
            drop(pools);
            Err(Failure::usage(
                "--ledger dynamodb is not built into this motorpool",
                "build one that has it: `cargo build --release --features aws`, or `--features ec2` for pools on EC2 as well",
            ))
        }
    }
}

fn in_process(data: &DataDir) -> Result<Stores, Failure> {
    let ledger = SqliteLedger::open(data.path()).map_err(|error| {
        let hint = if matches!(error, SqliteError::Locked { .. }) { OWNED } else { "" };
        Failure::failed(chain(&error), hint)
    })?;
    Ok(Stores {
        ledger: Arc::new(ledger.clone()),
        queue: Arc::new(InProcessQueue::default()),
        secret: ServerSecret::new(&data.server_secret()?),
        location: StoreLocation::InProcess(ledger),
    })
}
