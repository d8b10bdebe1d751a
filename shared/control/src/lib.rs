//! The use cases, a folder a record: load, decide, write, act. And the ports that they need.
//! No HTTP, no DynamoDB, no process: those are adapters.

mod alert;
mod audit;
mod caller;
mod checkpoint;
mod claim;
mod control;
mod error;
mod launch;
pub mod measures;
mod pool;
pub mod ports;
mod refresh;
mod runner;
mod secrets;
pub mod store;
mod tries;

pub use caller::Caller;
pub use checkpoint::{JobWord, Told};
pub use control::{Control, Parts, Settings};
pub use error::{Refused, RefusedKind, whole_seconds};
pub use refresh::SweepWish;
pub use runner::{ConnectedAgent, NotRun, Synced, WhichRunners};
pub use secrets::{ServerSecret, token_sha256};
pub use store::{Page, WhichAlerts};
