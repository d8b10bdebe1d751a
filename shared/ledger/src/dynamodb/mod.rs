//! The ledger on DynamoDB: one table (see `table`), one item a row, and one more for each place in a list beyond its first. It decides
//! nothing and scans nothing. Where credentials, retries and time-outs come from is not known here.

mod commit;
mod due;
mod expression;
mod read;
mod rows;
pub mod table;
mod transact;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_types::SdkConfig;
use motorpool_control::ports::ledger::{Children, Ledger, LedgerError, Placed, Span, Touch};
use motorpool_control::ports::tx::{Committed, Stored, Tx};
use motorpool_domain::Timestamp;
use motorpool_domain::record::Path;

use table::{TableError, ensure_table};

#[derive(Debug, Clone)]
pub struct DynamoLedger {
    client: Client,
    table: String,
}

impl DynamoLedger {
    /// Over a table that is there already: see [`ensure_table`]. Calls nobody yet.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self { client, table: table.into() }
    }

    /// For composers, who need not know the SDK's client. Over a table that is there already: see [`create_table_on_aws`].
    pub fn on_aws(config: &SdkConfig, table: &str) -> Self {
        Self::new(Client::new(config), table)
    }
}

/// The table is there afterwards, made now or before, and is the one that the ledger needs. Any number of processes may do so at once.
pub async fn create_table_on_aws(config: &SdkConfig, table: &str) -> Result<(), TableError> {
    ensure_table(&Client::new(config), table).await
}

#[async_trait]
impl Ledger for DynamoLedger {
    async fn get(&self, paths: &[Path]) -> Result<Vec<Option<Stored>>, LedgerError> {
        read::get(self, paths).await
    }

    async fn commit(&self, tx: &Tx) -> Result<Committed, LedgerError> {
        commit::commit(self, tx).await
    }

    async fn touch(&self, touch: &Touch) -> Result<(), LedgerError> {
        commit::touch(self, touch).await
    }

    async fn list(&self, span: &Span, at_most: usize) -> Result<Vec<Placed>, LedgerError> {
        read::list(self, span, at_most).await
    }

    async fn count(&self, span: &Span, at_most: usize) -> Result<usize, LedgerError> {
        read::count(self, span, at_most).await
    }

    async fn children(&self, of: &Children, at_most: usize) -> Result<Vec<Stored>, LedgerError> {
        read::children(self, of, at_most).await
    }

    async fn due(&self, now: Timestamp, at_most: usize) -> Result<Vec<Path>, LedgerError> {
        due::due(self, now, at_most).await
    }

    async fn ping(&self) -> Result<(), LedgerError> {
        read::ping(self).await
    }
}
