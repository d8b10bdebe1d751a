//! The ledger's adapters: SQLite, DynamoDB and in memory, behind one port. They know no kind of record, and decide nothing.

#[cfg(feature = "dynamodb")]
pub mod dynamodb;
pub mod memory;
#[cfg(feature = "sqlite")]
pub mod sqlite;

#[cfg(feature = "dynamodb")]
pub use dynamodb::{DynamoLedger, create_table_on_aws};
pub use memory::MemoryLedger;
