//! What is SQLite's own of the embedded ledger: its file, its lock, its commits, and what is left of them after a kill or on a full disk. What every
//! ledger does is in the contract suite.

mod backup;
mod file;
mod full_disk;
mod killed;
mod log;
mod records;
mod sweep;
mod together;
