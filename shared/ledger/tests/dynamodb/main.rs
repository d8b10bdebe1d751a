//! What the ledger over DynamoDB does beyond the port's contract: its table, its items, its requests, and how it meets other transactions
//! and loses answers. The engine is an emulator, behind a connector that fails on demand.

#[path = "../adapters/emulator.rs"]
mod emulator;
mod faults;
mod items;
mod meetings;
mod reads;
mod table;
mod world;
