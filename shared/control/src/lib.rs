//! The use cases, one module each: load, decide, write, act. And the ports that they need.
//! No HTTP, no DynamoDB, no process: those are adapters.

mod act;
mod adopt;
mod advance;
mod apply;
mod audit;
mod bootstrap;
mod caller;
mod climb;
mod control;
mod filling;
mod launch;
mod open;
mod pick;
mod plan;
mod pools;
pub mod ports;
mod provision;
mod refresh;
mod refused;
mod registration;
mod release;
mod runners;
mod secrets;
mod settle;
pub mod store;
mod sync;
mod take;
mod turn;
mod views;
mod why;

pub use caller::Caller;
pub use control::{Control, Parts, Settings};
pub use refresh::SweepWish;
pub use refused::{Refused, RefusedKind, whole_seconds};
pub use secrets::{ServerSecret, token_sha256};
pub use store::Page;
pub use sync::Synced;
