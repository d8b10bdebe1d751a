//! What the use cases need of the world, as traits in our own words. No adapter, no SDK type.

pub mod alerts;
pub mod backend;
pub mod channels;
pub mod ci;
pub mod clock;
pub mod doorbell;
pub mod entropy;
pub mod ledger;
pub mod queue;
pub mod tx;
