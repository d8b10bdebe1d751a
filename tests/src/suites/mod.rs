//! Cases that are run against more than one adapter or target, and know only what they are given. They start nothing: who runs
//! them does.

pub mod black_box;
pub mod contracts;
