//! What stands in for something, or before it: agents, machines, a clock; a ledger that waits, is cut off, or is counted.
//! Nothing here is judged or started by itself. EC2 and GitHub are faked in `tests/ec2` and `tests/ci`.

pub mod around;
pub mod channel_agent;
pub mod ci;
pub mod counted;
pub mod counting;
pub mod cutting;
pub mod fake_agent;
pub mod gating;
pub mod machines;
pub mod played;
pub mod turned_clock;
