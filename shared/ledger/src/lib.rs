//! The ledger's adapters: DynamoDB (AWS or embedded) and in memory. It decides nothing: `domain` does.

mod aws;
pub mod dynamo;
pub mod embedded;
mod keys;
mod listing;
pub mod memory;
mod places;
mod repeats;
pub mod table;

pub use aws::create_table_on_aws;
pub use dynamo::DynamoLedger;
pub use memory::MemoryLedger;
