//! The ledger on AWS, made from a loaded configuration: for composers, who need not know the SDK's client. Where credentials,
//! retries and time-outs come from is not known here.

use aws_sdk_dynamodb::Client;
use aws_types::SdkConfig;

use crate::DynamoLedger;
use crate::table::{TableError, ensure_table};

impl DynamoLedger {
    /// Over a table that is there already: see [`create_table_on_aws`]. Calls nobody yet.
    pub fn on_aws(config: &SdkConfig, table: &str) -> Self {
        Self::new(Client::new(config), table.to_owned())
    }
}

/// The table is there afterwards, made now or before, and is the one that the ledger needs. Any number of processes may do so at once.
pub async fn create_table_on_aws(config: &SdkConfig, table: &str) -> Result<(), TableError> {
    ensure_table(&Client::new(config), table).await
}
