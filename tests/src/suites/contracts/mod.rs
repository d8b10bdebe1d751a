//! One suite a port, run over each of its adapters. A fake passes the contract of the real thing.

pub mod ledger;
pub mod queue;
